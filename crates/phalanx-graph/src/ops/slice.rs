//! A range of every vector.

use super::{exactly, misfit};
use crate::op::{Operation, Out, Rows};
use crate::pass::Context;
use crate::shape::ValueShape;
use phalanx_base::Result;
use serde::{Deserialize, Serialize};

/// Takes a range of the last axis of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// The first column.
    pub start: usize,
    /// The number of columns.
    pub width: usize,
}

impl Operation for Slice {
    fn shape(&self, inputs: &[&ValueShape]) -> Result<ValueShape> {
        let [x] = exactly(inputs)?;
        match self.start.checked_add(self.width) {
            Some(end) if end <= x.vector()? => Ok(ValueShape::batch([self.width])),
            _ => Err(misfit(format!("a value of shape {x} has no columns {} to {}", self.start, self.width))),
        }
    }

    fn forward(&self, cx: &Context<'_>, out: Out<'_>, _: &mut [f32]) {
        let (layout, rows) = (out.layout, cx.input(0).chunks_exact(cx.shape(0).width().max(1)));
        for (out, x) in out.values.chunks_exact_mut(layout.stride.max(1)).zip(rows) {
            out[layout.start..layout.start + self.width].copy_from_slice(&x[self.start..self.start + self.width]);
        }
    }

    fn backward(&self, _: usize, cx: &Context<'_>, gradient: Rows<'_>, to: &mut [f32]) {
        for (to, own) in to.chunks_exact_mut(cx.shape(0).width().max(1)).zip(gradient.iter()) {
            to[self.start..self.start + self.width].iter_mut().zip(own).for_each(|(to, own)| *to += own);
        }
    }

    fn adds(&self) -> bool {
        true
    }

    fn is_strided(&self) -> bool {
        true
    }
}
