//! L2 regularization.

use super::exactly;
use crate::op::{Operation, Out, Reads, Rows};
use crate::pass::Context;
use crate::shape::ValueShape;
use phalanx_base::Result;
use phalanx_matmul::{add_scaled, squared_norm};
use serde::{Deserialize, Serialize};

/// `factor · Σ x²`, as Keras' `regularizers.l2` adds it to a loss.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SquaredNorm {
    /// The factor.
    pub factor: f32,
}

impl Operation for SquaredNorm {
    fn shape(&self, inputs: &[&ValueShape]) -> Result<ValueShape> {
        exactly::<1, _>(inputs).map(|_| ValueShape::fixed([]))
    }

    fn forward(&self, cx: &Context<'_>, out: Out<'_>, _: &mut [f32]) {
        out.contiguous()[0] = (squared_norm(cx.level(), cx.input(0)) * f64::from(self.factor)) as f32;
    }

    fn backward(&self, _: usize, cx: &Context<'_>, gradient: Rows<'_>, to: &mut [f32]) {
        let twice = 2.0 * self.factor * gradient.contiguous()[0];
        add_scaled(cx.level(), twice, cx.input(0), to);
    }

    fn reads(&self) -> Reads {
        Reads { inputs: true, output: false }
    }

    fn adds(&self) -> bool {
        true
    }
}
