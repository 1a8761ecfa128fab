//! `LinearClassifier` and `LinearRegressor`.

use super::Canned;
use super::linear::Linear;
use super::parts::Builder;
use super::settings::{HeadSettings, head_settings, optimizer_setting};
use crate::IntoModel;
use phalanx_base::Result;
use phalanx_feature::{Combiner, FeatureColumn};
use phalanx_optim::{Ftrl, Optimizer};

/// TensorFlow's learning rate where its optimizer is not said.
const LEARNING_RATE: f32 = 0.2;

macro_rules! linear {
    ($(#[$doc:meta])* $name:ident, $kind:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            columns: Vec<FeatureColumn>,
            head: HeadSettings,
            optimizer: Optimizer,
            combiner: Combiner,
        }

        impl $name {
            /// A linear model of these columns, with FTRL at a rate of 0.2.
            #[must_use]
            pub fn new(columns: impl Into<Vec<FeatureColumn>>) -> Self {
                let optimizer = Ftrl::new(LEARNING_RATE).into();
                Self { columns: columns.into(), head: HeadSettings::$kind(), optimizer, combiner: Combiner::Sum }
            }

            /// How the weights of several ids of one column are put together: added up, unless said otherwise.
            #[must_use]
            pub fn sparse_combiner(mut self, combiner: Combiner) -> Self {
                self.combiner = combiner;
                self
            }
        }

        optimizer_setting!($name, "the weights");
        head_settings!($kind $name);

        impl IntoModel for $name {
            type Model = Canned;

            fn to_model(&self, seed: u64) -> Result<Canned> {
                let (head, mut kept) = (self.head.head(), Builder::new(seed));
                let units = head.logits_dimension();
                let linear = Linear::plan(&self.columns, self.combiner, units, self.optimizer, &mut kept)?;
                Canned::new(head, Some(linear), None, kept)
            }
        }
    };
}

linear! {
    /// `tf.estimator.LinearClassifier`: classes from a weight for every number and every id.
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
    /// `tf.estimator.LinearRegressor`: numbers from a weight for every number and every id.
    LinearRegressor, regressor
}
