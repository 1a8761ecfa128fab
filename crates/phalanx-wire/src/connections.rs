//! The incoming connections of this process, and which of them is closed when there are too many.
//!
//! Files must stay openable and honest tasks must be able to connect, whatever else connects. So the number of
//! connections is bounded by the process's file descriptors. At the bound a connection is closed: first the oldest
//! whose handshake is not done, then the one that has been idle longest. An honest task that loses an idle connection
//! opens another one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// No job needs more than this.
const MOST: u64 = 1 << 14;
/// A connection with activity this recent is not idle.
const RECENT: Duration = Duration::from_secs(10);

/// All tasks of a process share its descriptors.
static ALL: LazyLock<Connections> = LazyLock::new(|| Connections::new(budget(raise_limit())));

/// Returns the connections of this process. The first call raises the limit on open files as far as allowed.
pub(crate) fn all() -> &'static Connections {
    &ALL
}

/// Raises the soft limit on open files to the hard one; returns the resulting limit.
fn raise_limit() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // If it cannot be raised, the budget follows the current limit.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    getrlimit(Resource::Nofile).current.or(current).unwrap_or(u64::MAX)
}

/// Returns how many of `files` descriptors incoming connections may use. The rest is for checkpoints, data and outgoing
/// connections.
fn budget(files: u64) -> usize {
    (files - files / 4).clamp(8, MOST) as usize
}

pub(crate) struct Connections {
    limit: usize,
    started: Instant,
    table: Mutex<Table>,
}

/// The table of connections. Pure: time is passed in as milliseconds.
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

    /// Closes the most dispensable connection; `false` if there is none.
    fn close_one(&mut self, now: u64) -> bool {
        if let Some((_, close)) = self.pending.pop_first() {
            // The connection may have ended already.
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

    /// Registers a new connection, closing another one if there are too many. `None` if none can be closed.
    pub(crate) fn enter(&'static self) -> Option<Permit> {
        let now = self.now();
        let mut table = self.table();
        if table.len() >= self.limit && !table.close_one(now) {
            return None;
        }
        let (id, closed) = table.enter();
        Some(Permit { of: self, id, closed, heard: Arc::new(AtomicU64::new(now)) })
    }

    /// Closes a connection because the process has run out of descriptors.
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

/// The registration of a connection; dropped with it.
pub(crate) struct Permit {
    of: &'static Connections,
    id: u64,
    /// Resolves when the connection must be closed.
    pub(crate) closed: oneshot::Receiver<()>,
    heard: Arc<AtomicU64>,
}

impl Permit {
    /// Records that the handshake is done.
    pub(crate) fn admit(&self) {
        self.of.table().admit(self.id, &self.heard);
    }

    /// Returns the handle that records the connection's activity.
    pub(crate) fn activity(&self) -> Activity {
        Activity { of: self.of, heard: Arc::clone(&self.heard) }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.of.table().leave(self.id);
    }
}

/// The time of a connection's last activity.
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
