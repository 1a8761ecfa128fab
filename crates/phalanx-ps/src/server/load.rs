//! Counters of what a server does, and sizes of what it holds.
//!
//! An exchange costs a few relaxed additions and two clock readings, no lock.

use super::Store;
use super::items::Item;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The work of a server since it started; `longest` since the last reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerLoad {
    /// Exchanges answered.
    pub exchanges: u64,
    /// Exchanges that pushed something.
    pub pushes: u64,
    /// Bytes of numbers and ids received.
    pub bytes_in: u64,
    /// Bytes of numbers sent.
    pub bytes_out: u64,
    /// Time inside exchanges.
    pub busy: Duration,
    /// The longest exchange since the last reading.
    pub longest: Duration,
}

/// The size of a shard of a variable, or of a server's part of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredItem {
    /// The variable's or table's name.
    pub name: String,
    /// Whether it is a table.
    pub table: bool,
    /// The numbers of a shard or the rows of a table.
    pub count: u64,
    /// The size of values and slots.
    pub bytes: u64,
}

/// The counters behind [`ServerLoad`].
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

    fn read(&self) -> ServerLoad {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ServerLoad {
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
    /// Returns the work of this server.
    pub fn load(&self) -> ServerLoad {
        self.counters.read()
    }

    /// Returns what this server holds, in the order of creation.
    pub fn stored_items(&self) -> Vec<StoredItem> {
        let items = self.items();
        let item = |item: &Item| match item {
            Item::Dense(shard) => {
                let count = shard.len() as u64;
                let parts = 1 + shard.optimizer.slot_count() as u64;
                StoredItem { name: shard.name.clone(), table: false, count, bytes: 4 * count * parts }
            }
            Item::Table(table) => {
                let count = table.len() as u64;
                StoredItem { name: table.name.clone(), table: true, count, bytes: 4 * count * table.width() as u64 }
            }
        };
        items.list().iter().map(item).collect()
    }
}
