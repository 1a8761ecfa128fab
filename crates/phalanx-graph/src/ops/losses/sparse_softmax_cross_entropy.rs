//! The cross-entropy of logits and class numbers.

use crate::op::{Operation, Out, Reads, Rows};
use crate::ops::{exactly, misfit};
use crate::pass::Context;
use crate::shape::ValueShape;
use phalanx_base::Result;
use phalanx_matmul::{Classes, Scale, softmax_cross_entropy};
use serde::{Deserialize, Serialize};

/// `tf.nn.sparse_softmax_cross_entropy_with_logits`: the labels are classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SparseSoftmaxCrossEntropy;

impl Operation for SparseSoftmaxCrossEntropy {
    fn shape(&self, inputs: &[&ValueShape]) -> Result<ValueShape> {
        let [logits, labels] = exactly(inputs)?;
        logits.vector()?;
        match *labels == ValueShape::batch([]) {
            true => Ok(ValueShape::batch([])),
            false => Err(misfit(format!("labels of shape {labels} are not one class for each example"))),
        }
    }

    fn forward(&self, cx: &Context<'_>, out: Out<'_>, _: &mut [f32]) {
        let (classes, scale) = (cx.shape(0).width(), Scale { all: 1.0, each: None });
        let outputs = (Some(out.contiguous()), None);
        softmax_cross_entropy(cx.level(), classes, cx.input(0), Classes::Ids(cx.classes(1)), scale, outputs);
    }

    fn backward(&self, _: usize, cx: &Context<'_>, gradient: Rows<'_>, to: &mut [f32]) {
        let (classes, scale) = (cx.shape(0).width(), Scale { all: 1.0, each: Some(gradient.contiguous()) });
        let outputs = (None, Some(to));
        softmax_cross_entropy(cx.level(), classes, cx.input(0), Classes::Ids(cx.classes(1)), scale, outputs);
    }

    fn reads(&self) -> Reads {
        Reads { inputs: true, output: false }
    }
}
