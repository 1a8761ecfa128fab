//! `FmClassifier`, `FmRegressor` and `MfRegressor`: factorization machines without hidden layers.

use super::deepfm::{first_order, machine as plan_machine};
use super::l2::L2;
use super::linear::linear;
use super::parts::ModelPlan;
use super::settings::{head_settings, into_model, optimizer_setting};
use crate::Head;
use phalanx_base::{Code, Error, Result};
use phalanx_feature::{Combiner, FeatureColumn, embedding_column};
use phalanx_graph::{Add, NodeId};
use phalanx_nn::model::Initializer;
use phalanx_optim::{Adagrad, Optimizer};

/// The default learning rate: high, since rows start near 0 and few batches contain a rare id.
const LEARNING_RATE: f32 = 0.15;

macro_rules! machine {
    ($(#[$doc:meta])* $name:ident, $head:expr, $settings:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            columns: Vec<FeatureColumn>,
            head: Head,
            optimizer: Optimizer,
            l2: L2,
        }

        impl $name {
            /// A machine of these columns, with Adagrad at a rate of 0.15.
            #[must_use]
            pub fn new(columns: impl Into<Vec<FeatureColumn>>) -> Self {
                let optimizer = Adagrad::new(LEARNING_RATE).into();
                Self { columns: columns.into(), head: $head, optimizer, l2: L2::default() }
            }

            fn parts(&self, _: usize, plan: &mut ModelPlan) -> Result<NodeId> {
                plan_parts(&self.columns, self.optimizer, plan)
            }
        }

        optimizer_setting!($name, "weights and embeddings");
        head_settings!($settings $name);
        into_model!($name);
    };
}

machine! {
    /// A factorization machine (Rendle, 2010) for two classes: a bias, a weight for every id and number, and the dot products
    /// of all pairs of embeddings.
    ///
    /// The columns are embeddings of one dimension, each of which is a field, and any dense columns, which have only a weight.
    /// The variables have the names of wide & deep.
    ///
    /// ```
    /// use phalanx_estimator::FmClassifier;
    /// use phalanx_feature::{categorical_column_with_hash_bucket as hashed, embedding_column, numeric_column};
    /// let model = FmClassifier::new([
    ///     numeric_column("price"),
    ///     embedding_column(hashed("user", 100_000), 16),
    ///     embedding_column(hashed("ad", 10_000), 16),
    /// ]);
    /// # let _ = model;
    /// ```
    FmClassifier, Head::classes(2), binary
}
machine! {
    /// A factorization machine for the regression of one number; otherwise as [`FmClassifier`].
    FmRegressor, Head::regression(1), common
}

/// Matrix factorization: `global mean + bias(user) + bias(item) + user · item`, where every user and every item has a bias and
/// a vector.
///
/// It is a factorization machine of two fields, and has its variables.
///
/// ```
/// use phalanx_estimator::MfRegressor;
/// use phalanx_feature::categorical_column_with_hash_bucket as hashed;
/// let model = MfRegressor::new(hashed("user", 100_000), hashed("movie", 20_000), 32).global_mean(3.5).embedding_l2(1e-5);
/// # let _ = model;
/// ```
#[derive(Clone, Debug)]
pub struct MfRegressor {
    user: FeatureColumn,
    item: FeatureColumn,
    dimension: usize,
    global_mean: f32,
    head: Head,
    optimizer: Optimizer,
    l2: L2,
}

impl MfRegressor {
    /// A model of two categorical columns with vectors of `dimension` numbers, with Adagrad at a rate of 0.15.
    #[must_use]
    pub fn new(user: FeatureColumn, item: FeatureColumn, dimension: usize) -> Self {
        let (optimizer, l2) = (Adagrad::new(LEARNING_RATE).into(), L2::default());
        Self { user, item, dimension, global_mean: 0.0, head: Head::regression(1), optimizer, l2 }
    }

    phalanx_train::setters! {
        /// Sets the value at which the global mean starts; 0 by default. It is learned with the rest.
        global_mean(mean: f32) { global_mean = mean }
    }

    fn parts(&self, _: usize, plan: &mut ModelPlan) -> Result<NodeId> {
        if !self.global_mean.is_finite() {
            return Err(Error::new(Code::BadSetting, format!("a global mean of {}", self.global_mean))
                .help("give the mean of the labels"));
        }
        let columns = [&self.user, &self.item].map(|column| embedding_column(column.clone(), self.dimension));
        let logits = plan_parts(&columns, self.optimizer, plan)?;
        if let Some(bias) = plan.variables.last_mut() {
            // A machine without hidden layers has no variables after the bias of its linear part.
            bias.initializer = Initializer::Constant(self.global_mean);
        }
        Ok(logits)
    }
}

optimizer_setting!(MfRegressor, "biases and vectors");
head_settings!(common MfRegressor);
into_model!(MfRegressor);

fn plan_parts(columns: &[FeatureColumn], optimizer: Optimizer, plan: &mut ModelPlan) -> Result<NodeId> {
    let linear = linear(&first_order(columns), Combiner::Sum, 1, optimizer, plan)?;
    let machine = plan_machine(columns, None, optimizer, plan)?;
    plan.graph.add(Add, &[machine, linear])
}
