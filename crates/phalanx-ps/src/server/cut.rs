//! What a snapshot of a server consists of. How it stays one instant while training goes on: [`super::snapshot`].

use super::dense::Dense;
use super::items::Item;
use super::snapshot::{GivenUp, Snapshot};
use super::table::Table;
use super::{Progress, Store};
use phalanx_base::{Code, Error, Incarnation, Result, TaskId};
use std::sync::Arc;
use std::time::Duration;

/// Something that is held here, and how far it was.
pub(crate) enum CutItem {
    Dense { shard: Arc<Dense>, updates: u64, closed: u64 },
    Table { table: Arc<Table>, updates: u64, closed: u64, rows: Vec<usize> },
}

/// One instant of a server.
pub struct Cut {
    /// What the client calls it.
    pub(crate) id: u64,
    pub(crate) number: u64,
    /// How long no update could be applied.
    pub(crate) pause: Duration,
    pub(crate) global_step: u64,
    pub(crate) items: Vec<CutItem>,
    pub(crate) applied: Vec<((TaskId, Incarnation), Progress)>,
    pub(crate) notes: Vec<(TaskId, Vec<u8>)>,
    given_up: GivenUp,
}

impl Cut {
    /// How many rows each table has, in the order of their handles.
    pub(crate) fn table_rows(&self) -> Vec<u64> {
        let rows = |item: &CutItem| match item {
            CutItem::Table { rows, .. } => Some(rows.iter().sum::<usize>() as u64),
            CutItem::Dense { .. } => None,
        };
        self.items.iter().filter_map(rows).collect()
    }

    /// How many bytes of numbers there are.
    pub(crate) fn bytes(&self) -> u64 {
        let numbers = |item: &CutItem| match item {
            CutItem::Dense { shard, .. } => shard.len() * (1 + shard.optimizer.slot_count()),
            CutItem::Table { table, rows, .. } => rows.iter().sum::<usize>() * table.width(),
        };
        4 * self.items.iter().map(numbers).sum::<usize>() as u64
    }

    /// Whether what is read from now on may be of another instant.
    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.is_set()
    }
}

impl Snapshot for Cut {
    fn id(&self) -> u64 {
        self.id
    }

    fn give_up(&self) {
        self.given_up.set(|| {
            for item in &self.items {
                match item {
                    CutItem::Dense { shard, .. } => shard.let_go(self.number),
                    CutItem::Table { table, .. } => table.let_go(self.number),
                }
            }
        });
    }
}

impl Store {
    /// Takes one instant of everything: values, slots and the names of the updates in them. The same `id` again answers
    /// the same instant; another one gives the former up. Rounds below `closed` are in the instant. Only the `first` one
    /// may be taken before the model is ready: a server that was started anew must not pass for one that has a model.
    ///
    /// # Errors
    /// When the model is not ready.
    pub fn cut(&self, id: u64, closed: u64, first: bool) -> Result<Arc<Cut>> {
        if !first && !self.is_ready() {
            return Err(not_ready());
        }
        self.snapshots.take(id, |number, started| {
            let mut items = Vec::new();
            for item in self.items().list() {
                items.push(match item {
                    Item::Dense(shard) => {
                        let (updates, closed) = shard.cut(closed);
                        CutItem::Dense { shard: Arc::clone(shard), updates, closed }
                    }
                    Item::Table(table) => {
                        let (updates, closed, rows) = table.cut(closed)?;
                        CutItem::Table { table: Arc::clone(table), updates, closed, rows }
                    }
                });
            }
            let (applied, notes, global_step) = (self.applied.all(), self.notes.all(), self.global_step());
            let (pause, given_up) = (started.elapsed(), GivenUp::default());
            Ok(Cut { id, number, pause, global_step, items, applied, notes, given_up })
        })
    }

    /// The instant with this id.
    ///
    /// # Errors
    /// When it was given up.
    pub(crate) fn cut_with(&self, id: u64) -> Result<Arc<Cut>> {
        self.snapshots.get(id).ok_or_else(|| {
            Error::new(Code::NoSuchVariable, "the server keeps no such instant")
                .because("another one was taken since, or the server was started anew")
                .help("take another one")
        })
    }

    /// Gives an instant up.
    pub fn release(&self, id: u64) {
        self.snapshots.release(id);
    }
}

pub(crate) fn not_ready() -> Error {
    Error::new(Code::NotInitialized, "the server has no model yet")
        .because("the chief has not made it, or is restoring it")
        .help("wait for the chief")
}
