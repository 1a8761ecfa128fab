//! The write-ahead log of a server: everything it acknowledges once its model is ready is in the log first.
//!
//! | file | content |
//! | --- | --- |
//! | `mod.rs` | [`LogPlan`], and `UpdateLog`: when a snapshot is due, and what happens when there is no memory |
//! | `record.rs` | the records: messages as they came, with the updates in them |
//! | `base.rs` | snapshots that records continue, as files beside the log |
//! | `replay.rs` | a server that continues where its former incarnation was killed |
//!
//! A snapshot begins behind all updates, with the gate of [`Snapshots`](super::snapshot::Snapshots) closed, so a record is
//! either in it or after it. Only gradients of rounds that are open then are not in it: they are replayed from records
//! before it. Records are cut off after a snapshot was published, never before.

mod base;
mod record;
mod replay;
#[cfg(test)]
mod tests;

pub use replay::Replayed;

use super::snapshot::SnapshotKind;
use super::{Store, TaskIncarnation, lock};
use crate::proto::{Exchange, request};
use bytes::Bytes;
use phalanx_base::{Code, Context, Error, Result};
use phalanx_wal::job_dir::TaskDir;
use phalanx_wal::{Folder, Wal, WalOptions};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How often a failed snapshot is tried again, and how often before an optional log is given up.
const TRY_AGAIN: Duration = Duration::from_secs(1);
const TRIES: u32 = 3;

/// The work of replaying a record, whatever its size, in bytes of gradients that take as long.
const RECORD_WORK: u64 = 4 << 10;

/// How often a full log is logged.
const REMIND: Duration = Duration::from_secs(10);

/// Where a server keeps its log, and how large it may become.
pub struct LogPlan {
    /// The server's own folder, in memory that outlives the process.
    pub folder: TaskDir,
    /// A random number that tells this log from others.
    pub id: u64,
    /// The size of a segment.
    pub segment_bytes: usize,
    /// The most segments.
    pub most_segments: usize,
    /// How many bytes of records make a snapshot due, or correspondingly many small records, unless the model is larger.
    pub snapshot_after: u64,
    /// The memory of this machine that is left to others.
    pub spare: u64,
    /// Whether the job requires the log. When memory for it runs out, training then pauses; otherwise it continues without a log.
    pub required: bool,
}

impl LogPlan {
    fn space(&self) -> Box<Folder> {
        Box::new(Folder::new(self.folder.path(), self.segment_bytes, self.spare))
    }
}

/// Where events of this server go, whichever thread emits them.
#[derive(Clone)]
struct EventScope {
    dispatch: tracing::Dispatch,
    span: tracing::Span,
}

impl Default for EventScope {
    /// The scope of this thread.
    fn default() -> Self {
        Self { dispatch: tracing::dispatcher::get_default(Clone::clone), span: tracing::Span::current() }
    }
}

impl EventScope {
    fn run<T>(&self, f: impl FnOnce() -> T) -> T {
        tracing::dispatcher::with_default(&self.dispatch, || self.span.in_scope(f))
    }
}

/// The log of a store, if it has one.
#[derive(Default)]
pub(super) struct LogSlot {
    plan: Option<Arc<LogPlan>>,
    scope: EventScope,
    /// Set once the model is ready.
    active: OnceLock<Arc<UpdateLog>>,
    replayed: OnceLock<Replayed>,
    starting: Mutex<()>,
}

impl LogSlot {
    fn planned(&self, plan: &Arc<LogPlan>) -> (Arc<LogPlan>, EventScope) {
        (Arc::clone(plan), self.scope.clone())
    }

    fn active(&self) -> Option<&UpdateLog> {
        self.active.get().map(|log| &**log).filter(|log| !log.is_off())
    }
}

/// A log in use.
pub(super) struct UpdateLog {
    plan: Arc<LogPlan>,
    wal: Wal,
    /// The first record with a gradient of each round that may be open.
    open_rounds: Mutex<BTreeMap<u64, u64>>,
    /// Held while a snapshot is written.
    writing: Mutex<()>,
    /// The position of the newest published snapshot.
    base: AtomicU64,
    /// The work of replaying what was recorded since the newest snapshot, and when it is due to be replaced by another one.
    work: AtomicU64,
    due: AtomicU64,
    off: AtomicBool,
    wake: (Mutex<bool>, Condvar),
    reminded: Mutex<Option<Instant>>,
    scope: EventScope,
}

impl UpdateLog {
    fn new(slot: (Arc<LogPlan>, EventScope), wal: Wal, base: u64, open_rounds: BTreeMap<u64, u64>) -> Arc<Self> {
        let (plan, scope) = slot;
        Arc::new(Self {
            plan,
            wal,
            open_rounds: Mutex::new(open_rounds),
            writing: Mutex::default(),
            base: AtomicU64::new(base),
            work: AtomicU64::new(0),
            due: AtomicU64::new(u64::MAX),
            off: AtomicBool::new(false),
            wake: Default::default(),
            reminded: Mutex::default(),
            scope,
        })
    }

    fn is_off(&self) -> bool {
        self.off.load(Ordering::Acquire)
    }

    /// Records an update before it is applied.
    fn exchange(&self, from: TaskIncarnation, ask: &Exchange, body: &[Bytes], pushed: usize) -> Result<()> {
        let position = self.appended(record::append_exchange(&self.wal, from, ask, body, pushed), pushed)?;
        if let Some(round) = ask.round {
            lock(&self.open_rounds).entry(round).or_insert(position);
        }
        Ok(())
    }

    fn operation(&self, from: Option<TaskIncarnation>, op: request::Op, body: &[Bytes]) -> Result<()> {
        self.appended(record::append_operation(&self.wal, from, op, body), 0).map(drop)
    }

    fn appended(&self, appended: Result<u64>, bytes: usize) -> Result<u64> {
        match &appended {
            Ok(_) => {
                let work = bytes as u64 + RECORD_WORK;
                if self.work.fetch_add(work, Ordering::Relaxed) + work >= self.due.load(Ordering::Relaxed) {
                    self.wake();
                }
            }
            Err(error) => {
                self.wake();
                self.remind(error);
            }
        }
        appended
    }

    fn wake(&self) {
        // One call is enough until the next snapshot.
        self.due.store(u64::MAX, Ordering::Relaxed);
        *lock(&self.wake.0) = true;
        self.wake.1.notify_all();
    }

    /// Waits until a snapshot is due, or for a moment; returns whether it is. The lock is not held after this: updates take it
    /// while a snapshot waits for them.
    fn is_woken(&self) -> bool {
        let mut woken = lock(&self.wake.0);
        if !*woken {
            woken = self.wake.1.wait_timeout(woken, TRY_AGAIN).unwrap_or_else(PoisonError::into_inner).0;
        }
        std::mem::take(&mut *woken)
    }

    fn remind(&self, error: &Error) {
        let mut reminded = lock(&self.reminded);
        if reminded.is_none_or(|at| at.elapsed() > REMIND) {
            *reminded = Some(Instant::now());
            self.scope.run(|| {
                tracing::warn!(code = %error.code(), "training pauses [{}]: {error}", error.code());
            });
        }
    }

    /// Sets when the next snapshot is due, after one of `bytes`; `recorded` is what was recorded when it was taken.
    fn next_snapshot(&self, recorded: u64, bytes: u64) {
        self.work.fetch_sub(recorded, Ordering::Relaxed);
        // A large model is written less often, but soon enough that the log does not fill up meanwhile.
        let after = self.plan.snapshot_after.max(2 * bytes).min(self.wal.capacity() / 2);
        self.due.store(after, Ordering::Relaxed);
    }

    /// Abandons the log: a server could no longer be recovered from it.
    fn turn_off(&self, why: &Error) {
        base::remove_all(self.plan.folder.path());
        self.off.store(true, Ordering::Release);
        self.scope.run(|| {
            tracing::warn!(
                code = %why.code(),
                "durability is checkpoint from now on: {why}; updates since the newest checkpoint would be lost with this server"
            );
        });
    }
}

impl Store {
    /// Creates an empty store that keeps a log once its model is ready.
    #[must_use]
    pub fn with_log(plan: LogPlan) -> Self {
        Self::over(LogSlot { plan: Some(Arc::new(plan)), ..LogSlot::default() })
    }

    /// Declares the model initialised. A server with a log has a first snapshot then.
    ///
    /// # Errors
    /// When there is no memory for a log that the job requires.
    pub fn make_ready(self: &Arc<Self>) -> Result<()> {
        let _starting = lock(&self.log.starting);
        if self.is_ready() {
            return Ok(());
        }
        if let Some(plan) = &self.log.plan {
            match self.start_log(plan) {
                Ok(log) => drop(self.log.active.set(log)),
                Err(error) if plan.required => {
                    return Err(Error::new(Code::LogNoRoom, "there is no memory for the write-ahead log")
                        .because(error)
                        .help("free memory on this machine, or train with durability = \"checkpoint\""));
                }
                Err(error) => {
                    base::remove_all(plan.folder.path());
                    self.log.scope.run(|| tracing::warn!(code = %error.code(), "durability is checkpoint: {error}"));
                }
            }
        }
        self.set_ready();
        Ok(())
    }

    fn start_log(self: &Arc<Self>, plan: &Arc<LogPlan>) -> Result<Arc<UpdateLog>> {
        base::remove_all(plan.folder.path());
        let options = WalOptions { log: plan.id, most_segments: plan.most_segments };
        let log = UpdateLog::new(self.log.planned(plan), Wal::create(plan.space(), options)?, 0, BTreeMap::new());
        self.write_base(&log)?;
        self.start_snapshots(&log)?;
        Ok(log)
    }

    /// Starts the thread that writes a snapshot whenever one is due.
    fn start_snapshots(self: &Arc<Self>, log: &Arc<UpdateLog>) -> Result<()> {
        let (store, log) = (Arc::downgrade(self), Arc::clone(log));
        let run = move || log.scope.clone().run(|| write_snapshots(&store, &log));
        let thread = std::thread::Builder::new().name("phalanx-log".into()).spawn(run);
        thread.context(Code::Internal, "the thread that writes snapshots cannot be started").map(drop)
    }

    /// Takes a snapshot, writes it beside the log, and cuts the log off there.
    fn write_base(&self, log: &UpdateLog) -> Result<()> {
        let _one = lock(&log.writing);
        let (mut state, mut recorded) = (None, 0);
        let id = log.wal.end();
        if log.base.load(Ordering::Acquire) == id {
            // Nothing was recorded since.
            log.next_snapshot(0, 0);
            return Ok(());
        }
        let taken = self.snapshots.take(SnapshotKind::Log, id, |number, started| {
            let closed = self.closed();
            let position = log.wal.end();
            recorded = log.work.load(Ordering::Relaxed);
            let replay_from = {
                let mut rounds = lock(&log.open_rounds);
                *rounds = rounds.split_off(&closed);
                rounds.values().copied().min().unwrap_or(position)
            };
            state = Some(self.log_state(log.wal.id(), (position, replay_from), closed));
            self.begin_snapshot(SnapshotKind::Log, id, closed, (number, started))
        });
        let written = taken.and_then(|snapshot| {
            let state = state.ok_or_else(|| Error::new(Code::Internal, "a snapshot was taken twice"))?;
            base::write(log.plan.folder.path(), &snapshot, &state)?;
            Ok((state, snapshot.bytes()))
        });
        self.snapshots.release(SnapshotKind::Log, id);
        let (state, bytes) = written?;
        log.base.store(state.position, Ordering::Release);
        log.wal.truncate(state.replay_from);
        log.next_snapshot(recorded, bytes);
        Ok(())
    }

    /// Records an update before it is applied.
    pub(super) fn record_exchange(
        &self,
        from: TaskIncarnation,
        ask: &Exchange,
        body: &[Bytes],
        pushed: usize,
    ) -> Result<()> {
        self.log.active().map_or(Ok(()), |log| log.exchange(from, ask, body, pushed))
    }

    /// Records an operation before it takes effect. Call it under the lock that orders such operations.
    pub(super) fn record(
        &self,
        from: Option<TaskIncarnation>,
        op: impl FnOnce() -> request::Op,
        body: &[Bytes],
    ) -> Result<()> {
        self.log.active().map_or(Ok(()), |log| log.operation(from, op(), body))
    }

    /// Whether what is acknowledged is in a log first.
    #[must_use]
    pub fn has_log(&self) -> bool {
        self.log.active().is_some()
    }

    /// Returns what was replayed, if this store continues that of a former incarnation.
    #[must_use]
    pub fn replayed(&self) -> Option<Replayed> {
        self.log.replayed.get().copied()
    }

    /// Removes the log: the job is over.
    pub fn remove_log(&self) {
        if let Some(log) = self.log.active() {
            log.off.store(true, Ordering::Release);
            log.wake();
        }
        if let Some(plan) = &self.log.plan {
            plan.folder.remove();
        }
    }
}

/// Writes snapshots until the store is gone.
fn write_snapshots(store: &Weak<Store>, log: &UpdateLog) {
    let mut failures = 0;
    while !log.is_off() {
        let due = log.is_woken();
        let Some(store) = store.upgrade() else { return };
        if !due || log.is_off() {
            continue;
        }
        match store.write_base(log) {
            Ok(()) => failures = 0,
            Err(_) if log.is_off() => {}
            Err(error) => {
                failures += 1;
                if failures == TRIES && !log.plan.required {
                    log.turn_off(&error);
                } else if failures == 1 {
                    tracing::warn!(code = %error.code(), "no snapshot of this server could be written: {error}");
                }
                drop(store);
                std::thread::sleep(TRY_AGAIN);
                log.wake();
            }
        }
    }
}
