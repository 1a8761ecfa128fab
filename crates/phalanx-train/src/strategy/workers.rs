//! The group of mirrored workers.

use crate::logging::LogScope;
use crate::server::warn_of_strangers;
use crate::{ServerOptions, identity};
use phalanx_base::{Code, Error, Result, Role, TaskId};
use phalanx_cluster::TaskConfig;
use phalanx_collective::{Group, GroupListener, GroupOptions, Peer, Reduce};
use phalanx_wire::proto::control::{BeatReply, BeatRequest, Identity};
use phalanx_wire::{Endpoint, Listening, control};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The timeout where one worker may have more to do than others: writing a checkpoint, opening input.
const LONG: Duration = Duration::from_secs(600);

/// The chief and the workers of a cluster without parameter servers, which make every step together, each with a model of its
/// own. All of them must make the same calls in the same order.
pub struct WorkerGroup {
    rank: usize,
    size: usize,
    patience: Duration,
    group: Mutex<Group>,
    log: LogScope,
    run_dir: Option<String>,
    /// Serves the others; closed after the group when this is dropped.
    _listening: Listening,
}

impl WorkerGroup {
    /// Connects to the other trainers of the cluster and waits for all of them. `None` if this process is the only one.
    ///
    /// # Errors
    /// Fails if this task is no trainer, its port cannot be used, or a worker does not join before the deadline.
    pub fn join(config: &TaskConfig, options: &ServerOptions) -> Result<Option<Self>> {
        let Some(task) = config.task() else { return Ok(None) };
        let trainers = config.trainers();
        let Some(rank) = trainers.iter().position(|(trainer, _)| *trainer == task) else {
            return Err(no_trainer(task));
        };
        if trainers.len() == 1 {
            return Ok(None);
        }
        let peers: Vec<Peer> = trainers.into_iter().map(|(task, address)| Peer { task, address }).collect();
        let address = &peers[rank].address;
        options.check_protected(task, address)?;
        let mut listening =
            Listening::bind(address, options.threads).map_err(|error| error.at(format!("{task} at {address}")))?;
        let log = LogScope::of_task(task);
        let build = options.build.clone().map_or_else(identity::build_fingerprint, Ok)?;
        let listener = GroupListener::new(task, identity::digest(&config.job_id()), &build);
        let bulk = Some(Arc::clone(&listener) as _);
        let endpoint = Endpoint { control: Arc::new(Alone), bulk, token: options.token.clone() };
        if let Some(warning) = listening.serve(endpoint)? {
            log.run(|| tracing::warn!(code = %warning.code(), "warning [{}]: {warning}", warning.code()));
        }
        if options.token.is_none() && !address.is_loopback() {
            log.run(|| warn_of_strangers(address));
        }
        if let Some(dir) = &options.status_dir {
            crate::status::joined(dir, task);
        }
        log.run(|| tracing::info!("waiting for {} workers to come", peers.len() - 1));
        let size = peers.len();
        let group = Group::connect(
            &listener,
            &GroupOptions {
                token: options.token.clone(),
                formation: options.formation_deadline,
                ..GroupOptions::new(rank, peers)
            },
        )?;
        log.run(|| {
            tracing::info!("all {size} workers are here, {} of them on this machine", 1 + group.same_host_peers());
        });
        let patience = phalanx_collective::PATIENCE;
        let group = Mutex::new(group);
        let run_dir = config.model_dir().or(config.output_dir()).map(str::to_owned);
        Ok(Some(Self { rank, size, patience, group, log, run_dir, _listening: listening }))
    }

    /// Returns the run directory of the job, if it has one.
    pub(crate) fn run_dir(&self) -> Option<&str> {
        self.run_dir.as_deref()
    }

    /// Returns the rank of this worker; 0 is the chief, or the first worker if there is none.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Returns the number of workers.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns the bytes of every worker, by rank. Waits long for workers that save or open their input.
    ///
    /// # Errors
    /// Fails if a worker is lost.
    pub fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.patiently(|group| group.all_gather(bytes))
    }

    /// Replaces the numbers by their sums over all workers.
    ///
    /// # Errors
    /// Fails if a worker is lost, or has tensors of other lengths.
    pub fn all_reduce(&self, tensors: &mut [&mut [f32]]) -> Result<()> {
        self.group().all_reduce_many(tensors, Reduce::Sum)
    }

    /// Waits until every worker is here.
    ///
    /// # Errors
    /// Fails if a worker is lost.
    pub fn barrier(&self) -> Result<()> {
        self.patiently(Group::barrier)
    }

    /// Ends the group: the other workers fail with this error.
    pub fn abort(&self, error: &Error) {
        self.group().abort(error.clone());
    }

    pub(crate) fn group(&self) -> MutexGuard<'_, Group> {
        // A group that failed in the middle of an operation fails at the next call.
        self.group.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `f` in the task's log scope: the events that it emits carry the task.
    pub fn in_scope<T>(&self, f: impl FnOnce() -> T) -> T {
        self.log.run(f)
    }

    /// Runs a collective operation with a long timeout, after work that takes some workers much longer than others.
    pub(crate) fn patiently<T>(&self, meet: impl FnOnce(&mut Group) -> Result<T>) -> Result<T> {
        let mut group = self.group();
        group.set_patience(LONG);
        let met = meet(&mut group);
        group.set_patience(self.patience);
        met
    }
}

fn no_trainer(task: TaskId) -> Error {
    let error = Error::new(Code::BadSetting, format!("{task} does not take part in mirrored training"));
    match task.role {
        Role::Ps => error
            .because("mirrored workers keep the variables themselves")
            .help("remove the ps job from the cluster, or use parameter servers"),
        _ => error.help("chief and worker tasks do"),
    }
}

/// The control handler of a mirrored worker: there is no roster, since the group itself detects lost workers.
struct Alone;

impl control::Handler for Alone {
    fn identify(&self) -> Identity {
        Identity::default()
    }

    fn beat(&self, _: BeatRequest) -> Result<BeatReply> {
        Err(Error::new(Code::WrongJob, "this task trains with mirrored variables")
            .because("mirrored workers have no roster")
            .help("check whether two jobs use the same addresses"))
    }
}
