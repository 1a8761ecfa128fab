//! The part of a table that one lock guards: rows whose ids share a few hash bits.

use super::index::Index;
use super::pending_rows::PendingRows;
use super::slabs::Slabs;
use std::ops::Range;

/// Prefetches are issued in back-to-back batches of this many rows so that the CPU can overlap their TLB misses.
const BATCH: usize = 8;
/// How many rows ahead of their use rows are prefetched.
const AHEAD: usize = 16;

/// Splits `count` rows into batches of two stages: rows to prefetch, and rows that were prefetched.
pub(super) fn stages(count: usize) -> impl Iterator<Item = [Range<usize>; 2]> {
    (0..count).step_by(BATCH).map(move |start| {
        [AHEAD, 0].map(|ahead| {
            let first = if start == 0 { 0 } else { start + ahead };
            first.min(count)..(start + ahead + BATCH).min(count)
        })
    })
}

pub(super) struct Stripe {
    pub(super) index: Index,
    /// The ids of the rows, in the order of creation.
    pub(super) ids: Vec<i64>,
    /// The rows, in the same order: values, then slots. Separate arrays would halve the memory that a lookup touches, but
    /// double the cache misses of an update, which costs more.
    pub(super) rows: Slabs,
    pub(super) pending: PendingRows,
    /// Rounds below this one are applied: later gradients for them are dropped.
    pub(super) settled: u64,
}

impl Stripe {
    /// Creates a stripe of rows with `width` numbers, slots included.
    pub(super) fn new(width: usize) -> Self {
        let (index, rows, pending) = (Index::default(), Slabs::new(width), PendingRows::default());
        Self { index, ids: Vec::new(), rows, pending, settled: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_goes_through_both_stages_once() {
        for count in [0, 1, 7, 8, 9, 16, 23, 24, 25, 39, 40, 41, 208] {
            let rows: Vec<_> = stages(count).collect();
            assert!(rows.iter().all(|[prefetched, ready]| ready.end <= prefetched.end));
            for stage in 0..2 {
                let of_stage: Vec<usize> = rows.iter().flat_map(|stages| stages[stage].clone()).collect();
                assert_eq!(of_stage, (0..count).collect::<Vec<_>>(), "{count}, {stage}");
            }
        }
    }
}
