//! Differentiable losses: the formulas of [`Loss::values`](crate::metrics::Loss::values) on tensors.

use super::Labels;
use crate::metrics::Loss;
use burn::tensor::activation::{log_sigmoid, log_softmax, softplus};
use burn::tensor::{Int, Tensor};
use phalanx_base::{Code, Error, Result};

const EPSILON: f32 = 1e-7;

impl Loss {
    /// Returns the loss of each row of a prediction `[rows, width]`.
    ///
    /// ```
    /// use phalanx_nn::burn::tensor::Tensor;
    /// use phalanx_nn::losses::Labels;
    /// use phalanx_nn::metrics::Loss;
    /// let device = phalanx_nn::default_device();
    /// let labels = Labels::rows(vec![1.0, 2.0], 1, &device)?;
    /// let prediction = Tensor::<2>::from_data([[1.0], [4.0]], &device);
    /// let each = Loss::MeanSquaredError.forward(labels, prediction)?;
    /// assert_eq!(each.into_data().as_slice::<f32>().unwrap(), [0.0, 4.0]);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// If labels and predictions have different shapes.
    pub fn forward(&self, labels: Labels, prediction: Tensor<2>) -> Result<Tensor<1>> {
        let [rows, width] = prediction.dims();
        let shape = match &labels {
            Labels::Ids(ids) => [ids.dims()[0], 1],
            Labels::Rows(numbers) => numbers.dims(),
        };
        match (self, labels) {
            (Self::SparseCategoricalCrossentropy { from_logits }, Labels::Ids(ids)) if shape[0] == rows => {
                Ok(sparse_entropy(ids, prediction, *from_logits))
            }
            (_, Labels::Rows(label)) if shape == [rows, width] && !self.takes_class_ids() => {
                Ok(self.of_rows(label, prediction).reshape([rows]))
            }
            // A column of class numbers is also a label of one number per row.
            (_, Labels::Ids(ids)) if shape == [rows, width] && !self.takes_class_ids() => {
                Ok(self.of_rows(ids.float().reshape([rows, 1]), prediction).reshape([rows]))
            }
            _ => {
                let what = format!("labels of shape {shape:?} do not fit predictions of shape {:?}", [rows, width]);
                let error = Error::new(Code::ShapeMismatch, what).at(format!("loss `{}`", self.name()));
                Err(if self.takes_class_ids() {
                    error.help("give one class number for each example, as integers")
                } else if shape == [rows, 1] {
                    error.help("for class numbers as labels use a loss with `sparse` in its name, or make them one-hot")
                } else {
                    error.help("give as many labels as the model has outputs, for the same examples")
                })
            }
        }
    }

    /// Returns `[rows, 1]` from labels and predictions of the same shape.
    fn of_rows(&self, label: Tensor<2>, prediction: Tensor<2>) -> Tensor<2> {
        match *self {
            Self::MeanSquaredError => (prediction - label).powi_scalar(2).mean_dim(1),
            Self::MeanAbsoluteError => (prediction - label).abs().mean_dim(1),
            Self::MeanAbsolutePercentageError => {
                let scale = label.clone().abs().clamp_min(EPSILON);
                ((prediction - label) / scale).abs().mean_dim(1) * 100.0
            }
            Self::MeanSquaredLogarithmicError => {
                let log = |x: Tensor<2>| x.clamp_min(EPSILON).add_scalar(1.0).log();
                (log(prediction) - log(label)).powi_scalar(2).mean_dim(1)
            }
            Self::Huber { delta } => {
                let error = (prediction - label).abs();
                let inside = error.clone().clamp_max(delta);
                // 0.5 e² up to delta, then its tangent.
                (inside.clone().powi_scalar(2) * 0.5 + (error - inside) * delta).mean_dim(1)
            }
            Self::LogCosh => {
                let x = prediction - label;
                (x.clone() + softplus(x * -2.0, 1.0) - std::f32::consts::LN_2).mean_dim(1)
            }
            Self::BinaryCrossentropy { from_logits, label_smoothing } => {
                let label = smooth(label, label_smoothing, 0.5);
                binary_entropy(label, prediction, from_logits).mean_dim(1)
            }
            Self::CategoricalCrossentropy { from_logits, label_smoothing } => {
                let width = prediction.dims()[1];
                let label = smooth(label, label_smoothing, 1.0 / width as f32);
                let logs = if from_logits {
                    log_softmax(prediction, 1)
                } else {
                    let scale = prediction.clone().sum_dim(1);
                    clip(prediction / scale).log()
                };
                (label * logs).sum_dim(1).neg()
            }
            Self::KlDivergence => {
                let inside = |x: Tensor<2>| x.clamp(EPSILON, 1.0);
                let (label, prediction) = (inside(label), inside(prediction));
                (label.clone() * (label / prediction).log()).sum_dim(1)
            }
            Self::Poisson => (prediction.clone() - label * prediction.add_scalar(EPSILON).log()).mean_dim(1),
            Self::Hinge => margin(label, prediction).mean_dim(1),
            Self::SquaredHinge => margin(label, prediction).powi_scalar(2).mean_dim(1),
            Self::CategoricalHinge => {
                let right = (label.clone() * prediction.clone()).sum_dim(1);
                let wrong = ((label.neg() + 1.0) * prediction).max_dim(1);
                (wrong - right + 1.0).clamp_min(0.0)
            }
            Self::CosineSimilarity => {
                let unit = |x: Tensor<2>| {
                    let square = x.clone().powi_scalar(2).sum_dim(1).clamp_min(1e-12);
                    x / square.sqrt()
                };
                (unit(label) * unit(prediction)).sum_dim(1).neg()
            }
            Self::SparseCategoricalCrossentropy { .. } => unreachable!("`forward` gives it class numbers only"),
        }
    }
}

fn smooth(label: Tensor<2>, smoothing: f32, towards: f32) -> Tensor<2> {
    if smoothing == 0.0 { label } else { label * (1.0 - smoothing) + smoothing * towards }
}

fn clip(probability: Tensor<2>) -> Tensor<2> {
    probability.clamp(EPSILON, 1.0 - EPSILON)
}

fn binary_entropy(label: Tensor<2>, prediction: Tensor<2>, from_logits: bool) -> Tensor<2> {
    if from_logits {
        // ln(1 + e^x) - x z, in a form that neither overflows nor loses its gradient at 0.
        return log_sigmoid(prediction.clone().neg()).neg() - prediction * label;
    }
    let p = clip(prediction);
    let yes = label.clone() * p.clone().add_scalar(EPSILON).log();
    let no = (label.neg() + 1.0) * (p.neg() + (1.0 + EPSILON)).log();
    (yes + no).neg()
}

/// Keras uses the logarithms of probabilities as logits, so those that do not sum to 1 are normalized.
fn sparse_entropy(ids: Tensor<1, Int>, prediction: Tensor<2>, from_logits: bool) -> Tensor<1> {
    let [rows, _] = prediction.dims();
    let logits = if from_logits { prediction } else { clip(prediction).log() };
    log_softmax(logits, 1).gather(1, ids.reshape([rows, 1])).neg().reshape([rows])
}

/// Labels of 0 and 1 become -1 and 1, if there are no others.
fn margin(label: Tensor<2>, prediction: Tensor<2>) -> Tensor<2> {
    let data = label.to_data();
    let binary = data.iter::<f32>().all(|label| label == 0.0 || label == 1.0);
    let label = if binary { label * 2.0 - 1.0 } else { label };
    ((label * prediction).neg() + 1.0).clamp_min(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Values;
    use burn::tensor::TensorData;

    const WIDTH: usize = 3;

    fn all() -> Vec<Loss> {
        let names = "mse mae mape msle huber logcosh bce categorical_crossentropy kld poisson hinge squared_hinge \
                     categorical_hinge cosine_similarity";
        let mut losses: Vec<Loss> = names.split(' ').map(|name| Loss::parse(name).unwrap()).collect();
        losses.push(Loss::BinaryCrossentropy { from_logits: true, label_smoothing: 0.1 });
        losses.push(Loss::CategoricalCrossentropy { from_logits: true, label_smoothing: 0.2 });
        losses
    }

    fn labels() -> Vec<f32> {
        vec![1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0]
    }

    fn predictions() -> Vec<f32> {
        vec![0.7, 0.2, 0.1, 0.25, 0.15, 0.6, 0.3, 0.5, 0.2, 0.05, 0.9, 0.05]
    }

    fn tensor(numbers: Vec<f32>) -> Tensor<2> {
        let rows = numbers.len() / WIDTH;
        Tensor::from_data(TensorData::new(numbers, [rows, WIDTH]), &crate::default_device())
    }

    /// The numbers are tested against TensorFlow; the tensors must agree with them.
    #[test]
    fn every_loss_is_the_same_on_tensors_and_on_numbers() {
        let device = crate::default_device();
        for loss in all() {
            let numbers = loss.values(Values::rows(&labels(), WIDTH), Values::rows(&predictions(), WIDTH)).unwrap();
            let label = Labels::rows(labels(), WIDTH, &device).unwrap();
            let tensors = loss.forward(label, tensor(predictions())).unwrap().into_data();
            for (a, b) in numbers.iter().zip(tensors.as_slice::<f32>().unwrap()) {
                assert!((a - f64::from(*b)).abs() < 2e-6 * a.abs().max(1.0), "{loss:?}: {a} and {b}");
            }
        }
        for from_logits in [true, false] {
            let loss = Loss::SparseCategoricalCrossentropy { from_logits };
            let numbers = loss.values(Values::ids(&[0, 2, 1, 0]), Values::rows(&predictions(), WIDTH)).unwrap();
            let label = Labels::ids(&[0, 2, 1, 0], WIDTH, &device).unwrap();
            let tensors = loss.forward(label, tensor(predictions())).unwrap().into_data();
            for (a, b) in numbers.iter().zip(tensors.as_slice::<f32>().unwrap()) {
                assert!((a - f64::from(*b)).abs() < 2e-6, "{loss:?}: {a} and {b}");
            }
        }
    }

    #[test]
    fn every_gradient_is_the_slope_of_the_numbers() {
        let device = crate::default_device();
        for loss in all() {
            let x = tensor(predictions()).require_grad();
            let label = Labels::rows(labels(), WIDTH, &device).unwrap();
            let gradients = loss.forward(label, x.clone()).unwrap().sum().backward();
            let slopes = x.grad(&gradients).unwrap().into_data();
            for (at, slope) in slopes.as_slice::<f32>().unwrap().iter().enumerate() {
                let total = |shift: f32| -> f64 {
                    let mut moved = predictions();
                    moved[at] += shift;
                    let each = loss.values(Values::rows(&labels(), WIDTH), Values::rows(&moved, WIDTH)).unwrap();
                    each.iter().sum()
                };
                let (step, slope) = (1e-3_f32, f64::from(*slope));
                let measured = (total(step) - total(-step)) / (2.0 * f64::from(step));
                let near = (measured - slope).abs() < 0.02 * measured.abs().max(0.1);
                assert!(near, "{loss:?} at {at}: {measured} and {slope}");
            }
        }
    }

    /// Models with zero weights start there.
    #[test]
    fn a_logit_of_zero_has_the_gradient_of_an_even_chance() {
        let device = crate::default_device();
        let loss = Loss::BinaryCrossentropy { from_logits: true, label_smoothing: 0.0 };
        let x = Tensor::<2>::zeros([2, 1], &device).require_grad();
        let label = Labels::rows(vec![0.0, 1.0], 1, &device).unwrap();
        let gradients = loss.forward(label, x.clone()).unwrap().sum().backward();
        assert_eq!(x.grad(&gradients).unwrap().into_data().as_slice::<f32>().unwrap(), [0.5, -0.5]);
    }

    #[test]
    fn shapes_that_do_not_fit_are_named() {
        let device = crate::default_device();
        let ids = Labels::ids(&[0, 1, 2, 0], WIDTH, &device).unwrap();
        let error = Loss::MeanSquaredError.forward(ids, tensor(predictions())).unwrap_err();
        assert_eq!(error.what(), "labels of shape [4, 1] do not fit predictions of shape [4, 3]");
        assert!(error.next().unwrap().contains("sparse"));
        let rows = Labels::rows(labels(), WIDTH, &device).unwrap();
        let sparse = Loss::SparseCategoricalCrossentropy { from_logits: true };
        assert!(sparse.forward(rows, tensor(predictions())).is_err());
    }
}
