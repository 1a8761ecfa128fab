//! Dropout.

use super::exactly;
use crate::op::{Operation, Out, Rows};
use crate::pass::Context;
use crate::shape::ValueShape;
use phalanx_base::Result;
use serde::{Deserialize, Serialize};

/// While training, sets a fraction of the numbers to 0 and scales the others. Which ones depends only on the seed of the step,
/// the node and the position, so the number of threads changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dropout {
    /// The fraction, from 0 to below 1.
    pub rate: f64,
}

impl Dropout {
    fn kernel(self, cx: &Context<'_>) -> phalanx_matmul::Dropout {
        phalanx_matmul::Dropout { seed: cx.seed(), rate: self.rate as f32 }
    }
}

impl Operation for Dropout {
    fn shape(&self, inputs: &[&ValueShape]) -> Result<ValueShape> {
        exactly::<1, _>(inputs).map(|[x]| x.clone())
    }

    fn forward(&self, cx: &Context<'_>, out: Out<'_>, _: &mut [f32]) {
        match cx.is_training() {
            true => self.kernel(cx).apply(cx.level(), cx.input(0), out.contiguous()),
            false => out.contiguous().copy_from_slice(cx.input(0)),
        }
    }

    fn backward(&self, _: usize, cx: &Context<'_>, gradient: Rows<'_>, to: &mut [f32]) {
        self.kernel(cx).apply(cx.level(), gradient.contiguous(), to);
    }
}
