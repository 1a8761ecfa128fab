//! Batch normalization.

use super::misfit;
use crate::op::{Operation, Out, Reads, Rows};
use crate::pass::Context;
use crate::plan::Size;
use crate::shape::ValueShape;
use phalanx_base::Result;
use serde::{Deserialize, Serialize};

/// Normalizes every column, by the mean and variance of the batch while training, else by the moving ones. The inputs are the
/// values, gamma and beta where it has them, the moving mean and the moving variance.
///
/// The gradient of a moving value is its distance to that of the batch: gradient descent moves it there.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BatchNorm {
    /// Added to the variance.
    pub epsilon: f32,
    /// Whether there is a trained factor.
    pub gamma: bool,
    /// Whether there is a trained addend.
    pub beta: bool,
}

impl BatchNorm {
    /// Writes the gradient of the values, from the moments of the batch and the gradients of gamma and beta.
    fn of_values(
        self,
        cx: &Context<'_>,
        [mean, variance, d_gamma, d_beta]: [&[f32]; 4],
        gradient: &[f32],
        to: &mut [f32],
    ) {
        let (x, gamma, width) = (cx.input(0), self.gamma.then(|| cx.input(1)), mean.len().max(1));
        let share = 1.0 / (x.len() / width).max(1) as f32;
        let rows = x.chunks_exact(width).zip(gradient.chunks_exact(width));
        for ((x, own), to) in rows.zip(to.chunks_exact_mut(width)) {
            for column in 0..width {
                let inverse = 1.0 / (variance[column] + self.epsilon).sqrt();
                let along = (x[column] - mean[column]) * inverse * d_gamma[column];
                let factor = inverse * gamma.map_or(1.0, |gamma| gamma[column]);
                to[column] = factor * (own[column] - share * (d_beta[column] + along));
            }
        }
    }

    fn kernel<'a>(self, cx: &Context<'a>) -> phalanx_matmul::BatchNorm<'a> {
        let (channels, epsilon) = (cx.own_shape().width(), self.epsilon);
        let beta = self.beta.then(|| cx.input(self.moving() - 1));
        phalanx_matmul::BatchNorm { channels, epsilon, gamma: self.gamma.then(|| cx.input(1)), beta }
    }

    /// Returns the number of the input that is the moving mean.
    fn moving(self) -> usize {
        1 + usize::from(self.gamma) + usize::from(self.beta)
    }
}

impl Operation for BatchNorm {
    fn shape(&self, inputs: &[&ValueShape]) -> Result<ValueShape> {
        let [x, rest @ ..] = inputs else { return Err(misfit("nothing to normalize".to_owned())) };
        match rest.iter().find(|own| own.dims != [x.width()]) {
            Some(own) => Err(misfit(format!("an input of shape {x} does not fit a parameter of shape {own}"))),
            None if inputs.len() == self.moving() + 2 => Ok((*x).clone()),
            None => Err(misfit(format!("{} inputs of a batch normalization", inputs.len()))),
        }
    }

    fn forward(&self, cx: &Context<'_>, out: Out<'_>, kept: &mut [f32]) {
        let (kernel, x, out) = (self.kernel(cx), cx.input(0), out.contiguous());
        if cx.is_training() {
            let (mean, variance) = kept.split_at_mut(kernel.channels);
            let variance = &mut variance[..kernel.channels];
            kernel.statistics(cx.level(), x, mean, variance);
            kernel.forward(cx.level(), x, mean, variance, out);
        } else {
            let moving = self.moving();
            kernel.forward(cx.level(), x, cx.input(moving), cx.input(moving + 1), out);
        }
    }

    fn prepare_backward(&self, cx: &Context<'_>, gradient: &mut [f32], kept: &mut [f32]) {
        let kernel = self.kernel(cx);
        let (moments, slopes) = kept.split_at_mut(2 * kernel.channels);
        let (mean, variance) = moments.split_at(kernel.channels);
        let slopes = slopes.split_at_mut(kernel.channels);
        kernel.gradient(cx.level(), (cx.input(0), mean, variance), gradient, None, slopes);
    }

    fn backward(&self, input: usize, cx: &Context<'_>, gradient: Rows<'_>, to: &mut [f32]) {
        let (kept, width) = (cx.kept(), cx.own_shape().width().max(1));
        let part = |at: usize| &kept[at * width..(at + 1) * width];
        match input {
            0 => self.of_values(cx, [0, 1, 2, 3].map(part), gradient.contiguous(), to),
            1 if self.gamma => to.copy_from_slice(part(2)),
            _ if input < self.moving() => to.copy_from_slice(part(3)),
            _ => {
                let now = part(input - self.moving());
                to.iter_mut().zip(cx.input(input)).zip(now).for_each(|((to, moving), now)| *to = moving - now);
            }
        }
    }

    fn reads(&self) -> Reads {
        Reads { inputs: true, output: false }
    }

    fn keeps(&self, inputs: &[&ValueShape]) -> Size {
        Size { each: 0, fixed: inputs.first().map_or(0, |x| 4 * x.width()) }
    }
}
