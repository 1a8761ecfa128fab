//! The cross-entropy of logits and labels between 0 and 1.

use super::prediction_and_labels;
use crate::op::{Operation, Out, Reads, Rows};
use crate::pass::Context;
use crate::shape::ValueShape;
use phalanx_base::Result;
use phalanx_matmul::{Scale, sigmoid_cross_entropy};
use serde::{Deserialize, Serialize};

/// The mean of `tf.nn.sigmoid_cross_entropy_with_logits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SigmoidCrossEntropy;

impl Operation for SigmoidCrossEntropy {
    fn shape(&self, inputs: &[&ValueShape]) -> Result<ValueShape> {
        prediction_and_labels(inputs)
    }

    fn forward(&self, cx: &Context<'_>, out: Out<'_>, _: &mut [f32]) {
        let (columns, scale) = (cx.shape(0).width(), Scale { all: 1.0, each: None });
        let outputs = (Some(out.contiguous()), None);
        sigmoid_cross_entropy(cx.level(), columns, cx.input(0), cx.input(1), scale, outputs);
    }

    fn backward(&self, _: usize, cx: &Context<'_>, gradient: Rows<'_>, to: &mut [f32]) {
        let (columns, scale) = (cx.shape(0).width(), Scale { all: 1.0, each: Some(gradient.contiguous()) });
        sigmoid_cross_entropy(cx.level(), columns, cx.input(0), cx.input(1), scale, (None, Some(to)));
    }

    fn reads(&self) -> Reads {
        Reads { inputs: true, output: false }
    }
}
