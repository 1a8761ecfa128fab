//! The interface between estimators and models.

use crate::head::Targets;
use crate::variables::seed_of;
use crate::{Head, Hook, Served, ServingInput};
use phalanx_base::{Code, Error, Result};
use phalanx_data::Batch;
use phalanx_nn::burn::tensor::Device;
use phalanx_nn::{ParameterRegistry, Parameters};
use phalanx_optim::Optimizer;
use phalanx_ps::TableSpec;
use phalanx_ps::plan::RowInitializer;
use phalanx_train::{RowValues, StepGradients};

/// A table of rows by id: an embedding, or the weights of a categorical column.
#[derive(Clone, Debug)]
pub struct Table {
    /// Name, dimension, initializer and optimizer.
    pub spec: TableSpec,
    /// The number of ids.
    pub rows: usize,
}

/// The most numbers of a table that exports hold as a dense variable: 1 GiB.
pub(crate) const DENSE_NUMBERS: usize = 1 << 28;

impl Table {
    /// An embedding of `rows` ids as vectors of `dim` numbers, which start as in TensorFlow's `embedding_column`: a
    /// truncated normal distribution with a deviation of `1 / √dim`.
    #[must_use]
    pub fn embedding(name: impl Into<String>, rows: usize, dim: usize, optimizer: impl Into<Optimizer>) -> Self {
        let name = name.into();
        let deviation = 1.0 / (dim.max(1) as f32).sqrt();
        let initializer = RowInitializer::truncated_normal(0.0, deviation, seed_of(&name, 0));
        Self { spec: TableSpec { name, dim, initializer, optimizer: optimizer.into() }, rows }
    }

    /// Returns whether exports of the table hold only the rows that were seen, because it has too many ids. An id that
    /// was not seen is then predicted with the mean of the initial values.
    #[must_use]
    pub fn is_growing(&self) -> bool {
        self.rows.checked_mul(self.spec.dim).is_none_or(|numbers| numbers > DENSE_NUMBERS)
    }
}

/// The part of a batch that one replica computes a step on.
pub struct StepPart<'a, I> {
    /// The prepared batch.
    pub input: &'a I,
    /// The rows of [`Trainable::ids`], in that order.
    pub rows: Vec<RowValues>,
    /// The seed of what is random.
    pub seed: u64,
    /// The labels and weights.
    pub(crate) targets: &'a Targets,
    /// The share of this part among all rows of the step, by which the caller multiplies loss and gradients.
    pub(crate) share: f32,
}

/// The interface between an estimator and its model. For your own model implement [`ModelFn`](crate::ModelFn) instead.
pub trait Trainable: Send + Sync + 'static {
    /// The dense variables.
    type Module: Parameters;
    /// A prepared batch.
    type Input: Send + Sync;

    /// Returns the head.
    fn head(&self) -> &Head;

    /// Creates and initializes the dense variables.
    ///
    /// # Errors
    /// Fails if the model cannot be created.
    fn module(&self, device: &Device) -> Result<Self::Module>;

    /// Returns the optimizer of a variable of [`Self::module`].
    ///
    /// # Errors
    /// Fails if the model has no such variable.
    fn optimizer(&self, variable: &str) -> Result<Optimizer>;

    /// Returns the tables.
    fn tables(&self) -> &[Table] {
        &[]
    }

    /// Returns the hooks of a training that belong to the model.
    fn hooks(&self) -> Vec<Box<dyn Hook>> {
        Vec::new()
    }

    /// Returns the model as a TensorFlow graph, for exports.
    ///
    /// # Errors
    /// Fails if the model has no TensorFlow graph. The default implementation always fails.
    fn served(&self, input: ServingInput) -> Result<Served> {
        let _ = input;
        Err(no_graph())
    }

    /// As [`Self::served`], for a checkpoint with these numbers of rows, one for each of [`Self::tables`]. Tables that
    /// [grow](Table::is_growing) need them.
    ///
    /// # Errors
    /// As [`Self::served`].
    fn served_with_rows(&self, input: ServingInput, rows: &[usize]) -> Result<Served> {
        let _ = rows;
        self.served(input)
    }

    /// Prepares a batch.
    ///
    /// # Errors
    /// Fails if a column is missing or has invalid values.
    fn input(&self, batch: &Batch) -> Result<Self::Input>;

    /// Returns the ids that an input looks up, one list for each table used, with the table's index.
    fn ids<'a>(&self, input: &'a Self::Input) -> Vec<(usize, &'a [i64])>;

    /// Computes the loss of a part of a batch, and its gradients. It is the loss of the mean over the part's rows.
    ///
    /// # Errors
    /// Fails if variables or input do not fit the model.
    fn step(
        &self,
        module: &Self::Module,
        registry: &ParameterRegistry,
        part: StepPart<'_, Self::Input>,
    ) -> Result<StepGradients>;

    /// Computes the logits of an input, row-major; `rows` are those of [`Trainable::ids`], in that order.
    ///
    /// # Errors
    /// Fails if variables or input do not fit the model.
    fn logits(&self, module: &Self::Module, input: &Self::Input, rows: Vec<RowValues>) -> Result<Vec<f32>>;
}

pub(crate) fn no_graph() -> Error {
    Error::new(Code::BadSetting, "the model has no TensorFlow graph to export")
        .because("only canned models have one by default")
        .help("implement ModelFn::served; Served::of_model does it for a model made of Phalanx's layers")
}

/// What an estimator is created from: the settings of a canned model, or a [`ModelFn`](crate::ModelFn).
pub trait IntoModel {
    /// The model.
    type Model: Trainable;

    /// Creates the model; `seed` determines its initial values.
    ///
    /// # Errors
    /// Fails if settings are invalid.
    fn to_model(&self, seed: u64) -> Result<Self::Model>;
}
