//! `BaselineClassifier` and `BaselineRegressor`: predictions without features.

use super::l2::L2;
use super::parts::ModelPlan;
use super::settings::{head_settings, into_model, optimizer_setting};
use crate::Head;
use phalanx_base::Result;
use phalanx_graph::{NodeId, Repeat};
use phalanx_nn::model::Initializer;
use phalanx_optim::{Ftrl, Optimizer};

/// TensorFlow's learning rate.
const LEARNING_RATE: f32 = 0.3;

macro_rules! baseline {
    ($(#[$doc:meta])* $name:ident, $kind:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            head: Head,
            optimizer: Optimizer,
        }

        impl $name {
            /// A bias for each logit, with FTRL at a rate of 0.3.
            #[must_use]
            pub fn new() -> Self {
                Self { head: Head::$kind(), optimizer: Ftrl::new(LEARNING_RATE).into() }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }

        optimizer_setting!($name, "the bias");
        head_settings!($kind $name);
        into_model!($name, |_: &$name| L2::default());

        impl $name {
            fn parts(&self, units: usize, plan: &mut ModelPlan) -> Result<NodeId> {
                let bias = plan.variable("baseline/bias".to_owned(), vec![units], Initializer::Zeros, self.optimizer)?;
                plan.graph.add(Repeat, &[bias])
            }
        }
    };
}

baseline! {
    /// `tf.estimator.BaselineClassifier`: predicts the frequency of each class.
    BaselineClassifier, classifier
}
baseline! {
    /// `tf.estimator.BaselineRegressor`: predicts the mean of the labels.
    BaselineRegressor, regressor
}
