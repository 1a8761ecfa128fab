//! `DNNClassifier` and `DNNRegressor`.

use super::Canned;
use super::deep::Deep;
use super::hidden::Layers;
use super::parts::Builder;
use super::settings::{HeadSettings, head_settings, layer_settings, optimizer_setting};
use crate::IntoModel;
use phalanx_base::Result;
use phalanx_feature::FeatureColumn;
use phalanx_optim::{Adagrad, Optimizer};

/// Keras' rate, which TensorFlow's Estimator has where its optimizer is not said.
const LEARNING_RATE: f32 = 0.001;

macro_rules! dnn {
    ($(#[$doc:meta])* $name:ident, $kind:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            columns: Vec<FeatureColumn>,
            head: HeadSettings,
            optimizer: Optimizer,
            layers: Layers,
        }

        impl $name {
            /// A deep model of these columns, with Adagrad at a rate of 0.001.
            #[must_use]
            pub fn new(columns: impl Into<Vec<FeatureColumn>>) -> Self {
                let (optimizer, layers) = (Adagrad::new(LEARNING_RATE).into(), Layers::default());
                Self { columns: columns.into(), head: HeadSettings::$kind(), optimizer, layers }
            }
        }

        layer_settings!($name);
        optimizer_setting!($name, "the weights");
        head_settings!($kind $name);

        impl IntoModel for $name {
            type Model = Canned;

            fn to_model(&self, seed: u64) -> Result<Canned> {
                let (head, mut kept) = (self.head.head(), Builder::new(seed));
                let units = head.logits_dimension();
                let deep = Deep::plan(&self.columns, &self.layers, units, self.optimizer, &mut kept)?;
                Canned::new(head, None, Some(deep), kept)
            }
        }
    };
}

dnn! {
    /// `tf.estimator.DNNClassifier`: classes from hidden layers over dense columns and embeddings.
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
    /// `tf.estimator.DNNRegressor`: numbers from hidden layers over dense columns and embeddings.
    DnnRegressor, regressor
}
