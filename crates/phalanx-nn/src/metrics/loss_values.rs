//! Loss values for evaluation, on plain slices and without gradients.

use phalanx_base::{Code, Error, Result, nearest};

use super::crossentropy::{BinaryEntropy, CategoricalEntropy, SparseEntropy};
use super::divergence::{CategoricalHingeLoss, HingeLoss, KullbackLeibler, PoissonLoss, SquaredHingeLoss};
use super::metric::ratio;
use super::regression::{
    AbsoluteError, AbsolutePercentageError, Cosine, LogCosh, SquaredError, SquaredLogarithmicError, huber,
};
use super::weights::Weights;
use super::{Measure, Values};

/// One of Keras' losses, with its settings.
///
/// ```
/// use phalanx_nn::metrics::{Loss, Reduced, Reduction, Values};
/// let loss = Loss::parse("mse")?;
/// let each = loss.values(Values::column(&[1.0, 2.0]), Values::column(&[1.0, 4.0]))?;
/// assert_eq!(each, [0.0, 4.0]);
/// assert_eq!(Reduction::Auto.apply(&each, None)?, Reduced::One(2.0));
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Loss {
    /// The squared difference.
    MeanSquaredError,
    /// The absolute difference.
    MeanAbsoluteError,
    /// The absolute difference, in percent of the label.
    MeanAbsolutePercentageError,
    /// The squared difference of logarithms.
    MeanSquaredLogarithmicError,
    /// Squared up to `delta` (1), absolute beyond.
    Huber {
        /// The difference at which it changes.
        delta: f32,
    },
    /// The logarithm of the hyperbolic cosine of the difference.
    LogCosh,
    /// Cross-entropy of 0/1 labels.
    BinaryCrossentropy {
        /// Whether predictions are logits.
        from_logits: bool,
        /// How far labels are moved towards one half, from 0 to 1.
        label_smoothing: f32,
    },
    /// Cross-entropy of one-hot labels.
    CategoricalCrossentropy {
        /// Whether predictions are logits.
        from_logits: bool,
        /// How far labels are moved towards the uniform distribution, from 0 to 1.
        label_smoothing: f32,
    },
    /// Cross-entropy of class numbers.
    SparseCategoricalCrossentropy {
        /// Whether predictions are logits.
        from_logits: bool,
    },
    /// The Kullback-Leibler divergence.
    KlDivergence,
    /// The Poisson loss.
    Poisson,
    /// The hinge loss.
    Hinge,
    /// The squared hinge loss.
    SquaredHinge,
    /// The hinge loss between the true class and the best wrong one.
    CategoricalHinge,
    /// The negative cosine: -1 for the same direction.
    CosineSimilarity,
}

const BINARY: Loss = Loss::BinaryCrossentropy { from_logits: false, label_smoothing: 0.0 };
const CATEGORICAL: Loss = Loss::CategoricalCrossentropy { from_logits: false, label_smoothing: 0.0 };
const SPARSE: Loss = Loss::SparseCategoricalCrossentropy { from_logits: false };
const HUBER: Loss = Loss::Huber { delta: 1.0 };

/// The names of each loss in Keras; the first one is its main name.
const NAMES: &[(Loss, &[&str])] = &[
    (Loss::MeanSquaredError, &["mean_squared_error", "mse", "MSE", "MeanSquaredError"]),
    (Loss::MeanAbsoluteError, &["mean_absolute_error", "mae", "MAE", "MeanAbsoluteError"]),
    (
        Loss::MeanAbsolutePercentageError,
        &["mean_absolute_percentage_error", "mape", "MAPE", "MeanAbsolutePercentageError"],
    ),
    (
        Loss::MeanSquaredLogarithmicError,
        &["mean_squared_logarithmic_error", "msle", "MSLE", "MeanSquaredLogarithmicError"],
    ),
    (HUBER, &["huber_loss", "huber", "Huber"]),
    (Loss::LogCosh, &["log_cosh", "logcosh", "LogCosh"]),
    (BINARY, &["binary_crossentropy", "bce", "BCE", "BinaryCrossentropy"]),
    (CATEGORICAL, &["categorical_crossentropy", "CategoricalCrossentropy"]),
    (SPARSE, &["sparse_categorical_crossentropy", "SparseCategoricalCrossentropy"]),
    (Loss::KlDivergence, &["kl_divergence", "kld", "KLD", "kullback_leibler_divergence", "KLDivergence"]),
    (Loss::Poisson, &["poisson", "Poisson"]),
    (Loss::Hinge, &["hinge", "Hinge"]),
    (Loss::SquaredHinge, &["squared_hinge", "SquaredHinge"]),
    (Loss::CategoricalHinge, &["categorical_hinge", "CategoricalHinge"]),
    (Loss::CosineSimilarity, &["cosine_similarity", "CosineSimilarity"]),
];

impl Loss {
    /// Returns the cross-entropy of 0/1 labels, for predictions that are probabilities.
    #[must_use]
    pub fn binary_crossentropy() -> Self {
        BINARY
    }

    /// Returns the cross-entropy of one-hot labels, for predictions that are probabilities.
    #[must_use]
    pub fn categorical_crossentropy() -> Self {
        CATEGORICAL
    }

    /// Returns the cross-entropy of class numbers, for predictions that are probabilities.
    #[must_use]
    pub fn sparse_categorical_crossentropy() -> Self {
        SPARSE
    }

    /// Takes predictions as logits. Losses that are no cross-entropy stay as they are.
    ///
    /// ```
    /// use phalanx_nn::metrics::Loss;
    /// let loss = Loss::sparse_categorical_crossentropy().from_logits();
    /// assert_eq!(loss, Loss::SparseCategoricalCrossentropy { from_logits: true });
    /// ```
    #[must_use]
    pub fn from_logits(mut self) -> Self {
        match &mut self {
            Self::BinaryCrossentropy { from_logits, .. }
            | Self::CategoricalCrossentropy { from_logits, .. }
            | Self::SparseCategoricalCrossentropy { from_logits } => *from_logits = true,
            _ => {}
        }
        self
    }

    /// Returns the loss called `name`, with Keras' defaults.
    ///
    /// # Errors
    /// If there is none.
    pub fn parse(name: &str) -> Result<Self> {
        let known = || NAMES.iter().flat_map(|(_, names)| names.iter().copied());
        NAMES.iter().find(|(_, names)| names.contains(&name)).map(|&(loss, _)| loss).ok_or_else(|| {
            let help = match nearest(name, known()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => {
                    format!("choose one of {}", NAMES.iter().map(|(_, names)| names[0]).collect::<Vec<_>>().join(", "))
                }
            };
            Error::new(Code::BadSetting, format!("no loss is called `{name}`")).help(help)
        })
    }

    /// Returns Keras' name of the loss.
    #[must_use]
    pub fn name(&self) -> &'static str {
        let same = std::mem::discriminant(self);
        NAMES.iter().find(|(loss, _)| std::mem::discriminant(loss) == same).map_or("loss", |(_, names)| names[0])
    }

    /// Returns whether labels are class numbers.
    #[must_use]
    pub fn takes_class_ids(&self) -> bool {
        matches!(self, Self::SparseCategoricalCrossentropy { .. })
    }

    /// Returns the loss of each example.
    ///
    /// # Errors
    /// If the shapes do not match, or a class number is out of range.
    pub fn values(&self, label: Values<'_>, prediction: Values<'_>) -> Result<Vec<f64>> {
        let mut out = Vec::new();
        let into = &mut out;
        match *self {
            Self::MeanSquaredError => SquaredError.measure(label, prediction, into),
            Self::MeanAbsoluteError => AbsoluteError.measure(label, prediction, into),
            Self::MeanAbsolutePercentageError => AbsolutePercentageError.measure(label, prediction, into),
            Self::MeanSquaredLogarithmicError => SquaredLogarithmicError.measure(label, prediction, into),
            Self::Huber { delta } => huber(label, prediction, delta, into),
            Self::LogCosh => LogCosh.measure(label, prediction, into),
            Self::BinaryCrossentropy { from_logits, label_smoothing } => {
                BinaryEntropy { from_logits, label_smoothing }.measure(label, prediction, into)
            }
            Self::CategoricalCrossentropy { from_logits, label_smoothing } => {
                CategoricalEntropy { from_logits, label_smoothing }.measure(label, prediction, into)
            }
            Self::SparseCategoricalCrossentropy { from_logits } => {
                SparseEntropy { from_logits, ignore_class: None }.measure(label, prediction, into)
            }
            Self::KlDivergence => KullbackLeibler.measure(label, prediction, into),
            Self::Poisson => PoissonLoss.measure(label, prediction, into),
            Self::Hinge => HingeLoss.measure(label, prediction, into),
            Self::SquaredHinge => SquaredHingeLoss.measure(label, prediction, into),
            Self::CategoricalHinge => CategoricalHingeLoss.measure(label, prediction, into),
            Self::CosineSimilarity => {
                Cosine.measure(label, prediction, into).map(|()| into.iter_mut().for_each(|value| *value = -*value))
            }
        }
        .map_err(|error| error.at(format!("loss `{}`", self.name())))?;
        Ok(out)
    }
}

/// The reduction of the losses of a batch to one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reduction {
    /// The same as [`SumOverBatchSize`](Self::SumOverBatchSize).
    #[default]
    Auto,
    /// No reduction.
    None,
    /// The weighted sum.
    Sum,
    /// The weighted sum divided by the number of losses, not by the sum of weights.
    SumOverBatchSize,
}

/// The result of a [`Reduction`].
#[derive(Clone, Debug, PartialEq)]
pub enum Reduced {
    /// One loss per example.
    Each(Vec<f64>),
    /// A single loss.
    One(f64),
}

impl Reduction {
    /// Applies weights to the losses and reduces them.
    ///
    /// # Errors
    /// If there is neither a single weight nor one per loss.
    pub fn apply(self, values: &[f64], weights: Option<&[f32]>) -> Result<Reduced> {
        let weights = Weights::new(weights, values.len(), 1)?;
        let weighted = values.iter().enumerate().map(|(index, value)| value * weights.of(index));
        Ok(match self {
            Self::None => Reduced::Each(weighted.collect()),
            Self::Sum => Reduced::One(weighted.sum()),
            Self::Auto | Self::SumOverBatchSize => Reduced::One(ratio(weighted.sum(), values.len() as f64)),
        })
    }
}

/// Returns the weighted sum of a replica's losses, divided by the global batch size: TensorFlow's
/// `tf.nn.compute_average_loss`. The sum over all replicas is the mean. 0 for a batch of size 0.
///
/// ```
/// use phalanx_nn::metrics::compute_average_loss;
/// assert_eq!(compute_average_loss(&[1.0, 3.0], None, 8)?, 0.5);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
///
/// # Errors
/// If there is neither a single weight nor one per loss.
pub fn compute_average_loss(per_example: &[f64], weights: Option<&[f32]>, global_batch_size: usize) -> Result<f64> {
    let sum = Weights::new(weights, per_example.len(), 1)?.sum(per_example.iter().copied());
    Ok(ratio(sum, global_batch_size as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_parsed_and_a_wrong_one_is_corrected() {
        for (loss, names) in NAMES {
            for name in *names {
                assert_eq!(Loss::parse(name).unwrap(), *loss);
            }
            assert_eq!(Loss::parse(loss.name()).unwrap(), *loss);
        }
        let error = Loss::parse("binary_crosentropy").unwrap_err();
        assert_eq!((error.code(), error.next()), (Code::BadSetting, Some("did you mean `binary_crossentropy`?")));
        assert!(Loss::parse("banana").unwrap_err().next().unwrap().starts_with("choose one of mean_squared_error, "));
    }
}
