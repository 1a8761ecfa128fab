//! The losses of examples, one file each. The inputs are a prediction and the labels.

mod absolute_error;
mod huber;
mod log_cosh;
mod log_poisson;
mod percentage_error;
mod poisson;
mod sigmoid_cross_entropy;
mod sparse_softmax_cross_entropy;
mod squared_error;
mod squared_log_error;

pub use absolute_error::AbsoluteError;
pub use huber::Huber;
pub use log_cosh::LogCosh;
pub use log_poisson::LogPoisson;
pub use percentage_error::PercentageError;
pub use poisson::Poisson;
pub use sigmoid_cross_entropy::SigmoidCrossEntropy;
pub use sparse_softmax_cross_entropy::SparseSoftmaxCrossEntropy;
pub use squared_error::SquaredError;
pub use squared_log_error::SquaredLogError;

use super::{exactly, misfit};
use crate::op::{Operation, Out, Reads, Rows};
use crate::pass::Context;
use crate::shape::ValueShape;
use phalanx_base::Result;

/// Keeps logarithms and quotients finite, as in Keras.
const EPSILON: f32 = 1e-7;

/// Returns -1, 0 or 1.
fn sign(x: f32) -> f32 {
    if x == 0.0 { 0.0 } else { x.signum() }
}

/// Returns the shape of a loss of predictions and labels of the same shape.
fn prediction_and_labels(inputs: &[&ValueShape]) -> Result<ValueShape> {
    let [prediction, labels] = exactly(inputs)?;
    prediction.vector()?;
    if prediction == labels {
        return Ok(ValueShape::batch([]));
    }
    Err(misfit(format!("labels of shape {labels} do not fit predictions of shape {prediction}")))
}

/// A loss that is the mean of one term for each number of a prediction.
trait Terms {
    /// Returns the term of a prediction and its label.
    fn term(&self, prediction: f32, label: f32) -> f32;

    /// Returns the slope of the term with respect to the prediction.
    fn slope(&self, prediction: f32, label: f32) -> f32;
}

impl<T: Terms> Operation for T {
    fn shape(&self, inputs: &[&ValueShape]) -> Result<ValueShape> {
        prediction_and_labels(inputs)
    }

    fn forward(&self, cx: &Context<'_>, out: Out<'_>, _: &mut [f32]) {
        let width = cx.shape(0).width().max(1);
        let rows = cx.input(0).chunks_exact(width).zip(cx.input(1).chunks_exact(width));
        for (out, (predictions, labels)) in out.contiguous().iter_mut().zip(rows) {
            let sum: f32 = predictions.iter().zip(labels).map(|(&x, &label)| self.term(x, label)).sum();
            *out = sum / width as f32;
        }
    }

    fn backward(&self, _: usize, cx: &Context<'_>, gradient: Rows<'_>, to: &mut [f32]) {
        let width = cx.shape(0).width().max(1);
        let rows = cx.input(0).chunks_exact(width).zip(cx.input(1).chunks_exact(width));
        for ((own, (predictions, labels)), to) in gradient.contiguous().iter().zip(rows).zip(to.chunks_exact_mut(width))
        {
            let slopes = predictions.iter().zip(labels).map(|(&x, &label)| self.slope(x, label));
            to.iter_mut().zip(slopes).for_each(|(to, slope)| *to = own / width as f32 * slope);
        }
    }

    fn reads(&self) -> Reads {
        Reads { inputs: true, output: false }
    }
}
