//! The trait of losses.

use super::Labels;
use crate::metrics::Loss;
use burn::tensor::Tensor;
use phalanx_base::{Code, Error, Result};

/// The loss of each example of a batch: one of Keras' [`Loss`]es, or your own.
///
/// `compile` also takes a closure of labels and predictions. Implement the trait for a loss of class numbers, or to give the
/// loss a name.
///
/// ```
/// use phalanx_nn::burn::tensor::Tensor;
/// use phalanx_nn::losses::{Labels, Loss, LossFunction};
/// use phalanx_nn::model::Error;
///
/// /// The cross-entropy of class numbers, which examples of high confidence hardly change.
/// struct Focal {
///     gamma: f32,
/// }
///
/// impl LossFunction for Focal {
///     fn name(&self) -> &str { "focal" }
///     fn takes_class_ids(&self) -> bool { true }
///     fn forward(&self, labels: Labels, predictions: Tensor<2>) -> Result<Tensor<1>, Error> {
///         let each = Loss::sparse_categorical_crossentropy().from_logits().forward(labels, predictions)?;
///         let missing = each.clone().neg().exp().neg() + 1.0;
///         Ok(missing.powf_scalar(self.gamma) * each)
///     }
/// }
/// let device = phalanx_nn::default_device();
/// let logits = Tensor::<2>::from_data([[0.0, 0.0]], &device);
/// let loss = Focal { gamma: 1.0 }.forward(Labels::ids(&[1], 2, &device)?, logits)?;
/// assert!((phalanx_nn::scalar(loss)? - 0.5 * 2.0_f32.ln()).abs() < 1e-6);
/// # Ok::<(), Error>(())
/// ```
pub trait LossFunction: Send + Sync {
    /// Returns the name for messages.
    fn name(&self) -> &str {
        "loss"
    }

    /// Returns whether labels are class numbers, [`Labels::Ids`]. Otherwise they are [`Labels::Rows`].
    fn takes_class_ids(&self) -> bool {
        false
    }

    /// Returns the loss of each row of a prediction `[rows, width]`, from which it can be differentiated.
    ///
    /// # Errors
    /// If labels and predictions do not fit.
    fn forward(&self, labels: Labels, prediction: Tensor<2>) -> Result<Tensor<1>>;
}

impl LossFunction for Loss {
    fn name(&self) -> &str {
        Self::name(self)
    }

    fn takes_class_ids(&self) -> bool {
        Self::takes_class_ids(self)
    }

    fn forward(&self, labels: Labels, prediction: Tensor<2>) -> Result<Tensor<1>> {
        Self::forward(self, labels, prediction)
    }
}

/// Checks that a loss returned one number for each of `rows` rows.
///
/// # Errors
/// If it has another shape.
pub fn check_each(name: &str, each: Tensor<1>, rows: usize) -> Result<Tensor<1>> {
    let [found] = each.dims();
    if found == rows {
        return Ok(each);
    }
    let error = Error::new(Code::ShapeMismatch, format!("the loss has {found} numbers for {rows} rows of predictions"));
    Err(error.at(format!("loss `{name}`")).help("return one number for each row: they are weighted and averaged later"))
}
