//! A whole job inside of one process.

use crate::{Server, ServerOptions, identity};
use phalanx_base::{Code, Error, Result, Role, TaskId};
use phalanx_cluster::{ClusterSpec, TaskConfig};
use phalanx_wire::{Address, Listening};

/// Parameter servers, a chief and workers, each with its own port on loopback and everything else real: for tests and
/// first steps.
///
/// ```
/// use phalanx_train::MiniCluster;
/// let cluster = MiniCluster::start(2, 2).unwrap(); // 2 ps, chief + 1 worker
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
    /// Starts `ps` parameter servers and `trainers` trainers, the first of which is the chief.
    ///
    /// # Errors
    /// When the operating system gives us no ports.
    pub fn start(ps: u32, trainers: u32) -> Result<Self> {
        Self::start_with(ps, trainers, ServerOptions::default())
    }

    /// The same with settings of one's own.
    ///
    /// # Errors
    /// When the operating system gives us no ports.
    pub fn start_with(ps: u32, trainers: u32, mut options: ServerOptions) -> Result<Self> {
        options.build = Some(options.build.map_or_else(identity::build, Ok)?);
        let any: Address = "127.0.0.1:0".parse()?;
        let bind = |count: u32| (0..count).map(|_| Listening::bind(&any, 1)).collect::<Result<Vec<_>>>();
        let (ps, chief, workers) = (bind(ps)?, bind(1)?, bind(trainers.saturating_sub(1))?);
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

    /// Runs a program's part for every task, each on a thread of its own, as so many processes would; the chief's result.
    /// Parameter servers serve.
    ///
    /// # Errors
    /// The chief's, or that of another task where the chief has none.
    pub fn run<T: Send>(&self, part: impl Fn(&Server) -> Result<T> + Sync) -> Result<T> {
        let (chief, workers) = self.trainers.split_first().ok_or_else(|| Error::new(Code::Internal, "no chief"))?;
        std::thread::scope(|scope| {
            let part = &part;
            let serving = self.servers.iter().map(|server| scope.spawn(move || server.join())).collect::<Vec<_>>();
            let working = workers.iter().map(|server| scope.spawn(move || part(server).map(drop))).collect::<Vec<_>>();
            let done = part(chief)?;
            for thread in serving.into_iter().chain(working) {
                thread.join().unwrap_or_else(|_| Err(Error::new(Code::Internal, "a task panicked")))?;
            }
            Ok(done)
        })
    }

    /// The parameter servers.
    #[must_use]
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The trainers, the chief first.
    #[must_use]
    pub fn trainers(&self) -> &[Server] {
        &self.trainers
    }
}
