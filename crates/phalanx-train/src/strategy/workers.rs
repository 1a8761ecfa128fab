//! The group of mirrored workers.

use crate::logging::LogScope;
use crate::server::warn_of_strangers;
use crate::{ServerOptions, identity};
use phalanx_base::{Code, Error, Result, Role, TaskId};
use phalanx_cluster::TaskConfig;
use phalanx_collective::{Group, GroupListener, GroupOptions, Peer};
use phalanx_wire::proto::control::{BeatReply, BeatRequest, Identity};
use phalanx_wire::{Endpoint, Listening, control};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The timeout where one worker may have more to do than others: writing a checkpoint, opening input.
const LONG: Duration = Duration::from_secs(600);

/// This worker's membership in a group that trains the same model.
pub(crate) struct Workers {
    rank: usize,
    size: usize,
    patience: Duration,
    group: Mutex<Group>,
    log: LogScope,
    /// Serves the others; closed after the group when this is dropped.
    _listening: Listening,
}

impl Workers {
    /// Connects to the other trainers of the cluster. Ranks: the chief, then the workers.
    pub(crate) fn join(config: &TaskConfig, options: &ServerOptions) -> Result<Option<Self>> {
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
        let mut listening =
            Listening::bind(address, options.threads).map_err(|error| error.at(format!("{task} at {address}")))?;
        let log = LogScope::of_task(task);
        let build = options.build.clone().map_or_else(identity::build, Ok)?;
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
        Ok(Some(Self { rank, size, patience, group, log, _listening: listening }))
    }

    pub(crate) fn rank(&self) -> usize {
        self.rank
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    pub(crate) fn group(&self) -> MutexGuard<'_, Group> {
        // A group that failed in the middle of an operation fails at the next call.
        self.group.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `f` in the task's log scope: the events that it emits carry the task.
    pub(crate) fn in_scope<T>(&self, f: impl FnOnce() -> T) -> T {
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
