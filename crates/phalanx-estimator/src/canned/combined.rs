//! `DNNLinearCombinedClassifier` and `DNNLinearCombinedRegressor`: wide & deep.

use super::Canned;
use super::deep::Deep;
use super::hidden::Layers;
use super::linear::Linear;
use super::parts::Builder;
use super::settings::{HeadSettings, head_settings, layer_settings};
use crate::IntoModel;
use phalanx_base::{Code, Error, Result};
use phalanx_feature::{Combiner, FeatureColumn};
use phalanx_optim::{Adagrad, Ftrl, Optimizer};

/// TensorFlow's rate for the deep part, and the largest for the linear one.
const LEARNING_RATES: (f32, f32) = (0.001, 0.005);

macro_rules! combined {
    ($(#[$doc:meta])* $name:ident, $kind:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            linear: Vec<FeatureColumn>,
            deep: Vec<FeatureColumn>,
            head: HeadSettings,
            linear_optimizer: Option<Optimizer>,
            dnn_optimizer: Optimizer,
            layers: Layers,
            combiner: Combiner,
        }

        impl $name {
            /// A linear model of some columns beside a deep one of others: FTRL at a rate of
            /// min(0.005, 1/√columns), and Adagrad at one of 0.001. Either list may be empty.
            #[must_use]
            pub fn new(linear: impl Into<Vec<FeatureColumn>>, deep: impl Into<Vec<FeatureColumn>>) -> Self {
                Self {
                    linear: linear.into(),
                    deep: deep.into(),
                    head: HeadSettings::$kind(),
                    linear_optimizer: None,
                    dnn_optimizer: Adagrad::new(LEARNING_RATES.0).into(),
                    layers: Layers::default(),
                    combiner: Combiner::Sum,
                }
            }

            /// How gradients change the linear weights.
            #[must_use]
            pub fn linear_optimizer(mut self, optimizer: impl Into<Optimizer>) -> Self {
                self.linear_optimizer = Some(optimizer.into());
                self
            }

            /// How gradients change hidden layers and embeddings.
            #[must_use]
            pub fn dnn_optimizer(mut self, optimizer: impl Into<Optimizer>) -> Self {
                self.dnn_optimizer = optimizer.into();
                self
            }

            /// How the linear weights of several ids of one column are put together: added up, unless said otherwise.
            #[must_use]
            pub fn linear_sparse_combiner(mut self, combiner: Combiner) -> Self {
                self.combiner = combiner;
                self
            }
        }

        layer_settings!($name);
        head_settings!($kind $name);

        impl IntoModel for $name {
            type Model = Canned;

            fn to_model(&self, seed: u64) -> Result<Canned> {
                let (head, mut kept) = (self.head.head(), Builder::new(seed));
                if self.linear.is_empty() && self.deep.is_empty() {
                    return Err(Error::new(Code::BadSetting, "the model has neither linear nor deep columns")
                        .help("give columns to at least one of its parts"));
                }
                let units = head.logits_dimension();
                let rate = LEARNING_RATES.1.min(1.0 / (self.linear.len().max(1) as f32).sqrt());
                let optimizer = self.linear_optimizer.unwrap_or_else(|| Ftrl::new(rate).into());
                let linear = (!self.linear.is_empty())
                    .then(|| Linear::plan(&self.linear, self.combiner, units, optimizer, &mut kept))
                    .transpose()?;
                let deep = (!self.deep.is_empty())
                    .then(|| Deep::plan(&self.deep, &self.layers, units, self.dnn_optimizer, &mut kept))
                    .transpose()?;
                Canned::new(head, linear, deep, kept)
            }
        }
    };
}

combined! {
    /// `tf.estimator.DNNLinearCombinedClassifier`: wide & deep.
    ///
    /// ```
    /// use phalanx_estimator::WideDeepClassifier;
    /// use phalanx_feature::*;
    /// let job = categorical_column_with_hash_bucket("occupation", 1_000);
    /// let wide = [job.clone(), crossed_column(["education", "occupation"], 1_000)];
    /// let deep = [numeric_column("age"), embedding_column(job, 8)];
    /// let model = WideDeepClassifier::new(wide, deep).hidden_units([100, 50]);
    /// # let _ = model;
    /// ```
    WideDeepClassifier, classifier
}
combined! {
    /// `tf.estimator.DNNLinearCombinedRegressor`.
    WideDeepRegressor, regressor
}
