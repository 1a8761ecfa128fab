//! Features with a time axis, padded to the longest row.

use super::features::Features;
use super::id_rows::IdRows;
use super::output::{Output, Pruned, add, check_range};
use super::raw::Raw;
use super::step::IdStep;
use super::{Transform, place};
use crate::columns::kind::Numeric;
use crate::layout::matrix;
use crate::numbers::each_f32;
use phalanx_base::{Code, Error, Result};

/// The maximum number of steps in one batch, including padding.
const MOST_CELLS: usize = 1 << 28;

impl Transform {
    pub(super) fn sequence(&self, raws: &[Raw<'_>], done: &[IdRows], rows: usize) -> Result<Features> {
        let mut lengths: Option<Vec<usize>> = None;
        let mut steps = 0;
        for (output, column) in self.outputs.iter().zip(&self.columns) {
            let extent = self.extent(output, raws);
            steps = steps.max(extent.steps);
            match &lengths {
                None => lengths = Some(extent.lengths),
                Some(known) if *known == extent.lengths => {}
                Some(_) => {
                    let what = "the columns of a sequence have rows of different lengths";
                    return Err(Error::new(Code::ShapeMismatch, what)
                        .at(format!("feature column {:?}", column.name))
                        .help("every sequence of one row must have the same number of steps"));
                }
            }
        }
        let cells = rows.checked_mul(steps).filter(|&cells| cells <= MOST_CELLS).ok_or_else(|| {
            Error::new(Code::DataRow, format!("{rows} rows padded to {steps} steps are too many for one batch"))
                .help("cut long sequences, or use smaller batches")
        })?;
        let mut features = Features {
            rows,
            steps,
            lengths: lengths.unwrap_or_default(),
            dense: matrix(cells, self.dense_width)?,
            sparse: Vec::new(),
        };
        for (output, column) in self.outputs.iter().zip(&self.columns) {
            self.put(output, raws, done, &mut features).map_err(|error| place(error, &column.name))?;
        }
        Ok(features)
    }

    fn put(&self, output: &Output, raws: &[Raw<'_>], done: &[IdRows], features: &mut Features) -> Result<()> {
        let (rows, steps, width) = (features.rows, features.steps, self.dense_width);
        match output {
            Output::Numeric { raw, numeric, start } => put_numbers(&raws[*raw], numeric, features, width, *start),
            Output::Scatter { step, start, width: buckets } => {
                let (ids, per_step) = (&done[*step], self.per_step(*step, raws));
                for row in 0..rows {
                    for (offset, index) in ids.range(row).enumerate() {
                        let cell = row * steps + offset / per_step;
                        add(&mut features.dense[cell * width + start..][..*buckets], ids, index);
                    }
                }
                Ok(())
            }
            Output::Sparse { step, buckets, combiner } => {
                let (ids, per_step) = (&done[*step], self.per_step(*step, raws));
                check_range(&ids.ids, *buckets)?;
                let mut pruned = Pruned::new(ids, *combiner, rows * steps);
                for row in 0..rows {
                    let range = ids.range(row);
                    for step in 0..steps {
                        let from = range.start + step * per_step;
                        (from..(from + per_step).min(range.end)).for_each(|index| pruned.take(index));
                        pruned.end();
                    }
                }
                features.sparse.push(pruned.out);
                Ok(())
            }
        }
    }

    /// The number of ids per step of the sequence.
    fn per_step(&self, step: usize, raws: &[Raw<'_>]) -> usize {
        raws[self.input_of(step)].per_step()
    }

    /// The input whose rows a step's ids follow.
    fn input_of(&self, step: usize) -> usize {
        match &self.steps[step] {
            IdStep::Identity { raw, .. }
            | IdStep::Hash { raw, .. }
            | IdStep::Lookup { raw, .. }
            | IdStep::Bucket { raw, .. } => *raw,
            IdStep::Weighted { step, .. } => self.input_of(*step),
            // No cross has a time axis.
            IdStep::Cross { .. } => 0,
        }
    }

    fn extent(&self, output: &Output, raws: &[Raw<'_>]) -> Extent {
        match output {
            Output::Numeric { raw, numeric, .. } => Extent::new(&raws[*raw], numeric.elements(), |_| false),
            Output::Scatter { step, .. } | Output::Sparse { step, .. } => {
                let raw = &raws[self.input_of(*step)];
                let tokens = raw.tokens().ok();
                let missing = |index| tokens.is_some_and(|tokens| tokens.is_missing(index));
                Extent::new(raw, raw.per_step(), missing)
            }
        }
    }
}

/// The lengths of rows, in steps.
struct Extent {
    lengths: Vec<usize>,
    /// The capacity of the longest row.
    steps: usize,
}

impl Extent {
    /// Missing values at the end of a dense row are not counted.
    fn new(raw: &Raw<'_>, per_step: usize, is_missing: impl Fn(usize) -> bool) -> Self {
        let per_step = per_step.max(1);
        let mut steps = 0;
        let lengths = (0..raw.rows.len()).map(|row| {
            let range = raw.rows.range(row);
            steps = steps.max(range.len().div_ceil(per_step));
            let there = match raw.rows.is_ragged() {
                true => range.len(),
                false => range.clone().rev().find(|&index| !is_missing(index)).map_or(0, |last| last + 1 - range.start),
            };
            there.div_ceil(per_step)
        });
        let lengths = lengths.collect();
        Self { lengths, steps }
    }
}

impl Raw<'_> {
    /// The values per step: of an item of a ragged row, or of all dimensions but the first of a dense row.
    fn per_step(&self) -> usize {
        let shape = self.column.row_shape();
        let inner = if self.rows.is_ragged() { shape } else { shape.get(1..).unwrap_or_default() };
        inner.iter().product::<usize>().max(1)
    }
}

fn put_numbers(raw: &Raw<'_>, numeric: &Numeric, features: &mut Features, width: usize, start: usize) -> Result<()> {
    let elements = numeric.elements();
    let padding = numeric.default.as_ref().and_then(|default| default.first()).map_or(0.0, |&value| value as f32);
    for cell in 0..features.rows * features.steps {
        features.dense[cell * width + start..][..elements].fill(padding);
    }
    let (mut values, mut fault) = (Vec::new(), None);
    each_f32(raw.column, |value| values.push(numeric.functions.checked(raw.key, value, &mut fault)))?;
    fault.map_or(Ok(()), Err)?;
    for row in 0..features.rows {
        for (offset, &value) in values[raw.rows.range(row)].iter().enumerate() {
            let cell = row * features.steps + offset / elements;
            features.dense[cell * width + start + offset % elements] = value;
        }
    }
    Ok(())
}
