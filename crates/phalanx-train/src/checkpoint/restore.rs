//! Restores parameter servers from the run directory: all of them, or one that came back.

use super::{CheckpointStore, Saver};
use crate::Server;
use crate::identity::random;
use phalanx_base::{Code, Error, Incarnation, Result};
use phalanx_cluster::Phase;
use phalanx_ps::Client;
use phalanx_ps::TaskIncarnation;
use phalanx_ps::checkpoint::{Checkpoint, SavedProgress, compare};
use phalanx_ps::client::{RemoteModel, ServerDescription};
use phalanx_ps::recovery::{Action, Event, Failure, Known, LostSteps, Recovery, RecoveryOutcome, Saved};
use phalanx_storage::Dir;
use std::cell::RefCell;
use std::time::{Duration, Instant};

/// How long the servers may take to read.
const DEADLINE: Duration = Duration::from_secs(1800);

/// How long another server may take to report which updates it has.
const SURVEY: Duration = Duration::from_secs(3);

/// Restores servers from checkpoints.
pub(crate) struct Restorer<'a> {
    server: &'a Server,
    client: &'a Client,
    checkpoints: &'a CheckpointStore,
    /// Synchronous training.
    rounds: bool,
    /// The checkpoints that turned out to be damaged, by name.
    damaged: RefCell<Vec<String>>,
}

/// The outcome of recovering a server that came back.
pub(crate) enum Recovered {
    /// It held its part.
    Held,
    /// It has its part of a checkpoint.
    Restored { loss: LostSteps },
}

impl<'a> Restorer<'a> {
    pub(crate) fn new(server: &'a Server, client: &'a Client, saver: &'a Saver) -> Self {
        Self { server, client, checkpoints: saver.checkpoints(), rounds: saver.rounds(), damaged: RefCell::default() }
    }

    /// Restores all servers, of which none has a model, from the newest usable checkpoint. Returns its name and what was lost,
    /// or `None` where there is no checkpoint. Logs a damaged checkpoint and uses the one before.
    pub(crate) fn restore_job(&self, remote: &RemoteModel) -> Result<Option<(String, LostSteps)>> {
        let mut last: Option<Error> = None;
        for name in self.checkpoints.newest_first() {
            match self.restore_all(remote, &name) {
                Ok(loss) => return Ok(Some((name, loss))),
                Err(error) if Failure::of(error.code()) == Failure::Damaged => {
                    self.pass_over(&name, &error);
                    last = Some(error);
                }
                Err(error) => return Err(error.at(format!("{}/{name}", self.checkpoints.dir().location()))),
            }
        }
        last.map_or(Ok(None), |error| Err(self.checkpoints.nothing_usable(error)))
    }

    fn restore_all(&self, remote: &RemoteModel, name: &str) -> Result<LostSteps> {
        let checkpoint = self.open(remote, name)?;
        let incarnations: Vec<Incarnation> = (0..self.client.servers()).map(|i| remote.incarnation(i)).collect();
        let everybody: Vec<(usize, Incarnation)> = incarnations.iter().copied().enumerate().collect();
        self.put(remote, &everybody, &checkpoint)?;
        let mut counts = LostSteps::default();
        for (server, incarnation) in everybody.into_iter().rev() {
            // Trainers that are still here continue to push; those of former jobs are gone.
            let live = self.server.live();
            let mut applied = checkpoint.progress(server, self.client.servers())?;
            applied.retain(|progress| live.contains(&progress.task));
            let saved = saved_by(&checkpoint, &applied)?;
            let known = Known { server, rounds: self.rounds, live, ..Known::default() };
            counts = known.lost_steps(&saved, &[]);
            self.client.set_progress(server, incarnation, &applied, &counts)?;
        }
        Ok(counts)
    }

    /// Gives a server that came back its part of the newest usable checkpoint, declares it ready, and logs what was lost.
    /// `seen`: the most committed steps that this task knows of. After a failure that may pass, call this again.
    pub(crate) fn recover(&self, remote: &mut RemoteModel, server: usize, seen: u64) -> Result<Recovered> {
        let checkpoints = self.checkpoints.newest_first();
        let (rounds, live) = (self.rounds, self.server.live());
        let mut recovery = Recovery::new(Known { server, rounds, seen, live, checkpoints: checkpoints.len() });
        let mut action = recovery.begin();
        let mut applied = Vec::new();
        let mut last = None;
        loop {
            let done = match action {
                Action::Finish(RecoveryOutcome::Held) => return Ok(Recovered::Held),
                Action::Finish(RecoveryOutcome::Whole) => {
                    self.server.in_scope(|| {
                        tracing::info!(
                            server,
                            "ps/{server} is back with every update it had acknowledged; nothing was lost"
                        );
                    });
                    return Ok(Recovered::Held);
                }
                Action::Finish(RecoveryOutcome::Restored(checkpoint, loss)) => {
                    self.report(server, &checkpoints[checkpoint], &loss);
                    return Ok(Recovered::Restored { loss });
                }
                Action::Finish(RecoveryOutcome::NoCheckpoint) => {
                    return Err(lost_for_good(server, "there is no checkpoint"));
                }
                Action::Finish(RecoveryOutcome::NoneUsable) => {
                    let none = || Error::new(Code::CheckpointDamaged, "no checkpoint can be used");
                    return Err(self.checkpoints.nothing_usable(last.unwrap_or_else(none)));
                }
                Action::Finish(RecoveryOutcome::Failed) | Action::Wait => {
                    return Err(
                        last.unwrap_or_else(|| Error::new(Code::Internal, "a recovery failed without a reason"))
                    );
                }
                Action::Describe => {
                    self.client.describe(server).map(|ServerDescription { incarnation, ready, replayed, .. }| {
                        Event::Described { incarnation, ready, replayed }
                    })
                }
                Action::Fence(incarnation) => self.fence_lost(server, incarnation, &[]).map(|()| Event::Fenced),
                Action::Announce(incarnation) => {
                    remote.announce_on(self.client, server, incarnation).map(|()| Event::Announced)
                }
                Action::Restore(incarnation, checkpoint) => {
                    let restored = self.restore_one(remote, server, incarnation, &checkpoints[checkpoint]);
                    if let Err(error) = &restored
                        && Failure::of(error.code()) == Failure::Damaged
                    {
                        self.pass_over(&checkpoints[checkpoint], error);
                    }
                    restored.map(|(saved, found)| {
                        applied = found;
                        Event::Restored(saved)
                    })
                }
                Action::Survey => Ok(Event::Surveyed(self.client.survey(server, SURVEY))),
                Action::Commit(incarnation, loss) => {
                    self.commit(server, incarnation, &applied, &loss).map(|()| Event::Committed)
                }
            };
            let event = done.unwrap_or_else(|error| {
                let failure = Failure::of(error.code());
                if failure == Failure::Restarted {
                    self.server.in_scope(|| {
                        tracing::warn!(
                            server,
                            "ps/{server} was restarted while it was being restored; beginning again"
                        );
                    });
                }
                last = Some(error);
                Event::Failed(failure)
            });
            if self.server.job().phase() == Phase::Over {
                return Err(Error::new(Code::JobFailed, "the job ended while a server was being restored"));
            }
            action = recovery.next(event);
        }
    }

    /// Returns the names of the checkpoints that turned out to be damaged.
    pub(crate) fn into_damaged(self) -> Vec<String> {
        self.damaged.into_inner()
    }

    fn report(&self, server: usize, name: &str, loss: &LostSteps) {
        let more = match loss.at_most {
            Some(_) => String::new(),
            None => "; what the trainers that are still here had pushed is counted when they push again".to_owned(),
        };
        let saved = loss.saved;
        self.server.in_scope(|| {
            tracing::warn!(
                server,
                checkpoint = name,
                step = saved,
                "ps/{server} is back with its part of {name}; what it took in after step {saved} is lost, {loss}{more}"
            );
        });
    }

    fn pass_over(&self, name: &str, error: &Error) {
        self.damaged.borrow_mut().push(name.to_owned());
        self.server.in_scope(|| {
            tracing::warn!(checkpoint = name, code = %error.code(), "{name} is skipped: {error}");
        });
    }

    fn open(&self, remote: &RemoteModel, name: &str) -> Result<Checkpoint> {
        let checkpoint = Checkpoint::open(self.checkpoints.dir(), name)?;
        let difference = compare(checkpoint.index(), remote.layout());
        difference.check(name)?;
        if !difference.extra.is_empty() {
            let extra = difference.extra.len();
            self.server.in_scope(|| {
                tracing::warn!(checkpoint = name, "{name} has {extra} tensors that the model does not have");
            });
        }
        Ok(checkpoint)
    }

    fn restore_one(
        &self,
        remote: &RemoteModel,
        server: usize,
        incarnation: Incarnation,
        name: &str,
    ) -> Result<(Saved, Vec<SavedProgress>)> {
        let checkpoint = self.open(remote, name)?;
        let applied = checkpoint.progress(server, self.client.servers())?;
        self.put(remote, &[(server, incarnation)], &checkpoint)?;
        Ok((saved_by(&checkpoint, &applied)?, applied))
    }

    /// Restores servers. Those that see the directory read their parts themselves, at the same time; this task feeds the others.
    fn put(&self, remote: &RemoteModel, servers: &[(usize, Incarnation)], checkpoint: &Checkpoint) -> Result<()> {
        let dir = self.checkpoints.dir();
        let see = sees(self.client, dir, servers.iter().map(|&(server, _)| server))?;
        let (location, deadline) = (dir.location(), Instant::now() + DEADLINE);
        let (seeing, blind): (Vec<_>, Vec<_>) = servers.iter().copied().zip(see).partition(|&(_, sees)| sees);
        let seeing: Vec<(usize, Incarnation)> = seeing.into_iter().map(|(server, _)| server).collect();
        self.client.restore(&seeing, random()?, (&location, checkpoint.name()), deadline)?;
        for ((server, incarnation), _) in blind {
            self.client.feed(remote, server, incarnation, checkpoint)?;
        }
        Ok(())
    }

    fn commit(
        &self,
        server: usize,
        incarnation: Incarnation,
        applied: &[SavedProgress],
        loss: &LostSteps,
    ) -> Result<()> {
        self.client.set_progress(server, incarnation, applied, loss)?;
        self.fence_lost(server, incarnation, &loss.fenced)?;
        self.client.set_server_ready(server, incarnation)
    }

    /// Fences the tasks that are lost, and these, on a server that has come back.
    fn fence_lost(&self, server: usize, incarnation: Incarnation, others: &[TaskIncarnation]) -> Result<()> {
        let lost = self.server.job().ever_lost().into_iter().chain(others.iter().copied());
        lost.into_iter().try_for_each(|lost| self.client.fence_on(server, incarnation, lost))
    }
}

fn saved_by(checkpoint: &Checkpoint, applied: &[SavedProgress]) -> Result<Saved> {
    Ok(Saved { global_step: checkpoint.global_step()?, records: applied.iter().map(SavedProgress::record).collect() })
}

/// The error for a server whose part cannot be restored.
pub(crate) fn lost_for_good(server: usize, why: &str) -> Error {
    Error::new(Code::ServerLost, format!("ps/{server} is back without the parameters it held"))
        .because(why)
        .help("start all tasks again; give the job a run directory, so that a server can be restored")
}

/// Returns which of these servers see the run directory: each is asked for a file with random content.
pub(crate) fn sees(client: &Client, dir: &Dir, servers: impl Iterator<Item = usize>) -> Result<Vec<bool>> {
    // Under a temporary name: if this task dies here, a later sweep removes the file.
    let content = format!("{:016x}{:016x}", random()?, random()?);
    let mut file = dir.stage("probe")?;
    std::io::Write::write_all(&mut file, content.as_bytes())
        .map_err(|error| Error::new(Code::StorageWrite, "the run directory cannot be written").because(error))?;
    let file = file.finish()?.name;
    let location = dir.location();
    let seen = servers.map(|server| client.probe(server, &location, &file, &content)).collect();
    dir.remove(&file)?;
    seen
}
