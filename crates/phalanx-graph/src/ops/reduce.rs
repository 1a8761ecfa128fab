//! The loss of a batch from those of its examples.

use super::misfit;
use crate::op::{Operation, Out, Reads, Rows};
use crate::pass::Context;
use crate::shape::ValueShape;
use phalanx_base::Result;
use serde::{Deserialize, Serialize};

/// Adds up one number for each example, times the weights of the examples if there is a second input.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Reduce {
    /// The sum over the number of examples.
    Mean,
    /// The sum times a factor.
    Sum(f32),
}

impl Reduce {
    fn factor(self, rows: usize) -> f32 {
        match self {
            Self::Mean => 1.0 / rows.max(1) as f32,
            Self::Sum(factor) => factor,
        }
    }
}

impl Operation for Reduce {
    fn shape(&self, inputs: &[&ValueShape]) -> Result<ValueShape> {
        let single = ValueShape::batch([]);
        let is_single = |shape: &&ValueShape| **shape == single || **shape == ValueShape::batch([1]);
        match inputs {
            [_] | [_, _] if inputs.iter().all(is_single) => Ok(ValueShape::fixed([])),
            _ => Err(misfit(format!("{} inputs that are not one number for each example", inputs.len()))),
        }
    }

    fn forward(&self, cx: &Context<'_>, out: Out<'_>, _: &mut [f32]) {
        let each = cx.input(0);
        let sum: f32 = match cx.count() {
            1 => each.iter().sum(),
            _ => each.iter().zip(cx.input(1)).map(|(each, weight)| each * weight).sum(),
        };
        out.contiguous()[0] = sum * self.factor(each.len());
    }

    fn backward(&self, _: usize, cx: &Context<'_>, gradient: Rows<'_>, to: &mut [f32]) {
        let own = gradient.contiguous()[0] * self.factor(to.len());
        match cx.count() {
            1 => to.fill(own),
            _ => to.iter_mut().zip(cx.input(1)).for_each(|(to, weight)| *to = own * weight),
        }
    }

    fn reads(&self) -> Reads {
        Reads { inputs: true, output: false }
    }
}
