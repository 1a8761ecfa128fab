//! The last step: writing ids and numbers into the features.
//!
//! Hot path: one pass per column, no allocation per row.

use super::features::SparseIds;
use super::id_rows::IdRows;
use super::raw::Raw;
use super::step::check_numeric;
use crate::columns::Combiner;
use crate::columns::kind::Numeric;
use crate::numbers::each_f32;
use phalanx_base::{Code, Error, Result};

/// The output of one column.
#[derive(Clone)]
pub(super) enum Output {
    /// Numbers in the matrix.
    Numeric { raw: usize, numeric: Numeric, start: usize },
    /// Ids in the matrix, as counts or sums of weights.
    Scatter { step: usize, start: usize, width: usize },
    /// Ids for a table of `buckets` rows.
    Sparse { step: usize, buckets: usize, combiner: Combiner },
}

/// The dense matrix: `width` numbers per row.
pub(super) struct Matrix {
    pub(super) values: Vec<f32>,
    pub(super) width: usize,
}

impl Matrix {
    pub(super) fn put_numeric(&mut self, raw: &Raw<'_>, numeric: &Numeric, start: usize) -> Result<()> {
        check_numeric(raw, numeric)?;
        let elements = numeric.elements();
        let (functions, mut fault) = (&numeric.functions, None);
        let (mut row, mut element) = (start, 0);
        each_f32(raw.column, |value| {
            if numeric.missing_indicator && value.is_nan() {
                self.values[row + elements + element] = 1.0;
            }
            let value = numeric.filled(element, value);
            self.values[row + element] = functions.checked(raw.key, value, &mut fault);
            element += 1;
            if element == elements {
                (row, element) = (row + self.width, 0);
            }
        })?;
        fault.map_or(Ok(()), Err)
    }

    pub(super) fn scatter(&mut self, ids: &IdRows, rows: usize, start: usize, width: usize) {
        for row in 0..rows {
            let cells = &mut self.values[row * self.width + start..][..width];
            for index in ids.range(row) {
                add(cells, ids, index);
            }
        }
    }
}

/// Counts one id. Ids out of range are ignored, as in TensorFlow.
#[inline]
pub(super) fn add(cells: &mut [f32], ids: &IdRows, index: usize) {
    let cell = usize::try_from(ids.ids[index]).ok().and_then(|id| cells.get_mut(id));
    if let Some(cell) = cell {
        *cell += ids.weights.as_ref().map_or(1.0, |weights| weights[index]);
    }
}

/// Removes negative ids and, where weights are averaged, ids without weight.
pub(super) fn prune(ids: &IdRows, rows: usize, buckets: usize, combiner: Combiner) -> Result<SparseIds> {
    check_range(&ids.ids, buckets)?;
    if ids.weights.is_none() && ids.ids.iter().all(|&id| id >= 0) {
        let splits = ids.splits.clone().unwrap_or_else(|| (0..=rows).collect());
        return Ok(SparseIds { ids: ids.ids.clone(), splits, weights: None });
    }
    let mut pruned = Pruned::new(ids, combiner, rows);
    for row in 0..rows {
        ids.range(row).for_each(|index| pruned.take(index));
        pruned.end();
    }
    Ok(pruned.out)
}

pub(super) fn check_range(ids: &[i64], buckets: usize) -> Result<()> {
    match ids.iter().find(|&&id| id >= buckets as i64) {
        None => Ok(()),
        Some(id) => Err(Error::new(Code::DataRow, format!("id {id} is beyond the {buckets} ids of its column"))
            .help("raise num_buckets, or set default_value for ids that are out of range")),
    }
}

/// The ids that remain after pruning, built one by one.
pub(super) struct Pruned<'a> {
    ids: &'a IdRows,
    drop_weightless: bool,
    pub(super) out: SparseIds,
}

impl<'a> Pruned<'a> {
    pub(super) fn new(ids: &'a IdRows, combiner: Combiner, rows: usize) -> Self {
        let mut splits = Vec::with_capacity(rows + 1);
        splits.push(0);
        let weights = ids.weights.as_ref().map(|weights| Vec::with_capacity(weights.len()));
        let out = SparseIds { ids: Vec::with_capacity(ids.ids.len()), splits, weights };
        Self { ids, drop_weightless: combiner != Combiner::Sum, out }
    }

    #[inline]
    pub(super) fn take(&mut self, index: usize) {
        let id = self.ids.ids[index];
        if id < 0 {
            return;
        }
        if let (Some(from), Some(to)) = (&self.ids.weights, &mut self.out.weights) {
            // NaN is kept, so that it is noticed.
            if self.drop_weightless && from[index] <= 0.0 {
                return;
            }
            to.push(from[index]);
        }
        self.out.ids.push(id);
    }

    /// Ends the current row.
    pub(super) fn end(&mut self) {
        self.out.splits.push(self.out.ids.len());
    }
}
