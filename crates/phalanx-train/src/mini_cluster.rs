//! A job inside one process.

use crate::server::catch_panic;
pub(crate) use crate::server::panic_text;
use crate::{Server, ServerOptions, identity};
use phalanx_base::{Code, Error, Fault, Result, Role, TaskId};
use phalanx_cluster::{ClusterSpec, TaskConfig};
use phalanx_wire::{Address, Listening, Token};
use std::any::Any;
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};

/// A job inside one process, for tests and first steps: parameter servers, a chief and workers, each with its own port on
/// loopback.
///
/// ```
/// use phalanx_train::MiniCluster;
/// let cluster = MiniCluster::start(2, 1).unwrap(); // 2 ps, a chief, 1 worker
/// assert_eq!(cluster.trainers().len(), 2);
/// cluster.trainers().iter().for_each(|server| server.wait_until_formed().unwrap());
/// cluster.trainers()[0].leave(None); // the chief ends the job
/// cluster.servers().iter().for_each(|server| server.join().unwrap());
/// ```
pub struct MiniCluster {
    servers: Vec<Server>,
    trainers: Vec<Server>,
}

impl MiniCluster {
    /// Starts `ps` parameter servers, a chief, and `workers` workers beside it, as `phalanx launch --workers` counts them.
    ///
    /// # Errors
    /// When no ports are free.
    pub fn start(ps: u32, workers: u32) -> Result<Self> {
        Self::start_with(ps, workers, ServerOptions::default())
    }

    /// Starts tasks with these settings. Without a token, the cluster creates one that only its tasks know.
    ///
    /// # Errors
    /// When no ports are free.
    pub fn start_with(ps: u32, workers: u32, mut options: ServerOptions) -> Result<Self> {
        options.build = Some(options.build.map_or_else(identity::build_fingerprint, Ok)?);
        // All its tasks are in this process, so nobody else needs to know the token.
        options.token = Some(options.token.map_or_else(Token::random, Ok)?);
        let any: Address = "127.0.0.1:0".parse()?;
        let bind = |count: u32| (0..count).map(|_| Listening::bind(&any, 1)).collect::<Result<Vec<_>>>();
        let (ps, chief, workers) = (bind(ps)?, bind(1)?, bind(workers)?);
        let addresses =
            |tasks: &[Listening]| tasks.iter().map(|task| format!("127.0.0.1:{}", task.port())).collect::<Vec<_>>();
        let mut cluster = ClusterSpec::new().job("chief", addresses(&chief)).job("ps", addresses(&ps));
        if !workers.is_empty() {
            cluster = cluster.job("worker", addresses(&workers));
        }
        let start = |role: Role, tasks: Vec<Listening>| -> Result<Vec<Server>> {
            let start = |(index, listening)| {
                let config = TaskConfig::from_cluster(cluster.clone(), TaskId::new(role, index))?;
                Server::start_on(listening, config, options.clone(), None)
            };
            (0..).zip(tasks).map(start).collect()
        };
        let servers = start(Role::Ps, ps)?;
        let mut trainers = start(Role::Chief, chief)?;
        trainers.extend(start(Role::Worker, workers)?);
        Ok(Self { servers, trainers })
    }

    /// Runs `part` for every trainer, each on its own thread and in its log scope, while the parameter servers serve. Returns
    /// the chief's result when every task has ended.
    ///
    /// A part that returns ends its task, as the end of a process would: without
    /// [`Supervisor::stop`](crate::Supervisor::stop) before it, a chief fails the job and a worker counts as lost. A
    /// mistake or a panic of any trainer fails the job; a worker that fails for the infrastructure counts as lost.
    ///
    /// ```
    /// use phalanx_base::{Code, Error};
    /// use phalanx_train::MiniCluster;
    /// let cluster = MiniCluster::start(1, 1)?;
    /// let error = cluster.run(|_| Err::<(), _>(Error::new(Code::BadSetting, "no such model"))).unwrap_err();
    /// assert_eq!(error.what(), "no such model");
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// The chief's, or that of another task where the chief has none.
    ///
    /// # Panics
    /// When a part panicked, with the first such panic, after every task has ended.
    pub fn run<T: Send>(&self, part: impl Fn(&Server) -> Result<T> + Sync) -> Result<T> {
        let (chief, workers) = self.trainers.split_first().ok_or_else(|| Error::new(Code::Internal, "no chief"))?;
        let first_panic = Mutex::new(None);
        let run = |server: &Server| {
            let done = server.in_scope(|| run_part(server, &part, &first_panic));
            let mistake = |error: &&Error| matches!(error.code().fault(), Fault::Usage | Fault::User | Fault::Internal);
            if let (Some(error), Some(chief)) = (done.as_ref().err().filter(mistake), chief.chief()) {
                // Another attempt would fail in the same way.
                chief.fail(Error::new(error.code(), format!("{} failed", server.task())).because(error));
            }
            done
        };
        let (done, others) = std::thread::scope(|scope| {
            // A killed task has no result.
            let alive = |server: &Server, ended: Result<()>| if server.is_killed() { Ok(()) } else { ended };
            let serve = |server| scope.spawn(move || alive(server, server.join()));
            let serving: Vec<_> = self.servers.iter().map(serve).collect();
            let work = |server| scope.spawn(move || alive(server, run(server).map(drop)));
            let working: Vec<_> = workers.iter().map(work).collect();
            let done = run(chief);
            let end = |thread: std::thread::ScopedJoinHandle<'_, Result<()>>| {
                thread.join().unwrap_or_else(|_| Err(Error::new(Code::Internal, "a parameter server panicked")))
            };
            (done, serving.into_iter().chain(working).map(end).collect::<Vec<_>>())
        });
        if let Some(panic) = first_panic.into_inner().unwrap_or_else(PoisonError::into_inner) {
            resume_unwind(panic);
        }
        let done = done?;
        others.into_iter().collect::<Result<()>>().map(|()| done)
    }

    /// Kills a task such as `worker/0`, as the operating system kills a process: its heartbeats stop, its connections die,
    /// and it tells nobody. The others notice within about half a second. Its part of [`Self::run`] ends with the next call
    /// that it makes to another task, and its result counts for nothing.
    ///
    /// ```
    /// use phalanx_train::MiniCluster;
    /// let cluster = MiniCluster::start(1, 2)?;
    /// cluster.kill("worker/1")?;
    /// assert!(cluster.kill("worker/2").is_err());
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the cluster has no such task.
    pub fn kill(&self, task: &str) -> Result<()> {
        let task: TaskId = task.parse()?;
        let found = self.servers.iter().chain(&self.trainers).find(|server| server.task() == task);
        let missing = || Error::new(Code::NoSuchTask, format!("the cluster has no {task}"));
        found.ok_or_else(missing).map(Server::kill)
    }

    /// Returns the parameter servers.
    #[must_use]
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Returns the trainers, the chief first.
    #[must_use]
    pub fn trainers(&self) -> &[Server] {
        &self.trainers
    }
}

/// Runs one trainer's part, and ends the task with it.
fn run_part<T>(
    server: &Server,
    part: impl Fn(&Server) -> Result<T>,
    first_panic: &Mutex<Option<Box<dyn Any + Send>>>,
) -> Result<T> {
    let (done, panic) = catch_panic(server, part);
    if let Some(panic) = panic {
        first_panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic);
    }
    match &done {
        Ok(_) => server.abandon(),
        Err(error) => server.leave(Some(error)),
    }
    done
}
