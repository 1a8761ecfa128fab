//! What a server does and holds, for who watches it.
//!
//! On the path of every exchange: a few relaxed additions and two looks at the clock, no lock.

use super::Store;
use super::items::Item;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counted since the server started, except `longest`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Exchanges answered.
    pub exchanges: u64,
    /// Those that pushed something.
    pub pushes: u64,
    /// Bytes of numbers and ids that came.
    pub bytes_in: u64,
    /// Bytes of numbers that went.
    pub bytes_out: u64,
    /// Time inside exchanges.
    pub busy: Duration,
    /// The longest exchange since the last look.
    pub longest: Duration,
}

/// A shard of a variable, or a table's part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The variable's or table's name.
    pub name: String,
    /// Whether it is a table.
    pub table: bool,
    /// Numbers of a shard, rows of a table.
    pub count: u64,
    /// Values and slots.
    pub bytes: u64,
}

/// The counters behind [`Load`].
#[derive(Debug, Default)]
pub(super) struct Counters {
    exchanges: AtomicU64,
    pushes: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    micros: AtomicU64,
    longest: AtomicU64,
}

impl Counters {
    pub(super) fn count(&self, pushed: bool, bytes_in: usize, bytes_out: usize, time: Duration) {
        let micros = time.as_micros() as u64;
        self.exchanges.fetch_add(1, Ordering::Relaxed);
        self.pushes.fetch_add(pushed.into(), Ordering::Relaxed);
        self.bytes_in.fetch_add(bytes_in as u64, Ordering::Relaxed);
        self.bytes_out.fetch_add(bytes_out as u64, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
        self.longest.fetch_max(micros, Ordering::Relaxed);
    }

    fn look(&self) -> Load {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Load {
            exchanges: of(&self.exchanges),
            pushes: of(&self.pushes),
            bytes_in: of(&self.bytes_in),
            bytes_out: of(&self.bytes_out),
            busy: Duration::from_micros(of(&self.micros)),
            longest: Duration::from_micros(self.longest.swap(0, Ordering::Relaxed)),
        }
    }
}

impl Store {
    /// What this server has done.
    pub fn load(&self) -> Load {
        self.counters.look()
    }

    /// What this server holds, in the order in which it was made.
    pub fn holdings(&self) -> Vec<Holding> {
        let items = self.items();
        let holding = |item: &Item| match item {
            Item::Dense(shard) => {
                let count = shard.len() as u64;
                let parts = 1 + shard.optimizer.slot_count() as u64;
                Holding { name: shard.name.clone(), table: false, count, bytes: 4 * count * parts }
            }
            Item::Table(table) => {
                let count = table.len() as u64;
                Holding { name: table.name.clone(), table: true, count, bytes: 4 * count * table.width() as u64 }
            }
        };
        items.list().iter().map(holding).collect()
    }
}
