//! One instant of a server, kept while training goes on.
//!
//! A cut takes the time of a lock: it notes how far everything is, and gives the instant a number. From then on, whoever
//! changes numbers for the first time since the cut keeps a copy of them as they were. Whoever writes the instant down
//! takes that copy where there is one, and the numbers themselves where nothing has changed; either way, what is written
//! is the instant. So training never waits for a disk, and the copies are never more than the model once.

use super::dense::Dense;
use super::items::Item;
use super::table::Table;
use super::{Progress, Store, lock};
use phalanx_base::{Code, Error, Incarnation, Result, TaskId};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// The number of the newest cut; shared by everything that keeps copies.
#[derive(Debug, Default)]
pub(crate) struct Clock(AtomicU64);

impl Clock {
    pub(crate) fn now(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// What numbers were at the newest cut, where they have changed since.
#[derive(Default)]
pub(crate) struct Before {
    copy: Option<Box<[f32]>>,
    /// Cuts up to this one need nothing more of the numbers, or have their copy.
    cut: u64,
}

impl Before {
    /// Of numbers that come into being now.
    pub(crate) fn new(now: u64) -> Self {
        Self { copy: None, cut: now }
    }

    /// To be called before a change of `numbers`.
    pub(crate) fn keep(&mut self, numbers: &[f32], now: u64) {
        if self.cut < now {
            *self = Self { copy: Some(numbers.into()), cut: now };
        }
    }

    /// The numbers as they were at the cut, of which there are these now.
    pub(crate) fn at_cut<'a>(&'a self, numbers: &'a [f32]) -> &'a [f32] {
        self.copy.as_deref().unwrap_or(numbers)
    }

    /// The cut needs these numbers no more.
    pub(crate) fn let_go(&mut self, cut: u64) {
        *self = Self { copy: None, cut: self.cut.max(cut) };
    }
}

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
    given_up: AtomicBool,
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
        self.given_up.load(Ordering::SeqCst)
    }

    fn let_go(&self) {
        self.given_up.store(true, Ordering::SeqCst);
        for item in &self.items {
            match item {
                CutItem::Dense { shard, .. } => shard.let_go(self.number),
                CutItem::Table { table, .. } => table.let_go(self.number),
            }
        }
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
        let mut current = lock(&self.cut);
        if let Some(cut) = current.as_ref().filter(|cut| cut.id == id) {
            return Ok(Arc::clone(cut));
        }
        if let Some(former) = current.take() {
            former.let_go();
        }
        let started = Instant::now();
        // Updates in progress come to their end; new ones wait.
        let gate = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        let number = self.clock.now() + 1;
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
        self.clock.0.store(number, Ordering::Release);
        drop(gate);
        let (pause, given_up) = (started.elapsed(), AtomicBool::new(false));
        let cut = Arc::new(Cut { id, number, pause, global_step, items, applied, notes, given_up });
        *current = Some(Arc::clone(&cut));
        Ok(cut)
    }

    /// The instant with this id.
    ///
    /// # Errors
    /// When it was given up.
    pub(crate) fn cut_with(&self, id: u64) -> Result<Arc<Cut>> {
        let cut = lock(&self.cut).clone().filter(|cut| cut.id == id);
        cut.ok_or_else(|| {
            Error::new(Code::NoSuchVariable, "the server keeps no such instant")
                .because("another one was taken since, or the server was started anew")
                .help("take another one")
        })
    }

    /// Gives an instant up.
    pub fn release(&self, id: u64) {
        let mut current = lock(&self.cut);
        if let Some(cut) = current.take_if(|cut| cut.id == id) {
            cut.let_go();
        }
    }
}

pub(crate) fn not_ready() -> Error {
    Error::new(Code::NotInitialized, "the server has no model yet")
        .because("the chief has not made it, or is restoring it")
        .help("wait for the chief")
}
