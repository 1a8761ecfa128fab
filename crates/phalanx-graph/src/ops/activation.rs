//! An activation function.

use super::exactly;
use crate::Function;
use crate::op::{Operation, Out, Reads, Rows};
use crate::pass::Context;
use crate::shape::ValueShape;
use phalanx_base::Result;
use phalanx_matmul::{softmax, softmax_gradient};
use serde::{Deserialize, Serialize};

/// Applies an activation function to every number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activation {
    /// The function.
    pub function: Function,
}

impl Operation for Activation {
    fn shape(&self, inputs: &[&ValueShape]) -> Result<ValueShape> {
        exactly::<1, _>(inputs).map(|[x]| x.clone())
    }

    fn forward(&self, cx: &Context<'_>, out: Out<'_>, _: &mut [f32]) {
        let (x, out) = (cx.input(0), out.contiguous());
        match self.function.kernel() {
            Some(kernel) => {
                out.copy_from_slice(x);
                kernel.apply(cx.level(), out);
            }
            None => softmax(cx.level(), cx.shape(0).width(), x, out),
        }
    }

    fn backward(&self, _: usize, cx: &Context<'_>, gradient: Rows<'_>, to: &mut [f32]) {
        let gradient = gradient.contiguous();
        match self.function.kernel() {
            Some(kernel) if kernel.keeps_input() => kernel.gradient(cx.level(), cx.input(0), gradient, to),
            Some(kernel) => kernel.gradient(cx.level(), cx.output(), gradient, to),
            None => softmax_gradient(cx.level(), cx.shape(0).width(), cx.output(), gradient, to),
        }
    }

    fn reads(&self) -> Reads {
        let inputs = self.function.kernel().is_some_and(|kernel| kernel.keeps_input());
        Reads { inputs, output: !inputs }
    }
}
