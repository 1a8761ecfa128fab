//! The workers that train the same model together, as one of them sees them.

use crate::{Say, ServerOptions, identity};
use phalanx_base::{Code, Error, Result, Role, TaskId};
use phalanx_cluster::TaskConfig;
use phalanx_collective::{Door, Group, Options, Peer};
use phalanx_wire::proto::control::{BeatReply, BeatRequest, Identity};
use phalanx_wire::{Endpoint, Listening, control};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long workers may wait for one another where one alone has work to do: writing a checkpoint, opening input.
const LONG: Duration = Duration::from_secs(600);

/// A group of processes with the same model.
pub(crate) struct Workers {
    task: TaskId,
    rank: usize,
    size: usize,
    patience: Duration,
    group: Mutex<Group>,
    say: Say,
    /// Serves the others; closed when this is dropped, behind the group.
    _listening: Listening,
}

impl Workers {
    /// Meets the other trainers of the cluster: chief first, then the workers.
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
        let build = options.build.clone().map_or_else(identity::build, Ok)?;
        let door = Door::new(task, identity::digest(&config.job_id()), &build);
        let bulk = Some(Arc::clone(&door) as _);
        let endpoint = Endpoint { control: Arc::new(Alone), bulk, token: options.token.clone() };
        if let Some(warning) = listening.serve(endpoint)? {
            (options.say)(&format!("{task}: warning [{}]: {warning}", warning.code()));
        }
        if options.token.is_none() && !address.is_loopback() {
            (options.say)(&format!(
                "{task}: warning: whoever reaches port {} may take part in this job; set PHALANX_TOKEN on every task",
                address.port()
            ));
        }
        if let Some(dir) = &options.status_dir {
            crate::status::joined(dir, task);
        }
        (options.say)(&format!("{task}: waiting for {} workers to come", peers.len() - 1));
        let size = peers.len();
        let group = Group::connect(
            &door,
            &Options {
                token: options.token.clone(),
                formation: options.formation_deadline,
                ..Options::new(rank, peers)
            },
        )?;
        (options.say)(&format!(
            "{task}: all {size} workers are here, {} of them on this machine",
            1 + group.neighbours()
        ));
        let patience = phalanx_collective::PATIENCE;
        let group = Mutex::new(group);
        Ok(Some(Self { task, rank, size, patience, group, say: options.say.clone(), _listening: listening }))
    }

    pub(crate) fn rank(&self) -> usize {
        self.rank
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    pub(crate) fn group(&self) -> MutexGuard<'_, Group> {
        // A group that failed in the middle of something says so at the next call.
        self.group.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says something to whoever watches this task.
    pub(crate) fn say(&self, line: &str) {
        (self.say)(&format!("{}: {line}", self.task));
    }

    /// Meets the others where some may come much later: after work that not all have, or not equally much of.
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

/// Mirrored workers have no chief that counts them: the group itself notices who is lost.
struct Alone;

impl control::Handler for Alone {
    fn identify(&self) -> Identity {
        Identity::default()
    }

    fn beat(&self, _: BeatRequest) -> Result<BeatReply> {
        Err(Error::new(Code::WrongJob, "this task trains with mirrored variables")
            .because("mirrored workers keep no list of members")
            .help("see whether two jobs have the same addresses"))
    }
}
