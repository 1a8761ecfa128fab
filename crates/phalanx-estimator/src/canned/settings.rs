//! Settings that several canned models have.

use crate::Head;
use phalanx_nn::metrics::Reduction;

/// What a head is to be.
#[derive(Clone, Debug, Default)]
pub(super) struct HeadSettings {
    /// `None` for a regression.
    pub(super) classes: Option<usize>,
    pub(super) label_dimension: usize,
    pub(super) weight_column: Option<String>,
    pub(super) label_vocabulary: Vec<String>,
    pub(super) thresholds: Vec<f32>,
    pub(super) reduction: Option<Reduction>,
}

impl HeadSettings {
    pub(super) fn classifier() -> Self {
        Self { classes: Some(2), ..Self::default() }
    }

    pub(super) fn regressor() -> Self {
        Self { label_dimension: 1, ..Self::default() }
    }

    pub(super) fn head(&self) -> Head {
        let mut head = self.classes.map_or_else(|| Head::regression(self.label_dimension), Head::classes);
        if let Some(column) = &self.weight_column {
            head = head.weight_column(column);
        }
        if !self.label_vocabulary.is_empty() {
            head = head.label_vocabulary(self.label_vocabulary.clone());
        }
        if !self.thresholds.is_empty() {
            head = head.thresholds(self.thresholds.clone());
        }
        self.reduction.map_or(head.clone(), |reduction| head.loss_reduction(reduction))
    }
}

/// The settings of a head, on the settings of a model that has one in the field `head`.
macro_rules! head_settings {
    (classifier $model:ty) => {
        impl $model {
            /// How many classes there are: 2, unless said otherwise.
            #[must_use]
            pub fn n_classes(mut self, n_classes: usize) -> Self {
                self.head.classes = Some(n_classes);
                self
            }
        }
        head_settings!(binary $model);
    };
    (binary $model:ty) => {
        impl $model {
            /// The words that labels are, in the order of the classes.
            #[must_use]
            pub fn label_vocabulary<S: Into<String>>(mut self, words: impl IntoIterator<Item = S>) -> Self {
                self.head.label_vocabulary = words.into_iter().map(Into::into).collect();
                self
            }

            /// Two classes: accuracy, precision and recall are also reported at these probabilities.
            #[must_use]
            pub fn thresholds(mut self, thresholds: impl Into<Vec<f32>>) -> Self {
                self.head.thresholds = thresholds.into();
                self
            }
        }
        head_settings!(common $model);
    };
    (regressor $model:ty) => {
        impl $model {
            /// How many numbers are predicted: 1, unless said otherwise.
            #[must_use]
            pub fn label_dimension(mut self, label_dimension: usize) -> Self {
                self.head.label_dimension = label_dimension;
                self
            }
        }
        head_settings!(common $model);
    };
    (common $model:ty) => {
        impl $model {
            /// The column that says how much each example counts.
            #[must_use]
            pub fn weight_column(mut self, name: impl Into<String>) -> Self {
                self.head.weight_column = Some(name.into());
                self
            }

            /// How the losses of a batch become one: their sum over their number, unless said otherwise.
            #[must_use]
            pub fn loss_reduction(mut self, reduction: phalanx_nn::metrics::Reduction) -> Self {
                self.head.reduction = Some(reduction);
                self
            }
        }
    };
}
/// The settings of hidden layers, on the settings of a model that has them in the field `layers`.
macro_rules! layer_settings {
    ($model:ty) => {
        impl $model {
            /// How wide the hidden layers are, from the input to the logits.
            #[must_use]
            pub fn hidden_units(mut self, units: impl Into<Vec<usize>>) -> Self {
                self.layers.hidden_units = units.into();
                self
            }

            /// What a hidden layer makes of its sums: relu, unless said otherwise.
            #[must_use]
            pub fn activation_fn(mut self, activation: phalanx_nn::model::Function) -> Self {
                self.layers.activation = activation;
                self
            }

            /// Drops this share of every hidden layer's numbers while training.
            #[must_use]
            pub fn dropout(mut self, rate: f64) -> Self {
                self.layers.dropout = Some(rate);
                self
            }

            /// Normalizes what every hidden layer passes on: over a batch while training, by moving values afterwards.
            #[must_use]
            pub fn batch_norm(mut self, batch_norm: bool) -> Self {
                self.layers.batch_norm = batch_norm;
                self
            }

            /// What the factors of hidden layers are rounded to before they are multiplied; not at all, unless said
            /// otherwise. Variables and their gradients are 32-bit floats either way.
            #[must_use]
            pub fn precision(mut self, precision: phalanx_nn::Precision) -> Self {
                self.layers.precision = precision;
                self
            }
        }
    };
}

/// The setting of the one optimizer, on the settings of a model that has it in the field `optimizer`.
macro_rules! optimizer_setting {
    ($model:ty, $of:literal) => {
        impl $model {
            #[doc = concat!("How gradients change ", $of, ".")]
            #[must_use]
            pub fn optimizer(mut self, optimizer: impl Into<phalanx_optim::Optimizer>) -> Self {
                self.optimizer = optimizer.into();
                self
            }
        }
    };
}
pub(super) use {head_settings, layer_settings, optimizer_setting};
