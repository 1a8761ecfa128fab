//! Values of the same shape, number by number.

use super::misfit;
use crate::op::{Operation, Out, Reads, Rows};
use crate::pass::Context;
use crate::shape::ValueShape;
use phalanx_base::Result;
use serde::{Deserialize, Serialize};

/// Combines values of the same shape number by number: Keras' merging layers. Their sum is [`Add`](super::Add).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Merge {
    /// The first minus the second.
    Subtract,
    /// The product.
    Multiply,
    /// The mean.
    Average,
    /// The largest; of equal numbers, each has an equal part of the gradient.
    Maximum,
    /// The smallest; of equal numbers, each has an equal part of the gradient.
    Minimum,
}

impl Merge {
    fn of(self, a: f32, b: f32) -> f32 {
        match self {
            Self::Subtract => a - b,
            Self::Multiply => a * b,
            Self::Average => a + b,
            Self::Maximum => a.max(b),
            Self::Minimum => a.min(b),
        }
    }

    /// Returns the slope with respect to an input at one place.
    fn slope(self, cx: &Context<'_>, input: usize, at: usize) -> f32 {
        let others = || (0..cx.count()).filter(|other| *other != input).map(|other| cx.input(other)[at]);
        match self {
            Self::Subtract => [1.0, -1.0][input.min(1)],
            Self::Multiply => others().product(),
            Self::Average => 1.0 / cx.count() as f32,
            Self::Maximum | Self::Minimum => {
                let own = cx.input(input)[at];
                let equal = others().filter(|other| *other == own).count() + 1;
                if cx.output()[at] == own { 1.0 / equal as f32 } else { 0.0 }
            }
        }
    }
}

impl Operation for Merge {
    fn shape(&self, inputs: &[&ValueShape]) -> Result<ValueShape> {
        let is_two = *self != Self::Subtract || inputs.len() == 2;
        match inputs {
            [first, rest @ ..] if is_two && rest.iter().all(|other| other == first) => Ok((*first).clone()),
            _ => Err(misfit(format!("{} values that cannot be merged", inputs.len()))),
        }
    }

    fn forward(&self, cx: &Context<'_>, out: Out<'_>, _: &mut [f32]) {
        let out = out.contiguous();
        out.copy_from_slice(cx.input(0));
        for input in (1..cx.count()).map(|input| cx.input(input)) {
            out.iter_mut().zip(input).for_each(|(out, x)| *out = self.of(*out, *x));
        }
        if *self == Self::Average {
            let share = 1.0 / cx.count() as f32;
            out.iter_mut().for_each(|out| *out *= share);
        }
    }

    fn backward(&self, input: usize, cx: &Context<'_>, gradient: Rows<'_>, to: &mut [f32]) {
        for (at, (to, own)) in to.iter_mut().zip(gradient.contiguous()).enumerate() {
            *to = own * self.slope(cx, input, at);
        }
    }

    fn reads(&self) -> Reads {
        let extreme = matches!(self, Self::Maximum | Self::Minimum);
        Reads { inputs: extreme || *self == Self::Multiply, output: extreme }
    }
}
