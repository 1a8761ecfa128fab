//! Layer normalization.

use super::misfit;
use crate::op::{Operation, Out, Reads, Rows};
use crate::pass::Context;
use crate::plan::Size;
use crate::shape::ValueShape;
use phalanx_base::Result;
use serde::{Deserialize, Serialize};

/// Normalizes every vector along the last axis. The inputs are the values, and gamma and beta where it has them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayerNorm {
    /// Added to the variance.
    pub epsilon: f32,
    /// Whether there is a trained factor.
    pub gamma: bool,
    /// Whether there is a trained addend.
    pub beta: bool,
}

impl LayerNorm {
    fn kernel<'a>(self, cx: &Context<'a>) -> phalanx_matmul::LayerNorm<'a> {
        let gamma = self.gamma.then(|| cx.input(1));
        let beta = self.beta.then(|| cx.input(1 + usize::from(self.gamma)));
        phalanx_matmul::LayerNorm { columns: cx.own_shape().width(), epsilon: self.epsilon, gamma, beta }
    }
}

impl Operation for LayerNorm {
    fn shape(&self, inputs: &[&ValueShape]) -> Result<ValueShape> {
        let expected = 1 + usize::from(self.gamma) + usize::from(self.beta);
        match inputs {
            [x, own @ ..] if inputs.len() == expected && own.iter().all(|own| own.dims == [x.width()]) => {
                Ok((*x).clone())
            }
            _ => Err(misfit(format!("{} inputs that do not fit each other", inputs.len()))),
        }
    }

    fn forward(&self, cx: &Context<'_>, out: Out<'_>, kept: &mut [f32]) {
        let columns = cx.own_shape().width();
        let kept = &mut kept[2 * columns..];
        self.kernel(cx).forward(cx.level(), cx.input(0), out.contiguous(), kept);
    }

    fn prepare_backward(&self, cx: &Context<'_>, gradient: &mut [f32], kept: &mut [f32]) {
        // All gradients are computed together; that of the values takes the place of this one's.
        let columns = cx.own_shape().width();
        let (slopes, kept) = kept.split_at_mut(2 * columns);
        let slopes = slopes.split_at_mut(columns);
        cx.with_scratch(gradient.len(), |dy| {
            dy.copy_from_slice(gradient);
            self.kernel(cx).gradient(cx.level(), (cx.input(0), kept), dy, gradient, slopes);
        });
    }

    fn backward(&self, input: usize, cx: &Context<'_>, gradient: Rows<'_>, to: &mut [f32]) {
        let columns = cx.own_shape().width();
        match input {
            0 => to.copy_from_slice(gradient.contiguous()),
            1 if self.gamma => to.copy_from_slice(&cx.kept()[..columns]),
            _ => to.copy_from_slice(&cx.kept()[columns..2 * columns]),
        }
    }

    fn reads(&self) -> Reads {
        Reads { inputs: true, output: false }
    }

    fn keeps(&self, inputs: &[&ValueShape]) -> Size {
        // The gradients of gamma and beta, then two numbers of each vector.
        inputs.first().map_or(Size::default(), |x| {
            let width = x.width();
            Size { each: 2 * x.elements() / width.max(1), fixed: 2 * width }
        })
    }
}
