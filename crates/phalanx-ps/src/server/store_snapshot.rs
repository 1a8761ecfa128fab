//! A snapshot of everything that a server holds. How it stays consistent while training continues: [`super::snapshot`].

use super::dense::Dense;
use super::items::Item;
use super::snapshot::{Released, Snapshot, SnapshotKind};
use super::table::Table;
use super::{Store, TaskIncarnation, TaskProgress};
use phalanx_base::{Code, Error, Result, TaskId};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// An item in a snapshot, with its counts.
pub(crate) enum SnapshotItem {
    Dense { shard: Arc<Dense>, updates: u64, closed: u64 },
    Table { table: Arc<Table>, updates: u64, closed: u64, rows: Vec<usize> },
}

/// A snapshot of a server.
pub struct StoreSnapshot {
    /// What it is for.
    pub(crate) kind: SnapshotKind,
    /// The id that the client gave it, or the position in the write-ahead log that it was taken at.
    pub(crate) id: u64,
    number: u64,
    /// How long no update could be applied.
    pub(crate) pause: Duration,
    pub(crate) global_step: u64,
    /// How many messages had changed values, rounds apart.
    pub(crate) changes: u64,
    pub(crate) items: Vec<SnapshotItem>,
    pub(crate) progress: Vec<(TaskIncarnation, TaskProgress)>,
    pub(crate) input_positions: Vec<(TaskId, Vec<u8>)>,
    released: Released,
}

impl StoreSnapshot {
    /// Returns the number of rows of each table, in the order of their handles.
    pub(crate) fn table_rows(&self) -> Vec<u64> {
        let rows = |item: &SnapshotItem| match item {
            SnapshotItem::Table { rows, .. } => Some(rows.iter().sum::<usize>() as u64),
            SnapshotItem::Dense { .. } => None,
        };
        self.items.iter().filter_map(rows).collect()
    }

    /// Returns the size of all numbers in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let numbers = |item: &SnapshotItem| match item {
            SnapshotItem::Dense { shard, .. } => shard.len() * (1 + shard.optimizer.slot_count()),
            SnapshotItem::Table { table, rows, .. } => rows.iter().sum::<usize>() * table.width(),
        };
        4 * self.items.iter().map(numbers).sum::<usize>() as u64
    }

    /// Whether later reads may see newer numbers.
    pub(crate) fn is_released(&self) -> bool {
        self.released.is_set()
    }
}

impl Snapshot for StoreSnapshot {
    fn id(&self) -> u64 {
        self.id
    }

    fn release(&self) {
        self.released.set(|| {
            for item in &self.items {
                match item {
                    SnapshotItem::Dense { shard, .. } => shard.release_snapshot(self.kind, self.number),
                    SnapshotItem::Table { table, .. } => table.release_snapshot(self.kind, self.number),
                }
            }
        });
    }
}

impl Store {
    /// Takes a snapshot of everything: values, slots and the updates in them. The same `id` again returns the same
    /// snapshot; another one releases the former. Rounds below `closed` are in the snapshot. Only the `first` snapshot may
    /// be taken before the model is ready: a restarted server must not pass for one that has a model.
    ///
    /// # Errors
    /// When the model is not ready.
    pub fn take_snapshot(&self, id: u64, closed: u64, first: bool) -> Result<Arc<StoreSnapshot>> {
        if !first {
            self.check_ready()?;
        }
        self.snapshots.take(SnapshotKind::Checkpoint, id, |number, started| {
            self.begin_snapshot(SnapshotKind::Checkpoint, id, closed, (number, started))
        })
    }

    /// Takes a snapshot of one kind. Updates wait meanwhile.
    pub(super) fn begin_snapshot(
        &self,
        kind: SnapshotKind,
        id: u64,
        closed: u64,
        (number, started): (u64, Instant),
    ) -> Result<StoreSnapshot> {
        let mut items = Vec::new();
        for item in self.items().list() {
            items.push(match item {
                Item::Dense(shard) => {
                    let (updates, closed) = shard.begin_snapshot(kind, closed);
                    SnapshotItem::Dense { shard: Arc::clone(shard), updates, closed }
                }
                Item::Table(table) => {
                    let (updates, closed, rows) = table.begin_snapshot(closed)?;
                    SnapshotItem::Table { table: Arc::clone(table), updates, closed, rows }
                }
            });
        }
        let (progress, input_positions) = (self.applied.all(), self.input_positions.all());
        let (global_step, changes) = (self.global_step(), self.changes.load(Ordering::Acquire));
        let (pause, released) = (started.elapsed(), Released::default());
        Ok(StoreSnapshot { kind, id, number, pause, global_step, changes, items, progress, input_positions, released })
    }

    /// Returns the snapshot with this id.
    ///
    /// # Errors
    /// When it was released.
    pub(crate) fn snapshot(&self, id: u64) -> Result<Arc<StoreSnapshot>> {
        self.snapshots.get(SnapshotKind::Checkpoint, id).ok_or_else(|| {
            Error::new(Code::NoSuchVariable, "the server keeps no such snapshot")
                .because("another one was taken since, or the server was restarted")
                .help("take another one")
        })
    }

    /// Releases a snapshot.
    pub fn release_snapshot(&self, id: u64) {
        self.snapshots.release(SnapshotKind::Checkpoint, id);
    }
}
