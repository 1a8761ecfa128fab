//! A parameter as the value of every example.

use super::{exactly, misfit};
use crate::op::{Operation, Out, Rows};
use crate::pass::Context;
use crate::shape::{Leading, ValueShape};
use phalanx_base::Result;
use phalanx_matmul::column_sums;
use serde::{Deserialize, Serialize};

/// Gives every example the same value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeat;

impl Operation for Repeat {
    fn shape(&self, inputs: &[&ValueShape]) -> Result<ValueShape> {
        let [x] = exactly(inputs)?;
        match x.leading {
            Leading::None => Ok(ValueShape::batch(x.dims.clone())),
            _ => Err(misfit(format!("a value of shape {x} differs from example to example"))),
        }
    }

    fn forward(&self, cx: &Context<'_>, out: Out<'_>, _: &mut [f32]) {
        let x = cx.input(0);
        out.contiguous().chunks_exact_mut(x.len().max(1)).for_each(|out| out.copy_from_slice(x));
    }

    fn backward(&self, _: usize, cx: &Context<'_>, gradient: Rows<'_>, to: &mut [f32]) {
        column_sums(cx.level(), gradient.contiguous(), to);
    }
}
