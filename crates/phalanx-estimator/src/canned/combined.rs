//! `DNNLinearCombinedClassifier` and `DNNLinearCombinedRegressor`: wide & deep.

use super::deep::deep;
use super::hidden::LayerSettings;
use super::l2::L2;
use super::linear::linear;
use super::parts::ModelPlan;
use super::settings::{head_settings, into_model, layer_settings, two_optimizers};
use crate::Head;
use phalanx_base::{Code, Error, Result};
use phalanx_feature::{Combiner, FeatureColumn};
use phalanx_graph::{Add, NodeId};
use phalanx_optim::{Adagrad, Ftrl, Optimizer};

/// TensorFlow's default rate of the deep part, and the largest default of the linear part.
const LEARNING_RATES: (f32, f32) = (0.001, 0.005);

macro_rules! combined {
    ($(#[$doc:meta])* $name:ident, $kind:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            linear: Vec<FeatureColumn>,
            deep: Vec<FeatureColumn>,
            head: Head,
            linear_optimizer: Option<Optimizer>,
            dnn_optimizer: Optimizer,
            layers: LayerSettings,
            combiner: Combiner,
            l2: L2,
        }

        impl $name {
            /// A linear model with FTRL at a rate of min(0.005, 1/√columns) and a deep model with Adagrad at a rate of
            /// 0.001. Either list of columns may be empty.
            #[must_use]
            pub fn new(linear: impl Into<Vec<FeatureColumn>>, deep: impl Into<Vec<FeatureColumn>>) -> Self {
                Self {
                    linear: linear.into(),
                    deep: deep.into(),
                    head: Head::$kind(),
                    linear_optimizer: None,
                    dnn_optimizer: Adagrad::new(LEARNING_RATES.0).into(),
                    layers: LayerSettings::default(),
                    combiner: Combiner::Sum,
                    l2: L2::default(),
                }
            }

            /// Sets how the linear weights of several ids in one column are combined; their sum by default.
            #[must_use]
            pub fn linear_sparse_combiner(mut self, combiner: Combiner) -> Self {
                self.combiner = combiner;
                self
            }
        }

        layer_settings!($name);
        two_optimizers!($name);
        head_settings!($kind $name);
        into_model!($name);

        impl $name {
            fn parts(&self, units: usize, plan: &mut ModelPlan) -> Result<NodeId> {
                if self.linear.is_empty() && self.deep.is_empty() {
                    return Err(Error::new(Code::BadSetting, "the model has neither linear nor deep columns")
                        .help("give columns to at least one of its parts"));
                }
                let rate = LEARNING_RATES.1.min(1.0 / (self.linear.len().max(1) as f32).sqrt());
                let optimizer = self.linear_optimizer.unwrap_or_else(|| Ftrl::new(rate).into());
                if self.deep.is_empty() {
                    return linear(&self.linear, self.combiner, units, optimizer, plan);
                }
                let wide = match self.linear.as_slice() {
                    [] => None,
                    columns => Some(linear(columns, self.combiner, units, optimizer, plan)?),
                };
                let deep = deep(&self.deep, &self.layers, units, self.dnn_optimizer, plan)?;
                wide.map_or(Ok(deep), |wide| plan.graph.add(Add, &[deep, wide]))
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
