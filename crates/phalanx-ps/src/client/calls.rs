//! Calls to servers: in parallel, with deadlines and bounded retries.

use crate::Crew;
use crate::plan::Layout;
use bytes::Bytes;
use futures_util::future::try_join_all;
use phalanx_base::{Code, Context as _, Error, Incarnation, Result, Role, TaskId};
use phalanx_wire::bulk::{self, Transport};
use phalanx_wire::proto::params::{self, Reply, reply, request};
use phalanx_wire::{Address, Backoff, InFrame, OutFrame, Outcome, Token};
use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Who calls, and how patiently.
#[derive(Clone)]
pub struct Options {
    /// The job's digest; servers of another job refuse.
    pub job: u64,
    /// The calling task.
    pub task: TaskId,
    /// Its life.
    pub incarnation: Incarnation,
    /// What servers must know, and want to be shown that this task knows.
    pub token: Option<Token>,
    /// How long one call may take.
    pub deadline: Duration,
    /// How long a call is tried again after failures of the connection; time that the tries take counts.
    pub patience: Duration,
    /// Says that nobody needs the answer any more, because the job is over or this process was asked to stop: a call
    /// that has no answer yet then gives up.
    pub stop: Stop,
    /// Logs that a server does not answer, and that it does again.
    pub say: Arc<dyn Fn(&str) + Send + Sync>,
}

/// A server that has not answered for this long is worth a line in the log.
const WORTH_SAYING: Duration = Duration::from_secs(5);

/// Asked now and then by a call that waits.
pub type Stop = Arc<dyn Fn() -> bool + Send + Sync>;

impl Options {
    /// Patient defaults: 30 s for a call, 30 s of retries.
    #[must_use]
    pub fn new(job: u64, task: TaskId, incarnation: Incarnation) -> Self {
        let (deadline, patience) = (Duration::from_secs(30), Duration::from_secs(30));
        let stop = Arc::new(|| false);
        Self { job, task, incarnation, token: None, deadline, patience, stop, say: Arc::new(|_| {}) }
    }
}

/// A worker's connections to all parameter servers. Every call blocks, and ends by a deadline.
pub struct Client {
    runtime: tokio::runtime::Runtime,
    servers: Vec<Box<dyn Transport>>,
    options: Options,
    crew: Crew,
}

impl Client {
    /// Connections to these servers, made when first used.
    ///
    /// # Errors
    /// When the operating system gives us no event loop.
    pub fn connect(servers: &[(TaskId, Address)], options: Options) -> Result<Self> {
        let runtime = runtime()?;
        let _inside = runtime.enter();
        let lane = |(task, address): &(TaskId, Address)| {
            bulk::reach(address, format!("{task} at {address}"), options.token.clone())
        };
        let lanes = servers.iter().map(lane).collect();
        drop(_inside);
        Ok(Self { runtime, servers: lanes, options, crew: Crew::Alone })
    }

    /// The same over any transports; `make` is called where connections can be made.
    ///
    /// # Errors
    /// When the operating system gives us no event loop.
    pub fn over(make: impl FnOnce() -> Vec<Box<dyn Transport>>, options: Options) -> Result<Self> {
        let runtime = runtime()?;
        let servers = {
            let _inside = runtime.enter();
            make()
        };
        Ok(Self { runtime, servers, options, crew: Crew::Alone })
    }

    /// A job that is this process: its one server answers on the thread that asks, and all threads that compute help.
    ///
    /// # Errors
    /// When the operating system gives us no event loop.
    pub fn inside(server: Box<dyn Transport>, options: Options) -> Result<Self> {
        Ok(Self { runtime: runtime()?, servers: vec![server], options, crew: Crew::Compute })
    }

    /// Whether this process is the whole job, and answers itself.
    #[must_use]
    pub fn is_inside(&self) -> bool {
        self.crew == Crew::Compute
    }

    pub(super) fn crew(&self) -> Crew {
        self.crew
    }

    /// Who calls.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// How many servers there are.
    #[must_use]
    pub fn servers(&self) -> usize {
        self.servers.len()
    }

    /// Asks a server how it is.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn describe(&self, server: usize) -> Result<params::Description> {
        let frame = self.frame(request::Op::Describe(params::Describe {}));
        match self.block(self.call(server, frame))?.0.result {
            Some(reply::Result::Description(description)) => Ok(description),
            other => Err(unexpected(&other)),
        }
    }

    /// How far training is, and what the server that counts steps says of itself.
    ///
    /// # Errors
    /// When that server does not answer.
    pub fn progress(&self) -> Result<(u64, params::Description)> {
        let answer = self.block(self.call(0, self.frame(request::Op::Describe(params::Describe {}))))?.0;
        match answer.result {
            Some(reply::Result::Description(description)) => Ok((answer.global_step, description)),
            other => Err(unexpected(&other)),
        }
    }

    /// Every task life that has pushed to a server, or takes part in its rounds, and is not shut out.
    ///
    /// # Errors
    /// When a server does not answer.
    pub fn lives(&self) -> Result<BTreeSet<(TaskId, Incarnation)>> {
        let mut lives = BTreeSet::new();
        for server in 0..self.servers.len() {
            for life in self.describe(server)?.lives {
                let role = Role::ALL.get(life.role as usize);
                let role = role.ok_or_else(|| Error::new(Code::BadMessage, "a server knows a role we do not"))?;
                lives.insert((TaskId::new(*role, life.index), Incarnation(life.incarnation)));
            }
        }
        Ok(lives)
    }

    /// What this task, in this life or a former one, wanted to find again; see [`super::Push::note`].
    ///
    /// # Errors
    /// When the server that keeps the notes does not answer.
    pub fn recall(&self) -> Result<Option<Vec<u8>>> {
        let frame = self.frame(request::Op::Recall(params::Recall {}));
        let Some(reply::Result::Notes(found)) = self.block(self.call(0, frame))?.0.result else {
            return Err(Error::new(Code::BadMessage, "a server's answer is not one to the question"));
        };
        let own = self.options.task.to_string();
        Ok(found.notes.into_iter().find(|note| note.task == own).map(|note| note.note))
    }

    /// The committed steps.
    ///
    /// # Errors
    /// When the server that counts them does not answer.
    pub fn global_step(&self) -> Result<u64> {
        let frame = self.frame(request::Op::Describe(params::Describe {}));
        Ok(self.block(self.call(0, frame))?.0.global_step)
    }

    /// Shuts a lost task's life out everywhere and answers for each server the last step that reached it and
    /// whether all of that step did.
    ///
    /// # Errors
    /// When a server does not answer.
    pub fn fence(&self, task: TaskId, incarnation: Incarnation) -> Result<Vec<(u64, bool)>> {
        let lost = Some(to_wire(task, incarnation));
        let answers = self.call_all(|_| self.frame(request::Op::Fence(params::Fence { lost })))?;
        let fenced = |(answer, _): (Reply, Bytes)| match answer.result {
            Some(reply::Result::Fenced(fenced)) => Ok((fenced.step, fenced.complete)),
            other => Err(unexpected(&other)),
        };
        answers.into_iter().map(fenced).collect()
    }

    /// Makes the layout's shards and tables, or finds them made; answers the handles on each server.
    pub(super) fn make(&self, layout: &Layout, create: bool) -> Result<Vec<Made>> {
        let answers = self.call_all(|server| self.make_frame(layout, server, 0, create))?;
        answers.into_iter().map(|(answer, _)| Made::read(answer)).collect()
    }

    /// The same on one server; `life` 0 stands for whichever incarnation of it answers.
    pub(super) fn make_on(&self, layout: &Layout, server: usize, life: u64, create: bool) -> Result<Made> {
        Made::read(self.block(self.call(server, self.make_frame(layout, server, life, create)))?.0)
    }

    fn make_frame(&self, layout: &Layout, server: usize, life: u64, create: bool) -> OutFrame {
        let specs = layout.specs_for(server);
        self.frame_for(
            life,
            if create {
                request::Op::Create(params::Create { specs })
            } else {
                request::Op::Find(params::Find { specs })
            },
        )
    }

    pub(crate) fn frame(&self, op: request::Op) -> OutFrame {
        self.frame_for(0, op)
    }

    /// A frame that only this life of a server may answer.
    pub(super) fn frame_for(&self, server_life: u64, op: request::Op) -> OutFrame {
        let client = Some(to_wire(self.options.task, self.options.incarnation));
        OutFrame::new(&params::Request { job: self.options.job, client, op: Some(op), server_life })
    }

    pub(crate) fn block<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        let mut future = pin!(future);
        if self.crew == Crew::Compute {
            // Answered by this thread, and most likely at once. Not in the event loop: a thread that waits for another of
            // its crew may take up any other work meanwhile, and that may want a loop of its own.
            let _inside = self.runtime.enter();
            if let Poll::Ready(answer) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                return answer;
            }
        }
        self.runtime.block_on(future)
    }

    pub(super) fn call_all(&self, frame: impl Fn(usize) -> OutFrame) -> Result<Vec<(Reply, Bytes)>> {
        let calls = (0..self.servers.len()).map(|server| self.call(server, frame(server)));
        self.block(try_join_all(calls))
    }

    /// One call, tried again while the connection fails. Every request has a name or changes nothing when repeated,
    /// so trying again is always safe; only when patience ends is the outcome unknown.
    pub(crate) async fn call(&self, server: usize, frame: OutFrame) -> Result<(Reply, Bytes)> {
        let peer = self.servers[server].peer();
        let started = Instant::now();
        let mut backoff = Backoff::new(started, self.options.patience, self.options.incarnation.0);
        let (mut unknown, mut said) = (false, false);
        loop {
            let error = match self.attempt(server, frame.clone(), backoff.left(Instant::now())).await {
                Outcome::Done(answer) => {
                    if said {
                        let silent = started.elapsed().as_secs();
                        (self.options.say)(&format!("{}: {peer} answers again, after {silent} s", self.options.task));
                    }
                    return read(&answer);
                }
                // A server that is being restored will be there soon.
                Outcome::Failed(error) if error.code() == Code::NotInitialized => error,
                Outcome::Failed(error) if error.code() != Code::PeerUnreachable => return Err(error),
                Outcome::Failed(error) => error,
                Outcome::Unknown(error) => {
                    unknown = true;
                    error
                }
            };
            let now = Instant::now();
            let wait = if (self.options.stop)() { None } else { backoff.next_wait(now) };
            if !said && wait.is_some() && now - started >= WORTH_SAYING {
                said = true;
                let (silent, left) = ((now - started).as_secs(), backoff.left(now).as_secs());
                let line = format!("no answer from {peer} for {silent} s, trying for {left} s more: {error}");
                (self.options.say)(&format!("{}: {line}", self.options.task));
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

    /// One try of at most `left`. While there is no answer, it is asked every so often whether anybody still waits for it.
    async fn attempt(&self, server: usize, frame: OutFrame, left: Duration) -> Outcome<InFrame> {
        const PATIENCE: Duration = Duration::from_millis(500);
        /// However little time is left, a server that is there can answer.
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

/// What a server made or found, and which life of it.
pub(super) struct Made {
    pub(super) handles: Vec<u32>,
    pub(super) life: u64,
}

impl Made {
    fn read(answer: Reply) -> Result<Self> {
        match answer.result {
            Some(reply::Result::Handles(handles)) => Ok(Self { handles: handles.handles, life: answer.server_life }),
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

/// A task's life as messages have it.
#[must_use]
pub fn to_wire(task: TaskId, incarnation: Incarnation) -> params::Client {
    let role = Role::ALL.iter().position(|&role| role == task.role).unwrap_or(0) as u32;
    params::Client { role, index: task.index, incarnation: incarnation.0 }
}
