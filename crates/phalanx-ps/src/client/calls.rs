//! Calls to servers: in parallel, with deadlines and bounded retries.

use crate::Executor;
use crate::plan::{ItemSpec, Layout};
use crate::proto::{self, Reply, reply, request};
use bytes::Bytes;
use futures_util::future::try_join_all;
use phalanx_base::{Code, Context as _, Error, Incarnation, Result, TaskId};
use phalanx_wire::bulk::{self, Transport};
use phalanx_wire::{Address, Backoff, InFrame, OutFrame, Outcome, Token, task_to_wire};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// The calling task, and its patience.
#[derive(Clone)]
pub struct ClientOptions {
    /// The job's digest; servers of another job refuse the call.
    pub job: u64,
    /// The calling task.
    pub task: TaskId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// The token that servers and this task must prove to know.
    pub token: Option<Token>,
    /// How long one call may take.
    pub deadline: Duration,
    /// How long a call is retried after failures of the connection, including the time of the tries.
    pub patience: Duration,
    /// Whether nobody needs the reply any more, because the job is over or this process was asked to stop: a call without a
    /// reply then gives up.
    pub stop: Stop,
    /// The number of this task's newest update that every server has acknowledged.
    pub acknowledged: Arc<AtomicU64>,
    /// The subscriber of the thread that made these options: it hears of servers that do not answer.
    log: tracing::Dispatch,
}

/// A server that is silent for this long is logged.
const LOG_AFTER: Duration = Duration::from_secs(5);

/// How often a server whose log is full is tried again, and how long.
const RETRY_FULL: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1800);

/// A check that a waiting call makes now and then.
pub type Stop = Arc<dyn Fn() -> bool + Send + Sync>;

impl ClientOptions {
    /// Returns patient defaults: 30 s for a call, 30 s of retries.
    #[must_use]
    pub fn new(job: u64, task: TaskId, incarnation: Incarnation) -> Self {
        let (deadline, patience) = (Duration::from_secs(30), Duration::from_secs(30));
        let stop = Arc::new(|| false);
        let log = tracing::dispatcher::get_default(Clone::clone);
        let acknowledged = Arc::default();
        Self { job, task, incarnation, token: None, deadline, patience, stop, acknowledged, log }
    }
}

/// A worker's connections to all parameter servers. Every call blocks, and ends by a deadline.
pub struct Client {
    runtime: tokio::runtime::Runtime,
    servers: Vec<Box<dyn Transport>>,
    options: ClientOptions,
    executor: Executor,
}

impl Client {
    /// Connects to these servers when they are first used.
    ///
    /// # Errors
    /// When the event loop cannot be started.
    pub fn connect(servers: &[(TaskId, Address)], options: ClientOptions) -> Result<Self> {
        let token = options.token.clone();
        let lane =
            |(task, address): &(TaskId, Address)| bulk::reach(address, format!("{task} at {address}"), token.clone());
        Self::over(|| servers.iter().map(lane).collect(), options)
    }

    /// As [`Self::connect`] over any transports; `make` is called inside the event loop.
    ///
    /// # Errors
    /// When the event loop cannot be started.
    pub fn over(make: impl FnOnce() -> Vec<Box<dyn Transport>>, options: ClientOptions) -> Result<Self> {
        let runtime = runtime()?;
        let servers = {
            let _inside = runtime.enter();
            make()
        };
        Ok(Self { runtime, servers, options, executor: Executor::Serial })
    }

    /// Creates the client of a job that is one process: its one server answers on the calling thread, and all compute
    /// threads help.
    ///
    /// # Errors
    /// When the event loop cannot be started.
    pub fn inside(server: Box<dyn Transport>, options: ClientOptions) -> Result<Self> {
        Ok(Self { runtime: runtime()?, servers: vec![server], options, executor: Executor::Parallel })
    }

    /// Whether this process is the entire job.
    #[must_use]
    pub fn is_inside(&self) -> bool {
        self.executor == Executor::Parallel
    }

    pub(super) fn executor(&self) -> Executor {
        self.executor
    }

    /// Returns the options.
    #[must_use]
    pub fn options(&self) -> &ClientOptions {
        &self.options
    }

    /// Returns the number of servers.
    #[must_use]
    pub fn servers(&self) -> usize {
        self.servers.len()
    }

    /// Creates the layout's shards and tables, or finds them; returns the handles on each server.
    pub(super) fn handles(&self, layout: &Layout, create: bool) -> Result<Vec<ServerHandles>> {
        let replies = self.call_all(|server| self.handles_frame(layout, server, None, create))?;
        replies.into_iter().map(|(reply, _)| ServerHandles::read(reply)).collect()
    }

    /// As [`Self::handles`] on one server: on this incarnation of it, or on any.
    pub(super) fn handles_on(
        &self,
        layout: &Layout,
        server: usize,
        incarnation: Option<Incarnation>,
        create: bool,
    ) -> Result<ServerHandles> {
        let frame = self.handles_frame(layout, server, incarnation, create);
        ServerHandles::read(self.block(self.call(server, frame))?.0)
    }

    fn handles_frame(
        &self,
        layout: &Layout,
        server: usize,
        incarnation: Option<Incarnation>,
        create: bool,
    ) -> OutFrame {
        let specs = layout.specs_for(server).iter().map(ItemSpec::to_wire).collect();
        let op = if create {
            request::Op::Create(proto::Create { specs })
        } else {
            request::Op::Find(proto::Find { specs })
        };
        self.frame(incarnation, op)
    }

    /// Builds a frame that only this incarnation of a server may answer, or any.
    pub(super) fn frame(&self, server: Option<Incarnation>, op: request::Op) -> OutFrame {
        let client = Some(task_to_wire(self.options.task, self.options.incarnation));
        let server_incarnation = server.map(|incarnation| incarnation.0);
        OutFrame::new(&proto::Request { job: self.options.job, client, op: Some(op), server_incarnation })
    }

    /// Calls one server, whichever incarnation of it answers.
    pub(super) fn ask(&self, server: usize, op: request::Op) -> Result<Reply> {
        Ok(self.block(self.call(server, self.frame(None, op)))?.0)
    }

    pub(crate) fn block<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        let mut future = pin!(future);
        if self.executor == Executor::Parallel {
            // Answered by this thread, most likely at once. Not in the event loop: a compute thread that waits for another
            // one may take up other work meanwhile, which may need an event loop itself.
            let _inside = self.runtime.enter();
            if let Poll::Ready(answer) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                return answer;
            }
        }
        self.runtime.block_on(future)
    }

    /// Repeats a call until `read` returns its outcome, or fails with `late` once `deadline` has passed.
    pub(super) async fn poll<T>(
        &self,
        (server, incarnation): (usize, Option<Incarnation>),
        op: request::Op,
        deadline: Instant,
        late: &str,
        read: impl Fn(Reply, Bytes) -> Result<Option<T>>,
    ) -> Result<T> {
        loop {
            let (reply, body) = self.call(server, self.frame(incarnation, op.clone())).await?;
            if let Some(outcome) = read(reply, body)? {
                return Ok(outcome);
            }
            if Instant::now() > deadline || (self.options.stop)() {
                return Err(Error::new(Code::OutcomeUnknown, format!("ps/{server} {late}")));
            }
        }
    }

    pub(super) fn call_all(&self, frame: impl Fn(usize) -> OutFrame) -> Result<Vec<(Reply, Bytes)>> {
        let calls = (0..self.servers.len()).map(|server| self.call(server, frame(server)));
        self.block(try_join_all(calls))
    }

    /// Calls a server, and retries while the connection fails. Every request has an id or changes nothing when repeated, so
    /// a retry is always safe; only when patience ends is the outcome unknown.
    pub(crate) async fn call(&self, server: usize, frame: OutFrame) -> Result<(Reply, Bytes)> {
        let peer = self.servers[server].peer();
        let started = Instant::now();
        let mut backoff = Backoff::new(started, self.options.patience, self.options.incarnation.0);
        let (mut unknown, mut logged) = (false, false);
        loop {
            let error = match self.attempt(server, frame.clone(), backoff.left(Instant::now())).await {
                Outcome::Done(answer) => {
                    if logged {
                        let silent = started.elapsed().as_secs();
                        tracing::dispatcher::with_default(&self.options.log, || {
                            tracing::info!(task = %self.options.task, peer, "{peer} answers again, after {silent} s");
                        });
                    }
                    return read(&answer);
                }
                // A server that is being restored will be ready soon.
                Outcome::Failed(error) if error.code() == Code::NotInitialized => error,
                // One whose log is full answers, and will have memory again: that does not count against patience.
                Outcome::Failed(error) if error.code() == Code::LogFull && started.elapsed() < LONGEST_PAUSE => {
                    backoff =
                        Backoff::new(Instant::now(), self.options.patience.max(RETRY_FULL), self.options.incarnation.0);
                    tokio::time::sleep(RETRY_FULL).await;
                    error
                }
                Outcome::Failed(error) if error.code() != Code::PeerUnreachable => return Err(error),
                Outcome::Failed(error) => error,
                Outcome::Unknown(error) => {
                    unknown = true;
                    error
                }
            };
            let now = Instant::now();
            let wait = if (self.options.stop)() { None } else { backoff.next_wait(now) };
            if !logged && wait.is_some() && now - started >= LOG_AFTER {
                logged = true;
                let (silent, left) = ((now - started).as_secs(), backoff.left(now).as_secs());
                tracing::dispatcher::with_default(&self.options.log, || {
                    tracing::warn!(
                        task = %self.options.task,
                        peer,
                        "no answer from {peer} for {silent} s, trying for {left} s more: {error}"
                    );
                });
            }
            match wait {
                Some(wait) => tokio::time::sleep(wait).await,
                None if unknown => {
                    return Err(Error::new(Code::OutcomeUnknown, format!("{peer} does not answer"))
                        .because(error)
                        .help("whether the last request took effect is not known; start the task again"));
                }
                None => return Err(error),
            }
        }
    }

    /// Tries once, for at most `left`. While there is no reply, it checks now and then whether it is still needed.
    async fn attempt(&self, server: usize, frame: OutFrame, left: Duration) -> Outcome<InFrame> {
        const PATIENCE: Duration = Duration::from_millis(500);
        /// The shortest deadline: a live server can answer in this time.
        const SHORTEST: Duration = Duration::from_secs(1);
        let mut call = self.servers[server].call(frame, self.options.deadline.min(left.max(SHORTEST)));
        loop {
            match tokio::time::timeout(PATIENCE, &mut call).await {
                Ok(outcome) => return outcome,
                Err(_) if (self.options.stop)() => {
                    let error = Error::new(Code::OutcomeUnknown, "the wait for an answer was given up");
                    return Outcome::Unknown(error.at(self.servers[server].peer().to_owned()));
                }
                Err(_) => {}
            }
        }
    }
}

/// The handles of one server, and the incarnation that gave them out.
pub(super) struct ServerHandles {
    pub(super) handles: Vec<u32>,
    pub(super) incarnation: Incarnation,
}

impl ServerHandles {
    fn read(reply: Reply) -> Result<Self> {
        match reply.result {
            Some(reply::Result::Handles(found)) => {
                Ok(Self { handles: found.handles, incarnation: Incarnation(reply.server_incarnation) })
            }
            other => Err(unexpected(&other)),
        }
    }
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context(Code::Internal, "the client's event loop cannot be started")
}

fn read(answer: &InFrame) -> Result<(Reply, Bytes)> {
    Ok((answer.header()?, answer.body()))
}

pub(super) fn unexpected(result: &Option<reply::Result>) -> Error {
    Error::new(Code::BadMessage, "a server's answer is not one to the question").because(format!("{result:?}"))
}
