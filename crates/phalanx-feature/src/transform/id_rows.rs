//! Ids by row, as intermediate results.
//!
//! Hot path: most columns have exactly one id per row, which needs no splits.

use super::raw::{Raw, TokensView};
use std::ops::Range;

/// The ids of every row, and their weights, if any. Negative ids are not yet removed.
#[derive(Clone, Debug, Default)]
pub(super) struct IdRows {
    pub(super) ids: Vec<i64>,
    /// The bounds of the rows; `None` if every row has one id.
    pub(super) splits: Option<Vec<usize>>,
    pub(super) weights: Option<Vec<f32>>,
}

impl IdRows {
    #[inline]
    pub(super) fn range(&self, row: usize) -> Range<usize> {
        match &self.splits {
            None => row..row + 1,
            Some(splits) => splits[row]..splits[row + 1],
        }
    }

    /// The ids of an input's values. Missing values of a dense input are dropped, or kept as -1 if `keep_missing` is set;
    /// ragged rows are taken unchanged.
    #[inline]
    pub(super) fn collect(
        raw: &Raw<'_>,
        tokens: TokensView<'_>,
        keep_missing: bool,
        id: impl Fn(usize) -> i64,
    ) -> Self {
        let mut ids = Vec::with_capacity(tokens.len());
        if raw.rows.is_ragged() {
            ids.extend((0..tokens.len()).map(id));
            return Self { ids, splits: Some(raw.splits()), weights: None };
        }
        if keep_missing {
            ids.extend((0..tokens.len()).map(|index| if tokens.is_missing(index) { -1 } else { id(index) }));
            let splits = (!raw.rows.is_single()).then(|| raw.splits());
            return Self { ids, splits, weights: None };
        }
        if raw.rows.is_single() {
            // Without missing values, no splits are needed.
            let there = (0..tokens.len()).take_while(|&index| !tokens.is_missing(index));
            ids.extend(there.map(&id));
            if ids.len() == tokens.len() {
                return Self { ids, splits: None, weights: None };
            }
        }
        let done = ids.len();
        let mut splits: Vec<usize> = Vec::with_capacity(raw.rows.len() + 1);
        splits.extend(0..=done);
        for row in done..raw.rows.len() {
            for index in raw.rows.range(row) {
                if !tokens.is_missing(index) {
                    ids.push(id(index));
                }
            }
            splits.push(ids.len());
        }
        Self { ids, splits: Some(splits), weights: None }
    }
}

impl Raw<'_> {
    /// The bounds of the rows, counted in values from 0.
    pub(super) fn splits(&self) -> Vec<usize> {
        let ends = (0..self.rows.len()).map(|row| self.rows.range(row).end);
        std::iter::once(0).chain(ends).collect()
    }
}
