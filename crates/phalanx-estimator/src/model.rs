//! The models of estimators: canned ones and your own.

use crate::{Head, Served, ServingInput};
use phalanx_base::{Code, Error, Result};
use phalanx_data::Batch;
use phalanx_nn::HostBuffer;
use phalanx_nn::burn::module::Module;
use phalanx_nn::burn::tensor::{Device, Gradients, Tensor};
use phalanx_nn::model::Mode;
use phalanx_optim::Optimizer;
use phalanx_ps::TableSpec;
use phalanx_train::RowValues;

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
    /// Returns whether exports of the table hold only the rows that were seen, because it has too many ids. An id that
    /// was not seen is then predicted with the mean of the initial values.
    #[must_use]
    pub fn is_growing(&self) -> bool {
        self.rows.checked_mul(self.spec.dim).is_none_or(|numbers| numbers > DENSE_NUMBERS)
    }
}

/// Extracts the gradients of the unique rows of every used table from those of a loss.
pub type RowGradients<'a> = Box<dyn FnOnce(&mut Gradients) -> Result<Vec<Option<HostBuffer>>> + 'a>;

/// The result of a model's forward pass.
pub struct Forward<'a> {
    /// `[rows, logits]`.
    pub logits: Tensor<2>,
    /// The gradients of the looked-up rows, in the order of [`Trainable::ids`].
    pub row_gradients: RowGradients<'a>,
    /// A term that a step adds to its loss: regularization.
    pub penalty: Option<Tensor<1>>,
    /// A term whose gradient updates the moving averages of batch normalization. Its value does not count.
    pub moving_averages: Option<Tensor<1>>,
}

/// The interface between an estimator and its model. For your own model implement [`ModelFn`] instead.
pub trait Trainable: Send + Sync + 'static {
    /// The dense variables.
    type Module: Module;
    /// A prepared batch.
    type Input: Send;

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

    /// Returns the ids that an input looks up, with the index of their table.
    fn ids<'a>(&self, input: &'a Self::Input) -> Vec<(usize, &'a [i64])>;

    /// Computes the logits of an input; `rows` are those of [`Trainable::ids`], in that order.
    ///
    /// # Errors
    /// Fails if variables or input do not fit the model.
    fn forward<'a>(
        &'a self,
        module: &Self::Module,
        input: &'a Self::Input,
        rows: Vec<RowValues>,
        mode: Mode,
    ) -> Result<Forward<'a>>;
}

fn no_graph() -> Error {
    Error::new(Code::BadSetting, "the model has no TensorFlow graph to export")
        .because("only canned models have one by default")
        .help("implement ModelFn::served; Served::of_model does it for a model made of Phalanx's layers")
}

/// What an estimator is created from: the settings of a canned model, or a [`ModelFn`].
pub trait IntoModel {
    /// The model.
    type Model: Trainable;

    /// Creates the model; `seed` determines its initial values.
    ///
    /// # Errors
    /// Fails if settings are invalid.
    fn to_model(&self, seed: u64) -> Result<Self::Model>;
}

/// Your own model: a Burn module, its logits, and a [`Head`].
///
/// ```
/// use phalanx_estimator::{Head, ModelFn};
/// use phalanx_nn::burn::{nn::{Linear, LinearConfig}, tensor::{Device, Tensor, TensorData}};
/// use phalanx_nn::model::Mode;
/// use phalanx_optim::{Optimizer, Sgd};
///
/// #[derive(Clone)]
/// struct Line;
///
/// impl ModelFn for Line {
///     type Module = Linear;
///     fn head(&self) -> Head { Head::regression(1) }
///     fn module(&self, device: &Device) -> phalanx_base::Result<Linear> { Ok(LinearConfig::new(1, 1).init(device)) }
///     fn optimizer(&self) -> Optimizer { Sgd::new(0.1).into() }
///     fn logits(&self, module: &Linear, batch: &phalanx_data::Batch, _: Mode) -> phalanx_base::Result<Tensor<2>> {
///         let x = batch.f32("x")?.to_vec();
///         let shape = [x.len(), 1];
///         Ok(module.forward(Tensor::from_data(TensorData::new(x, shape), &module.weight.device())))
///     }
/// }
/// ```
pub trait ModelFn: Clone + Send + Sync + 'static {
    /// The Burn module. On parameter servers, its parameters are variables named by their path.
    type Module: Module;

    /// Returns the head.
    fn head(&self) -> Head;

    /// Creates and initializes the module.
    ///
    /// # Errors
    /// Fails if it cannot be created.
    fn module(&self, device: &Device) -> Result<Self::Module>;

    /// Returns the optimizer of all variables.
    fn optimizer(&self) -> Optimizer;

    /// Returns `[rows, logits]` for a batch.
    ///
    /// # Errors
    /// Fails if a column is missing or does not fit.
    fn logits(&self, module: &Self::Module, batch: &Batch, mode: Mode) -> Result<Tensor<2>>;

    /// Returns the model as a TensorFlow graph, for exports. For a model made of Phalanx's layers, use
    /// [`Served::of_model`].
    ///
    /// # Errors
    /// Fails if the model has no TensorFlow graph. The default implementation always fails.
    fn served(&self, input: ServingInput) -> Result<Served> {
        let _ = input;
        Err(no_graph())
    }
}

/// The estimator's view of a [`ModelFn`].
pub struct CustomModel<F> {
    function: F,
    head: Head,
    optimizer: Optimizer,
}

impl<F: ModelFn> IntoModel for F {
    type Model = CustomModel<F>;

    fn to_model(&self, _seed: u64) -> Result<CustomModel<F>> {
        let (head, optimizer) = (self.head(), self.optimizer());
        head.check()?;
        Ok(CustomModel { function: self.clone(), head, optimizer })
    }
}

impl<F: ModelFn> Trainable for CustomModel<F> {
    type Module = F::Module;
    type Input = Batch;

    fn head(&self) -> &Head {
        &self.head
    }

    fn module(&self, device: &Device) -> Result<F::Module> {
        self.function.module(device)
    }

    fn optimizer(&self, _variable: &str) -> Result<Optimizer> {
        Ok(self.optimizer)
    }

    fn served(&self, input: ServingInput) -> Result<Served> {
        self.function.served(input)
    }

    fn input(&self, batch: &Batch) -> Result<Batch> {
        Ok(batch.clone())
    }

    fn ids<'a>(&self, _input: &'a Batch) -> Vec<(usize, &'a [i64])> {
        Vec::new()
    }

    fn forward<'a>(
        &'a self,
        module: &F::Module,
        input: &'a Batch,
        _rows: Vec<RowValues>,
        mode: Mode,
    ) -> Result<Forward<'a>> {
        let logits = self.function.logits(module, input, mode)?;
        Ok(Forward { logits, row_gradients: Box::new(|_| Ok(Vec::new())), penalty: None, moving_averages: None })
    }
}
