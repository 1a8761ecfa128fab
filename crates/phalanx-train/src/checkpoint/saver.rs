//! One save: from the servers' snapshot to the published name.

use super::{CheckpointStore, Restorer, RunLock, sees};
use crate::Server;
use crate::identity::random;
use phalanx_base::{Code, Error, Result};
use phalanx_formats::bundle::{BundleIndex, data_file};
use phalanx_ps::Client;
use phalanx_ps::checkpoint::verify_part;
use phalanx_ps::client::{SnapshotInfo, StagedPart};
use phalanx_storage::Dir;
use std::time::{Duration, Instant};

/// How long the servers may take to write.
const DEADLINE: Duration = Duration::from_secs(1800);

/// The result of a save.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Saved {
    /// The checkpoint's name.
    pub name: String,
    /// The committed steps in it.
    pub global_step: u64,
    /// Bytes of all data files.
    pub bytes: u64,
    /// The longest time that a server applied no updates.
    pub pause: Duration,
    /// How long it took in all; training continued meanwhile.
    pub took: Duration,
    /// Whether the servers wrote into the directory themselves.
    pub direct: bool,
    /// Old checkpoints that could not be deleted.
    pub undeleted: Vec<Error>,
}

impl Saved {
    pub(crate) fn log(&self) {
        let Self { name, global_step, bytes, .. } = self;
        tracing::info!(checkpoint = name.as_str(), step = global_step, bytes, "{self}");
    }
}

impl std::fmt::Display for Saved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, bytes, pause, took, .. } = self;
        let how = if self.direct { "" } else { " through the chief" };
        write!(f, "saved {name}: {:.1} MB in {:.2} s{how}", *bytes as f64 / 1e6, took.as_secs_f64())?;
        write!(f, ", updates held up for {:.1} ms", 1e3 * pause.as_secs_f64())
    }
}

/// Saves a job.
pub(crate) struct Saver {
    checkpoints: CheckpointStore,
    /// Synchronous training: the snapshots of all servers are of the same round.
    rounds: bool,
    /// Whether all servers see the directory, once that is known.
    seen: Option<bool>,
    /// Keeps other jobs out of the directory; `None` for a task that only restores from it.
    lock: Option<RunLock>,
    /// Notices about the directory, to be logged.
    notices: Vec<Error>,
    /// The newest checkpoint that was saved, and the changes of every server that are in it.
    newest: Option<(String, Vec<u64>)>,
}

impl Saver {
    /// Creates a saver into the directory of `checkpoints`, which is locked unless it only restores; `rounds` for
    /// synchronous training.
    pub(crate) fn new(checkpoints: CheckpointStore, lock: Option<RunLock>, rounds: bool) -> Self {
        Self { checkpoints, rounds, seen: None, lock, notices: Vec::new(), newest: None }
    }

    /// Takes the notices about the directory since the last call.
    pub(crate) fn take_notices(&mut self) -> Vec<Error> {
        std::mem::take(&mut self.notices)
    }

    /// Checks whether the directory is still there; one that was deleted is created again, with a notice.
    pub(crate) fn check_directory(&mut self) -> Result<()> {
        if let Some(notice) = self.lock.as_mut().map_or(Ok(None), RunLock::renew)? {
            self.checkpoints.forget();
            self.seen = None;
            self.notices.push(notice);
        }
        Ok(())
    }

    /// Returns the checkpoints of the directory.
    pub(crate) fn checkpoints(&self) -> &CheckpointStore {
        &self.checkpoints
    }

    /// Runs `restore`, then forgets the checkpoints that it found damaged: a save at the same step is then a new one.
    pub(crate) fn restoring<T>(
        &mut self,
        server: &Server,
        client: &Client,
        restore: impl FnOnce(&Restorer<'_>) -> Result<T>,
    ) -> Result<T> {
        let restorer = Restorer::new(server, client, self);
        let restored = restore(&restorer);
        restorer.into_damaged().iter().for_each(|name| self.checkpoints.forget_one(name));
        restored
    }

    /// Returns whether training is synchronous.
    pub(crate) fn rounds(&self) -> bool {
        self.rounds
    }

    /// A server was started again, perhaps on another machine: whether it sees the directory is not known any more.
    pub(crate) fn forget_who_sees(&mut self) {
        self.seen = None;
    }

    /// Saves now. Returns `None` where the newest checkpoint already has that step and everything else that the servers have.
    ///
    /// # Errors
    /// When a server or the directory does not do its part. Nothing is changed then: the newest checkpoint stays the
    /// newest.
    pub(crate) fn save(&mut self, client: &Client) -> Result<Option<Saved>> {
        let rounds = self.rounds;
        self.save_at(client, |id| client.take_snapshot(id, rounds))
    }

    /// Saves a model that has just been initialised, before it is declared ready.
    pub(crate) fn save_first(&mut self, client: &Client) -> Result<Option<Saved>> {
        self.save_at(client, |id| client.take_first_snapshot(id))
    }

    fn save_at(
        &mut self,
        client: &Client,
        cut: impl FnOnce(u64) -> Result<Vec<SnapshotInfo>>,
    ) -> Result<Option<Saved>> {
        let started = Instant::now();
        self.check_directory()?;
        let direct = self.probe(client)?;
        let id = random()?;
        let cuts = cut(id)?;
        let saved = self.save_cut(client, id, &cuts, direct);
        // A server that this does not reach releases the snapshot with the next one.
        let _ = client.release(id);
        let Some((name, bytes, undeleted)) = saved? else { return Ok(None) };
        let pause = cuts.iter().map(|cut| cut.pause).max().unwrap_or_default();
        let global_step = cuts[0].global_step;
        Ok(Some(Saved { name, global_step, bytes, pause, took: started.elapsed(), direct, undeleted }))
    }

    fn save_cut(
        &mut self,
        client: &Client,
        id: u64,
        cuts: &[SnapshotInfo],
        direct: bool,
    ) -> Result<Option<(String, u64, Vec<Error>)>> {
        let name = self.checkpoints.name(cuts[0].global_step);
        let changes: Vec<u64> = cuts.iter().map(|cut| cut.changes).collect();
        // One server counts the steps. A snapshot between the parts of an asynchronous update has its step, but not all of its
        // values; and values can be replaced without a step. Such a checkpoint is saved again under its name.
        let lacks_changes = self.newest.as_ref().is_some_and(|(saved, had)| *saved == name && *had != changes);
        if self.checkpoints.newest_first().first() == Some(&name) && !lacks_changes {
            return Ok(None);
        }
        let dir = self.checkpoints.dir().clone();
        let servers = cuts.len() as u32;
        let parts = if direct {
            let file = |server: usize| data_file(&name, server as u32, servers);
            client.save(id, cuts, &dir.location(), file, Instant::now() + DEADLINE)?
        } else {
            let fetch =
                |server: usize| fetch(client, id, cuts, server, &dir, &data_file(&name, server as u32, servers));
            (0..cuts.len()).map(fetch).collect::<Result<_>>()?
        };
        let published = self.publish(&dir, &name, &parts);
        if published.is_err() {
            // The staged files that were not published are of no use.
            parts.iter().for_each(|part| drop(dir.remove(&part.staged)));
        }
        let undeleted = published?;
        self.newest = Some((name.clone(), changes));
        Ok(Some((name, parts.iter().map(|part| part.bytes).sum(), undeleted)))
    }

    fn publish(&mut self, dir: &Dir, name: &str, parts: &[StagedPart]) -> Result<Vec<Error>> {
        for part in parts {
            let found = dir.size(&part.staged)?;
            if found != Some(part.bytes) {
                return Err(Error::new(Code::CheckpointDamaged, "a server's part is not what the server wrote")
                    .at(format!("{}/{}", dir.location(), part.staged))
                    .because(format!("it has {found:?} bytes here, {} there", part.bytes))
                    .help("see whether all tasks have the same directory mounted"));
            }
        }
        let index = BundleIndex::merge(parts.iter().map(|part| part.index.clone()))?;
        let staged: Vec<String> = parts.iter().map(|part| part.staged.clone()).collect();
        self.checkpoints.publish(name, &staged, &index)
    }

    /// Returns whether all servers see the run directory.
    fn probe(&mut self, client: &Client) -> Result<bool> {
        if let Some(seen) = self.seen {
            return Ok(seen);
        }
        let seen = sees(client, self.checkpoints.dir(), 0..client.servers())?.into_iter().all(|sees| sees);
        self.seen = Some(seen);
        Ok(seen)
    }
}

/// Fetches a server's part, and writes it into the directory.
fn fetch(client: &Client, id: u64, cuts: &[SnapshotInfo], server: usize, dir: &Dir, file: &str) -> Result<StagedPart> {
    let mut staged = dir.stage(file)?;
    let mut part = client.fetch(id, cuts, server, &mut staged)?;
    part.staged = staged.finish()?.name;
    // Read back before it is published.
    if let Err(error) = verify_part(dir, &part.staged, &part.index) {
        let _ = dir.remove(&part.staged);
        return Err(error);
    }
    Ok(part)
}
