//! How one step's traffic with one server is split into messages. Pure.
//!
//! Dense pieces come first and are packed without regard to rows, so every task splits them alike: a task that finishes
//! another one's step then sends the same parts under the same ids. Rows are pushed before they are pulled.

use crate::plan::{CHUNK, Layout};
use phalanx_wire::limits::PART_BYTES;
use std::ops::Range;

/// A run of a shard's numbers, in complete chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) shard: usize,
    /// Positions in the shard.
    pub(super) elements: Range<usize>,
}

/// A run of a request's rows: positions `range` of what the server holds of set number `set`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RowRun {
    pub(super) set: usize,
    pub(super) range: Range<usize>,
}

/// The contents of one message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) pieces: Range<usize>,
    pub(super) row_push: Vec<RowRun>,
    pub(super) row_pull: Vec<RowRun>,
}

/// Returns the dense pieces of a server, in the order of the layout.
pub(super) fn pieces(layout: &Layout, server: usize) -> Vec<Piece> {
    let step = PART_BYTES / 4 / CHUNK * CHUNK;
    let split = |shard: usize| {
        let len = layout.shards()[shard].elements.len();
        (0..len).step_by(step).map(move |start| Piece { shard, elements: start..(start + step).min(len) })
    };
    layout.shards_on(server).flat_map(split).collect()
}

/// Packs pieces and rows into as few messages as possible, at least one. The rows are given for each set as their number
/// on this server and the bytes of one.
pub(super) fn pack(pieces: &[Piece], row_push: &[(usize, usize)], row_pull: &[(usize, usize)]) -> Vec<Part> {
    let mut parts = vec![Part::default()];
    let mut filled = 0;
    for (i, piece) in pieces.iter().enumerate() {
        let bytes = 4 * piece.elements.len();
        if filled + bytes > PART_BYTES && filled > 0 {
            parts.push(Part { pieces: i..i, ..Part::default() });
            filled = 0;
        }
        filled += bytes;
        if let Some(part) = parts.last_mut() {
            part.pieces.end = i + 1;
        }
    }
    let end = pieces.len();
    for (sets, is_push) in [(row_push, true), (row_pull, false)] {
        for (set, &(count, row_bytes)) in sets.iter().enumerate() {
            let mut start = 0;
            while start < count {
                let fits = (PART_BYTES.saturating_sub(filled) / row_bytes).min(count - start);
                if fits == 0 {
                    parts.push(Part { pieces: end..end, ..Part::default() });
                    filled = 0;
                    continue;
                }
                let run = RowRun { set, range: start..start + fits };
                if let Some(part) = parts.last_mut() {
                    if is_push { part.row_push.push(run) } else { part.row_pull.push(run) }
                }
                filled += fits * row_bytes;
                start += fits;
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn everything_is_sent_once_in_parts_that_fit(
            lens in proptest::collection::vec(1_usize..3_000_000, 0..6),
            push in proptest::collection::vec((0_usize..40_000, 8_usize..2000), 0..3),
            pull in proptest::collection::vec((0_usize..40_000, 8_usize..2000), 0..3),
        ) {
            let limit = PART_BYTES / 4;
            let pieces: Vec<Piece> = lens.iter().enumerate().flat_map(|(shard, &len)| {
                (0..len).step_by(limit).map(move |at| Piece { shard, elements: at..(at + limit).min(len) })
            }).collect();
            let parts = pack(&pieces, &push, &pull);
            let (mut next, mut pushed, mut pulled) = (0, vec![0; push.len()], vec![0; pull.len()]);
            let mut pulling = false;
            for part in &parts {
                prop_assert_eq!(part.pieces.start, next);
                next = part.pieces.end;
                let mut bytes: usize = pieces[part.pieces.clone()].iter().map(|p| 4 * p.elements.len()).sum();
                for run in &part.row_push {
                    prop_assert!(!pulling && run.range.start == pushed[run.set]);
                    pushed[run.set] = run.range.end;
                    bytes += run.range.len() * push[run.set].1;
                }
                for run in &part.row_pull {
                    pulling = true;
                    prop_assert_eq!(run.range.start, pulled[run.set]);
                    pulled[run.set] = run.range.end;
                    bytes += run.range.len() * pull[run.set].1;
                }
                prop_assert!(bytes <= PART_BYTES);
            }
            prop_assert_eq!(next, pieces.len());
            prop_assert!(pushed.iter().zip(&push).all(|(&seen, &(count, _))| seen == count));
            prop_assert!(pulled.iter().zip(&pull).all(|(&seen, &(count, _))| seen == count));
            // The dense parts do not depend on the rows.
            let dense_only = pack(&pieces, &[], &[]);
            prop_assert!(dense_only.iter().zip(&parts).all(|(a, b)| a.pieces == b.pieces));
        }
    }
}
