//! The dot products of pairs of fields.

use super::{exactly, misfit};
use crate::op::{Operation, Out, Reads, Rows};
use crate::pass::Context;
use crate::shape::ValueShape;
use phalanx_base::Result;
use serde::{Deserialize, Serialize};

/// The dot product of each pair of fields, in the order of [`pairs`]: the interaction of a DLRM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairProducts {
    /// The number of fields: every example has this many vectors, one after the other.
    pub fields: usize,
}

/// Iterates over the pairs of fields: (1, 0), (2, 0), (2, 1), …
///
/// ```
/// let all: Vec<_> = phalanx_graph::pairs(3).collect();
/// assert_eq!(all, [(1, 0), (2, 0), (2, 1)]);
/// ```
pub fn pairs(fields: usize) -> impl Iterator<Item = (usize, usize)> {
    (1..fields).flat_map(|a| (0..a).map(move |b| (a, b)))
}

impl Operation for PairProducts {
    fn shape(&self, inputs: &[&ValueShape]) -> Result<ValueShape> {
        let [x] = exactly(inputs)?;
        match x.vector()?.checked_rem(self.fields) {
            Some(0) => Ok(ValueShape::batch([pairs(self.fields).count()])),
            _ => Err(misfit(format!("a value of shape {x} is not made of {} fields", self.fields))),
        }
    }

    fn forward(&self, cx: &Context<'_>, out: Out<'_>, _: &mut [f32]) {
        cx.fields(self.fields).dots(cx.level(), cx.input(0), out.contiguous());
    }

    fn backward(&self, _: usize, cx: &Context<'_>, gradient: Rows<'_>, to: &mut [f32]) {
        cx.fields(self.fields).dots_gradient(cx.level(), cx.input(0), gradient.contiguous(), to);
    }

    fn reads(&self) -> Reads {
        Reads { inputs: true, output: false }
    }
}
