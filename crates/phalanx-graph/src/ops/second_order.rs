//! The second-order term of a factorization machine.

use super::{exactly, misfit};
use crate::op::{Operation, Out, Reads, Rows};
use crate::pass::Context;
use crate::shape::ValueShape;
use phalanx_base::Result;
use serde::{Deserialize, Serialize};

/// The sum of the dot products of all pairs of fields: every example has this many vectors, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecondOrder {
    /// The number of fields.
    pub fields: usize,
}

impl Operation for SecondOrder {
    fn shape(&self, inputs: &[&ValueShape]) -> Result<ValueShape> {
        let [x] = exactly(inputs)?;
        match x.vector()?.checked_rem(self.fields) {
            Some(0) => Ok(ValueShape::batch([1])),
            _ => Err(misfit(format!("a value of shape {x} is not made of {} fields", self.fields))),
        }
    }

    fn forward(&self, cx: &Context<'_>, out: Out<'_>, _: &mut [f32]) {
        cx.fields(self.fields).factorization(cx.level(), cx.input(0), out.contiguous());
    }

    fn backward(&self, _: usize, cx: &Context<'_>, gradient: Rows<'_>, to: &mut [f32]) {
        cx.fields(self.fields).factorization_gradient(cx.level(), cx.input(0), gradient.contiguous(), to);
    }

    fn reads(&self) -> Reads {
        Reads { inputs: true, output: false }
    }
}
