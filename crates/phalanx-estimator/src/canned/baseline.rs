//! `BaselineClassifier` and `BaselineRegressor`: what can be predicted without looking.

use super::Canned;
use super::parts::Builder;
use super::settings::{HeadSettings, head_settings, optimizer_setting};
use crate::IntoModel;
use phalanx_base::Result;
use phalanx_nn::model::Initializer;
use phalanx_optim::{Ftrl, Optimizer};

/// TensorFlow's learning rate.
const LEARNING_RATE: f32 = 0.3;

macro_rules! baseline {
    ($(#[$doc:meta])* $name:ident, $kind:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            head: HeadSettings,
            optimizer: Optimizer,
        }

        impl $name {
            /// A bias for each logit, with FTRL at a rate of 0.3.
            #[must_use]
            pub fn new() -> Self {
                Self { head: HeadSettings::$kind(), optimizer: Ftrl::new(LEARNING_RATE).into() }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }

        optimizer_setting!($name, "the bias");
        head_settings!($kind $name);

        impl IntoModel for $name {
            type Model = Canned;

            fn to_model(&self, seed: u64) -> Result<Canned> {
                let (head, mut kept) = (self.head.head(), Builder::new(seed));
                let units = vec![head.logits_dimension()];
                let bias = kept.variable("baseline/bias".to_owned(), units, Initializer::Zeros, self.optimizer);
                let canned = Canned::new(head, None, None, kept)?;
                Ok(Canned { baseline: Some(bias), ..canned })
            }
        }
    };
}

baseline! {
    /// `tf.estimator.BaselineClassifier`: how often each class is seen.
    BaselineClassifier, classifier
}
baseline! {
    /// `tf.estimator.BaselineRegressor`: the mean of what is seen.
    BaselineRegressor, regressor
}
