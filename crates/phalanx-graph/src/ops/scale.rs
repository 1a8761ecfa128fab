//! A multiple of a value.

use super::exactly;
use crate::op::{Operation, Out, Rows};
use crate::pass::Context;
use crate::shape::ValueShape;
use phalanx_base::Result;
use serde::{Deserialize, Serialize};

/// Multiplies every number by a constant.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scale {
    /// The constant.
    pub factor: f32,
}

impl Operation for Scale {
    fn shape(&self, inputs: &[&ValueShape]) -> Result<ValueShape> {
        exactly::<1, _>(inputs).map(|[x]| x.clone())
    }

    fn forward(&self, cx: &Context<'_>, out: Out<'_>, _: &mut [f32]) {
        out.contiguous().iter_mut().zip(cx.input(0)).for_each(|(out, x)| *out = self.factor * x);
    }

    fn backward(&self, _: usize, _: &Context<'_>, gradient: Rows<'_>, to: &mut [f32]) {
        to.iter_mut().zip(gradient.contiguous()).for_each(|(to, own)| *to = self.factor * own);
    }
}
