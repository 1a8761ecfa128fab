//! `LinearClassifier` and `LinearRegressor`.

use super::l2::L2;
use super::linear::linear as plan_linear;
use super::parts::ModelPlan;
use super::settings::{head_settings, into_model, optimizer_setting};
use crate::Head;
use phalanx_base::Result;
use phalanx_feature::{Combiner, FeatureColumn};
use phalanx_graph::NodeId;
use phalanx_optim::{Ftrl, Optimizer};

/// TensorFlow's default learning rate.
const LEARNING_RATE: f32 = 0.2;

macro_rules! linear {
    ($(#[$doc:meta])* $name:ident, $kind:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            columns: Vec<FeatureColumn>,
            head: Head,
            optimizer: Optimizer,
            combiner: Combiner,
            l2: L2,
        }

        impl $name {
            /// A linear model of these columns, with FTRL at a rate of 0.2.
            #[must_use]
            pub fn new(columns: impl Into<Vec<FeatureColumn>>) -> Self {
                let optimizer = Ftrl::new(LEARNING_RATE).into();
                Self { columns: columns.into(), head: Head::$kind(), optimizer, combiner: Combiner::Sum, l2: L2::default() }
            }

            /// Sets how the weights of several ids in one column are combined; their sum by default.
            #[must_use]
            pub fn sparse_combiner(mut self, combiner: Combiner) -> Self {
                self.combiner = combiner;
                self
            }
        }

        optimizer_setting!($name, "the weights");
        head_settings!($kind $name);
        into_model!($name);

        impl $name {
            fn parts(&self, units: usize, plan: &mut ModelPlan) -> Result<NodeId> {
                plan_linear(&self.columns, self.combiner, units, self.optimizer, plan)
            }
        }
    };
}

linear! {
    /// `tf.estimator.LinearClassifier`: a weight for every number and every id.
    ///
    /// ```
    /// use phalanx_estimator::LinearClassifier;
    /// use phalanx_feature::{categorical_column_with_hash_bucket, numeric_column};
    /// let columns = [numeric_column("age"), categorical_column_with_hash_bucket("occupation", 1_000)];
    /// let model = LinearClassifier::new(columns).label_vocabulary(["<=50K", ">50K"]);
    /// # let _ = model;
    /// ```
    LinearClassifier, classifier
}
linear! {
    /// `tf.estimator.LinearRegressor`: a weight for every number and every id.
    LinearRegressor, regressor
}
