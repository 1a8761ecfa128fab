//! What an estimator trains: a canned model, or one's own.

use crate::{Head, Served, ServingInput};
use phalanx_base::{Code, Error, Result};
use phalanx_data::Batch;
use phalanx_nn::Flat;
use phalanx_nn::burn::module::Module;
use phalanx_nn::burn::tensor::{Device, Gradients, Tensor};
use phalanx_nn::model::Mode;
use phalanx_optim::Optimizer;
use phalanx_ps::TableSpec;
use phalanx_train::RowValues;

/// A table of rows by id: an embedding, or the weights of a categorical column.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its name, its rows' length, how they begin and how they learn.
    pub spec: TableSpec,
    /// How many ids there are.
    pub rows: usize,
}

/// What turns a loss's gradients into those of the unique rows of every table used.
pub type RowGradients<'a> = Box<dyn FnOnce(&mut Gradients) -> Result<Vec<Option<Flat>>> + 'a>;

/// What a model makes of a batch.
pub struct Forward<'a> {
    /// `[rows, logits]`.
    pub logits: Tensor<2>,
    /// For the rows that were looked up, in the order of [`Trainable::ids`].
    pub row_gradients: RowGradients<'a>,
    /// A term whose slopes move variables beside the loss, such as the moving values of a normalization. Its value
    /// counts for nothing.
    pub drift: Option<Tensor<1>>,
}

/// What an estimator asks of its model. Canned models are such; for one of your own implement [`ModelFn`] instead.
pub trait Trainable: Send + Sync + 'static {
    /// Its dense variables.
    type Module: Module;
    /// A batch, made ready.
    type Input: Send;

    /// What its logits are for.
    fn head(&self) -> &Head;

    /// The variables at their start.
    ///
    /// # Errors
    /// When the model cannot be made.
    fn module(&self, device: &Device) -> Result<Self::Module>;

    /// How gradients change a variable of [`Self::module`].
    ///
    /// # Errors
    /// When the model has no such variable.
    fn optimizer(&self, variable: &str) -> Result<Optimizer>;

    /// Its tables.
    fn tables(&self) -> &[Table] {
        &[]
    }

    /// The model as a graph of TensorFlow's ops, for exports.
    ///
    /// # Errors
    /// When it cannot be said in such a graph; that is so unless a model says otherwise.
    fn served(&self, input: ServingInput) -> Result<Served> {
        let _ = input;
        Err(no_graph())
    }

    /// Makes a batch ready.
    ///
    /// # Errors
    /// When a column is missing or holds what it must not.
    fn input(&self, batch: &Batch) -> Result<Self::Input>;

    /// The ids that an input needs, by the number of their table.
    fn ids<'a>(&self, input: &'a Self::Input) -> Vec<(usize, &'a [i64])>;

    /// The logits of an input; `rows` are those of [`Trainable::ids`], in that order.
    ///
    /// # Errors
    /// When something does not fit.
    fn forward<'a>(
        &'a self,
        module: &Self::Module,
        input: &'a Self::Input,
        rows: Vec<RowValues>,
        mode: Mode,
    ) -> Result<Forward<'a>>;
}

fn no_graph() -> Error {
    Error::new(Code::BadSetting, "a model of one's own has no graph to export")
        .because("only canned models know theirs")
        .help("implement ModelFn::served, for a model of our layers by Served::of_model")
}

/// What an estimator can be made of: the settings of a canned model, or a [`ModelFn`].
pub trait IntoModel {
    /// The model.
    type Model: Trainable;

    /// Makes the model; `seed` is where everything random about it begins.
    ///
    /// # Errors
    /// When the settings do not fit.
    fn to_model(&self, seed: u64) -> Result<Self::Model>;
}

/// A model of one's own: a Burn module, its logits, and a [`Head`] that says what they are for.
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
    /// The Burn module; under parameter servers its parameters become variables by their path.
    type Module: Module;

    /// What the logits are for.
    fn head(&self) -> Head;

    /// The module at its start.
    ///
    /// # Errors
    /// When it cannot be made.
    fn module(&self, device: &Device) -> Result<Self::Module>;

    /// How gradients change the variables.
    fn optimizer(&self) -> Optimizer;

    /// `[rows, logits]` for a batch.
    ///
    /// # Errors
    /// When a column is missing or does not fit.
    fn logits(&self, module: &Self::Module, batch: &Batch, mode: Mode) -> Result<Tensor<2>>;

    /// The model as a graph of TensorFlow's ops, for exports; [`Served::of_model`] makes it of a model of our layers.
    ///
    /// # Errors
    /// When it cannot be said in such a graph; that is so unless a model says otherwise.
    fn served(&self, input: ServingInput) -> Result<Served> {
        let _ = input;
        Err(no_graph())
    }
}

/// A [`ModelFn`] as an estimator takes it.
pub struct OwnModel<F> {
    function: F,
    head: Head,
    optimizer: Optimizer,
}

impl<F: ModelFn> IntoModel for F {
    type Model = OwnModel<F>;

    fn to_model(&self, _seed: u64) -> Result<OwnModel<F>> {
        let (head, optimizer) = (self.head(), self.optimizer());
        head.check()?;
        Ok(OwnModel { function: self.clone(), head, optimizer })
    }
}

impl<F: ModelFn> Trainable for OwnModel<F> {
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
        Ok(Forward { logits, row_gradients: Box::new(|_| Ok(Vec::new())), drift: None })
    }
}
