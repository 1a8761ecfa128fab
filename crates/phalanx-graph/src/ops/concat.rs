//! Concatenation along an axis.

use super::misfit;
use crate::op::{Operation, Out, Rows};
use crate::pass::Context;
use crate::shape::ValueShape;
use phalanx_base::Result;
use serde::{Deserialize, Serialize};

/// Concatenates values along an axis, which is counted without the batch.
///
/// Where it is the last axis of vectors, values that can be computed in place are, and nothing is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Concat {
    /// The axis.
    pub axis: usize,
}

impl Concat {
    /// Returns how many numbers of a value of this shape are contiguous in the result.
    pub(crate) fn run(self, shape: &ValueShape) -> usize {
        shape.dims[self.axis..].iter().product()
    }
}

impl Operation for Concat {
    fn shape(&self, inputs: &[&ValueShape]) -> Result<ValueShape> {
        let Some((first, rest)) = inputs.split_first() else {
            return Err(misfit("a concatenation of nothing".to_owned()));
        };
        let mut shape = (*first).clone();
        if self.axis >= shape.dims.len() {
            return Err(misfit(format!("a value of shape {first} has no axis {}", self.axis)));
        }
        for other in rest {
            let mut same = (*other).clone();
            if same.dims.len() == shape.dims.len() {
                same.dims[self.axis] = first.dims[self.axis];
            }
            if same != **first {
                return Err(misfit(format!("values of shapes {first} and {other} cannot be concatenated")));
            }
            shape.dims[self.axis] = shape.dims[self.axis].saturating_add(other.dims[self.axis]);
        }
        Ok(shape)
    }

    fn forward(&self, cx: &Context<'_>, out: Out<'_>, _: &mut [f32]) {
        let (out, whole) = (out.contiguous(), self.run(cx.own_shape()).max(1));
        let mut start = 0;
        for input in 0..cx.count() {
            let run = self.run(cx.shape(input));
            if run > 0 && !cx.is_in_place(input) {
                for (out, x) in out.chunks_exact_mut(whole).zip(cx.input(input).chunks_exact(run)) {
                    out[start..start + run].copy_from_slice(x);
                }
            }
            start += run;
        }
    }

    fn backward(&self, input: usize, cx: &Context<'_>, gradient: Rows<'_>, to: &mut [f32]) {
        let whole = self.run(cx.own_shape()).max(1);
        let start: usize = (0..input).map(|before| self.run(cx.shape(before))).sum();
        let run = self.run(cx.shape(input));
        for (own, to) in gradient.contiguous().chunks_exact(whole).zip(to.chunks_exact_mut(run.max(1))) {
            to.copy_from_slice(&own[start..start + run]);
        }
    }
}
