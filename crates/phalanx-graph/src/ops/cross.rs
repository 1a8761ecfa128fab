//! A cross layer.

use super::{exactly, misfit};
use crate::op::{Operation, Out, Reads, Rows};
use crate::pass::Context;
use crate::shape::ValueShape;
use phalanx_base::Result;
use serde::{Deserialize, Serialize};

/// `x0 · u + x`, number by number: a cross layer (DCN) of its first input, the output of its dense layer, and its own input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cross;

impl Operation for Cross {
    fn shape(&self, inputs: &[&ValueShape]) -> Result<ValueShape> {
        let [first, u, x] = exactly(inputs)?;
        match first == u && u == x {
            true => Ok(x.clone()),
            false => Err(misfit(format!("values of shapes {first}, {u} and {x} cannot be crossed"))),
        }
    }

    fn forward(&self, cx: &Context<'_>, out: Out<'_>, _: &mut [f32]) {
        phalanx_matmul::cross(cx.level(), cx.input(0), cx.input(1), cx.input(2), out.contiguous());
    }

    fn backward(&self, input: usize, cx: &Context<'_>, gradient: Rows<'_>, to: &mut [f32]) {
        let gradient = gradient.contiguous();
        match input {
            2 => to.copy_from_slice(gradient),
            _ => {
                let other = cx.input(1 - input);
                to.iter_mut().zip(gradient).zip(other).for_each(|((to, own), other)| *to = own * other);
            }
        }
    }

    fn reads(&self) -> Reads {
        Reads { inputs: true, output: false }
    }
}
