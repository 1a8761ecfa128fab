//! The sum of several values.

use super::misfit;
use crate::op::{Operation, Out, Rows};
use crate::pass::Context;
use crate::shape::{Leading, ValueShape};
use phalanx_base::Result;
use phalanx_matmul::column_sums;
use serde::{Deserialize, Serialize};

/// Adds values of the same dimensions. One without a batch, such as a bias, is added to every example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Add;

impl Operation for Add {
    fn shape(&self, inputs: &[&ValueShape]) -> Result<ValueShape> {
        let Some((first, rest)) = inputs.split_first() else { return Err(misfit("a sum of nothing".to_owned())) };
        match rest.iter().find(|other| other.dims != first.dims) {
            Some(other) => Err(misfit(format!("values of shapes {first} and {other} cannot be added"))),
            None => Ok(inputs.iter().find(|input| input.leading == Leading::Batch).copied().unwrap_or(first).clone()),
        }
    }

    fn forward(&self, cx: &Context<'_>, out: Out<'_>, _: &mut [f32]) {
        let out = out.contiguous();
        let value = |input: usize| cx.input(input);
        if out.is_empty() {
            return;
        }
        let first = value(0);
        out.chunks_exact_mut(first.len()).for_each(|out| out.copy_from_slice(first));
        for input in (1..cx.count()).map(value) {
            out.chunks_exact_mut(input.len()).for_each(|out| out.iter_mut().zip(input).for_each(|(out, x)| *out += x));
        }
    }

    fn backward(&self, input: usize, cx: &Context<'_>, gradient: Rows<'_>, to: &mut [f32]) {
        let gradient = gradient.contiguous();
        if cx.shape(input).leading == cx.own_shape().leading {
            to.copy_from_slice(gradient);
        } else {
            column_sums(cx.level(), gradient, to);
        }
    }
}
