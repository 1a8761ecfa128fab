//! Embedding rows, combined for each example.
//!
//! This is a hot path: nothing is allocated per row.

use super::{exactly, misfit};
use crate::feed::Ids;
use crate::kernels::for_each_row;
use crate::op::{Operation, Out, Reads, Rows};
use crate::pass::Context;
use crate::shape::{Leading, ValueShape};
use phalanx_base::{Combiner, Result};
use serde::{Deserialize, Serialize};

/// Combines the rows of the ids of every example into one vector; without ids it is 0. The inputs are the rows of a table and
/// the ids.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bag {
    /// How rows are combined.
    #[serde(with = "crate::foreign::Combiner")]
    pub combiner: Combiner,
    /// The length to which longer rows are clipped.
    pub max_norm: Option<f32>,
}

impl Bag {
    /// Calls `f` with the index of the unique row and the weight of each id of an example.
    #[inline]
    fn each(self, ids: Ids<'_>, example: usize, mut f: impl FnMut(usize, f32)) {
        let range = ids.splits[example]..ids.splits[example + 1];
        let Some(weights) = ids.weights else {
            let count = range.len() as f32;
            let share = match self.combiner {
                Combiner::Sum => 1.0,
                Combiner::Mean => 1.0 / count,
                Combiner::Sqrtn => 1.0 / count.sqrt(),
            };
            range.for_each(|at| f(ids.positions[at] as usize, share));
            return;
        };
        let whole = match self.combiner {
            Combiner::Sum => 1.0,
            Combiner::Mean => weights[range.clone()].iter().sum::<f32>(),
            Combiner::Sqrtn => weights[range.clone()].iter().map(|w| w * w).sum::<f32>().sqrt(),
        };
        range.for_each(|at| f(ids.positions[at] as usize, weights[at] / whole));
    }

    /// Returns the factor that clips a row to `max_norm`.
    #[inline]
    fn clip(self, row: &[f32]) -> f32 {
        let Some(longest) = self.max_norm else { return 1.0 };
        let length = row.iter().map(|x| x * x).sum::<f32>().sqrt();
        if length > longest { longest / length } else { 1.0 }
    }
}

impl Operation for Bag {
    fn shape(&self, inputs: &[&ValueShape]) -> Result<ValueShape> {
        let [rows, ids] = exactly(inputs)?;
        match rows.leading {
            Leading::Rows if *ids == ValueShape::batch([]) => Ok(ValueShape::batch(rows.dims.clone())),
            _ => Err(misfit(format!("values of shapes {rows} and {ids} are not the rows of a table and ids"))),
        }
    }

    fn forward(&self, cx: &Context<'_>, out: Out<'_>, _: &mut [f32]) {
        let (rows, ids, dim) = (cx.input(0), cx.ids(1), out.layout.width);
        for_each_row(out, |example, out| {
            out.fill(0.0);
            self.each(ids, example, |at, share| {
                let row = &rows[at * dim..][..dim];
                let share = share * self.clip(row);
                out.iter_mut().zip(row).for_each(|(out, x)| *out += share * x);
            });
        });
    }

    fn backward(&self, _: usize, cx: &Context<'_>, gradient: Rows<'_>, to: &mut [f32]) {
        let (rows, ids, dim) = (cx.input(0), cx.ids(1), gradient.layout.width);
        for (example, own) in gradient.iter().enumerate() {
            self.each(ids, example, |at, share| {
                let (row, to) = (&rows[at * dim..][..dim], &mut to[at * dim..][..dim]);
                let scale = self.clip(row);
                let share = share * scale;
                to.iter_mut().zip(own).for_each(|(to, own)| *to += share * own);
                if scale < 1.0 {
                    // A row clipped to max_norm gets only the part of the gradient that is orthogonal to it.
                    let square: f32 = row.iter().map(|x| x * x).sum();
                    let along: f32 = row.iter().zip(own).map(|(x, own)| x * own).sum::<f32>() / square;
                    to.iter_mut().zip(row).for_each(|(to, x)| *to -= share * along * x);
                }
            });
        }
    }

    fn reads(&self) -> Reads {
        Reads { inputs: true, output: false }
    }

    fn adds(&self) -> bool {
        true
    }

    fn is_strided(&self) -> bool {
        true
    }
}
