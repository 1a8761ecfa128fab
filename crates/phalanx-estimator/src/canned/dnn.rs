//! `DNNClassifier` and `DNNRegressor`.

use super::deep::deep;
use super::hidden::LayerSettings;
use super::l2::L2;
use super::parts::ModelPlan;
use super::settings::{head_settings, into_model, layer_settings, optimizer_setting};
use crate::Head;
use phalanx_base::Result;
use phalanx_feature::FeatureColumn;
use phalanx_graph::NodeId;
use phalanx_optim::{Adagrad, Optimizer};

/// The default learning rate of Keras, which TensorFlow's Estimator uses too.
const LEARNING_RATE: f32 = 0.001;

macro_rules! dnn {
    ($(#[$doc:meta])* $name:ident, $kind:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            columns: Vec<FeatureColumn>,
            head: Head,
            optimizer: Optimizer,
            layers: LayerSettings,
            l2: L2,
        }

        impl $name {
            /// A deep model of these columns, with Adagrad at a rate of 0.001.
            #[must_use]
            pub fn new(columns: impl Into<Vec<FeatureColumn>>) -> Self {
                let (optimizer, layers) = (Adagrad::new(LEARNING_RATE).into(), LayerSettings::default());
                Self { columns: columns.into(), head: Head::$kind(), optimizer, layers, l2: L2::default() }
            }
        }

        layer_settings!($name);
        optimizer_setting!($name, "the weights");
        head_settings!($kind $name);
        into_model!($name);

        impl $name {
            fn parts(&self, units: usize, plan: &mut ModelPlan) -> Result<NodeId> {
                deep(&self.columns, &self.layers, units, self.optimizer, plan)
            }
        }
    };
}

dnn! {
    /// `tf.estimator.DNNClassifier`: hidden layers over dense columns and embeddings.
    ///
    /// ```
    /// use phalanx_estimator::DnnClassifier;
    /// use phalanx_feature::{categorical_column_with_hash_bucket, embedding_column, numeric_column};
    /// let job = embedding_column(categorical_column_with_hash_bucket("occupation", 1_000), 8);
    /// let model = DnnClassifier::new([numeric_column("age"), job]).hidden_units([100, 50]);
    /// # let _ = model;
    /// ```
    DnnClassifier, classifier
}
dnn! {
    /// `tf.estimator.DNNRegressor`: hidden layers over dense columns and embeddings.
    DnnRegressor, regressor
}
