//! Other dimensions for the same numbers.

use super::{exactly, misfit};
use crate::op::{Operation, Out, Rows};
use crate::pass::Context;
use crate::shape::ValueShape;
use phalanx_base::Result;
use serde::{Deserialize, Serialize};

/// Gives every example of a value other dimensions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reshape {
    /// The dimensions of an example.
    pub dims: Vec<usize>,
}

impl Operation for Reshape {
    fn shape(&self, inputs: &[&ValueShape]) -> Result<ValueShape> {
        let [x] = exactly(inputs)?;
        match self.dims.iter().product::<usize>() == x.elements() {
            true => Ok(ValueShape { leading: x.leading, dims: self.dims.clone() }),
            false => Err(misfit(format!("a value of shape {x} does not have the numbers of {:?}", self.dims))),
        }
    }

    fn forward(&self, cx: &Context<'_>, out: Out<'_>, _: &mut [f32]) {
        out.contiguous().copy_from_slice(cx.input(0));
    }

    fn backward(&self, _: usize, _: &Context<'_>, gradient: Rows<'_>, to: &mut [f32]) {
        to.copy_from_slice(gradient.contiguous());
    }
}
