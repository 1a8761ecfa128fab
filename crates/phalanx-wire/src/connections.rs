//! The connections that others have to this process, and which of them is closed when there are too many.
//!
//! Files must stay openable and honest tasks must get in, whoever else connects. So the number of connections is bounded
//! by the process's descriptors, and the bound is kept by closing: first the oldest connection whose handshake is not done,
//! then the one that has been idle longest. An honest task that loses an idle connection opens another one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// More than this many are of no use to any job.
const MOST: u64 = 1 << 14;
/// A member that was heard of this recently is not idle.
const RECENT: Duration = Duration::from_secs(10);

/// All tasks of a process share its descriptors, and so this.
static ALL: LazyLock<Connections> = LazyLock::new(|| Connections::new(budget(raise_limit())));

/// The connections of this process. The first call raises the limit on open files as far as that is allowed.
pub(crate) fn all() -> &'static Connections {
    &ALL
}

/// Raises the soft limit on open files to the hard one; returns what holds then.
fn raise_limit() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // Where it cannot be raised, the budget follows the limit as it is.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    getrlimit(Resource::Nofile).current.or(current).unwrap_or(u64::MAX)
}

/// How many of `files` descriptors connections may have: the rest is for checkpoints, data, and connections of our own.
fn budget(files: u64) -> usize {
    (files - files / 4).clamp(8, MOST) as usize
}

pub(crate) struct Connections {
    limit: usize,
    started: Instant,
    table: Mutex<Table>,
}

/// Who is connected. Pure: time comes in as milliseconds.
#[derive(Default)]
struct Table {
    next: u64,
    /// Handshake not done, oldest first.
    pending: BTreeMap<u64, oneshot::Sender<()>>,
    members: HashMap<u64, (oneshot::Sender<()>, Arc<AtomicU64>)>,
}

impl Table {
    fn enter(&mut self) -> (u64, oneshot::Receiver<()>) {
        let (close, closed) = oneshot::channel();
        self.next += 1;
        self.pending.insert(self.next, close);
        (self.next, closed)
    }

    fn admit(&mut self, id: u64, heard: &Arc<AtomicU64>) {
        if let Some(close) = self.pending.remove(&id) {
            self.members.insert(id, (close, Arc::clone(heard)));
        }
    }

    fn leave(&mut self, id: u64) {
        self.pending.remove(&id);
        self.members.remove(&id);
    }

    fn len(&self) -> usize {
        self.pending.len() + self.members.len()
    }

    /// Closes the connection that can best be spared; `false` if there is none.
    fn close_one(&mut self, now: u64) -> bool {
        if let Some((_, close)) = self.pending.pop_first() {
            // The connection may be gone already.
            let _ = close.send(());
            return true;
        }
        let heard = |member: &(_, Arc<AtomicU64>)| member.1.load(Ordering::Relaxed);
        let idlest =
            self.members.iter().min_by_key(|(_, member)| heard(member)).map(|(&id, member)| (id, heard(member)));
        match idlest {
            Some((id, heard)) if now.saturating_sub(heard) >= RECENT.as_millis() as u64 => {
                if let Some((close, _)) = self.members.remove(&id) {
                    let _ = close.send(());
                }
                true
            }
            _ => false,
        }
    }
}

impl Connections {
    fn new(limit: usize) -> Self {
        Self { limit, started: Instant::now(), table: Mutex::default() }
    }

    /// Counts a new connection; another one is closed for it if there are too many. `None` if none can be spared.
    pub(crate) fn enter(&'static self) -> Option<Permit> {
        let now = self.now();
        let mut table = self.table();
        if table.len() >= self.limit && !table.close_one(now) {
            return None;
        }
        let (id, closed) = table.enter();
        Some(Permit { of: self, id, closed, heard: Arc::new(AtomicU64::new(now)) })
    }

    /// Closes a connection because the process has run out of something.
    pub(crate) fn close_one(&self) {
        let now = self.now();
        self.table().close_one(now);
    }

    fn now(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's place among all; dropped with the connection.
pub(crate) struct Permit {
    of: &'static Connections,
    id: u64,
    /// Answers when the connection is to be closed.
    pub(crate) closed: oneshot::Receiver<()>,
    heard: Arc<AtomicU64>,
}

impl Permit {
    /// The handshake is done.
    pub(crate) fn admit(&self) {
        self.of.table().admit(self.id, &self.heard);
    }

    /// What to tell that something came.
    pub(crate) fn activity(&self) -> Activity {
        Activity { of: self.of, heard: Arc::clone(&self.heard) }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.of.table().leave(self.id);
    }
}

/// When a connection was last heard of.
pub(crate) struct Activity {
    of: &'static Connections,
    heard: Arc<AtomicU64>,
}

impl Activity {
    pub(crate) fn heard(&self) {
        self.heard.store(self.of.now(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Arc<AtomicU64> {
        Arc::new(AtomicU64::new(millis))
    }

    fn is_closed(closed: &mut oneshot::Receiver<()>) -> bool {
        closed.try_recv().is_ok()
    }

    #[test]
    fn strangers_go_first_and_the_oldest_of_them() {
        let mut table = Table::default();
        let (member, mut of_member) = table.enter();
        table.admit(member, &at(0));
        let (_, mut old) = table.enter();
        let (_, mut young) = table.enter();
        assert!(table.close_one(1_000_000) && is_closed(&mut old) && !is_closed(&mut young));
        assert!(table.close_one(1_000_000) && is_closed(&mut young) && !is_closed(&mut of_member));
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn members_go_by_how_long_they_are_idle_and_busy_ones_stay() {
        let mut table = Table::default();
        let mut members: Vec<_> = [50_000, 30_000, 99_000].map(|heard| (table.enter(), at(heard))).into();
        members.iter().for_each(|((id, _), heard)| table.admit(*id, heard));
        assert!(table.close_one(100_000) && is_closed(&mut members[1].0.1));
        assert!(table.close_one(100_000) && is_closed(&mut members[0].0.1));
        assert!(!table.close_one(100_000) && !is_closed(&mut members[2].0.1), "it was heard of a second ago");
        table.leave(members[2].0.0);
        assert!(!table.close_one(100_000));
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn a_quarter_of_the_descriptors_stays_free() {
        assert_eq!([1024, 4, u64::MAX].map(budget), [768, 8, 1 << 14]);
    }
}
