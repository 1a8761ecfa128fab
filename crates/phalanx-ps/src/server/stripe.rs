//! The part of a table that one lock guards: rows whose ids share a few hash bits.

use super::index::Index;
use super::pending_rows::PendingRows;
use super::slabs::Slabs;
use std::ops::Range;

/// For so many rows memory is asked for at once, one behind the other: a processor looks up where several pages are at a
/// time only if little else stands between them.
const BATCH: usize = 8;
/// How many rows that is ahead.
const AHEAD: usize = 16;

/// So many rows batch by batch, in two stages: the memory of those of the first is asked for; those of the second are at
/// hand.
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
    /// The ids of the rows, in the order in which they came into being.
    pub(super) ids: Vec<i64>,
    /// The rows, in the same order: values, then slots. Apart, looking values up would touch half the memory, and an
    /// update two places instead of one, which costs more than that saves.
    pub(super) rows: Slabs,
    pub(super) pending: PendingRows,
    /// Rounds below this are applied: what comes later for them is dropped.
    pub(super) settled: u64,
}

impl Stripe {
    /// Of rows with so many numbers, slots counted.
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
            assert!(rows.iter().all(|[asked, at_hand]| at_hand.end <= asked.end));
            for stage in 0..2 {
                let of_stage: Vec<usize> = rows.iter().flat_map(|stages| stages[stage].clone()).collect();
                assert_eq!(of_stage, (0..count).collect::<Vec<_>>(), "{count}, {stage}");
            }
        }
    }
}
