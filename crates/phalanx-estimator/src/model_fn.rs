//! Your own models: `model_fn` and `EstimatorSpec`.

use crate::model::no_graph;
use crate::{Head, Hook, IntoModel, Served, ServingInput, StepPart, Table, Trainable};
use phalanx_base::{Code, Error, Result, nearest};
use phalanx_data::Batch;
use phalanx_nn::burn::module::Module;
use phalanx_nn::burn::tensor::{Device, Gradients, Tensor};
use phalanx_nn::model::Mode;
use phalanx_nn::{HostBuffer, ParameterRegistry, Rows, default_device};
use phalanx_optim::Optimizer;
use phalanx_train::{RowValues, StepGradients};
use std::sync::Arc;

/// What a model needs besides its logits: TensorFlow's `EstimatorSpec`.
///
/// A [`Head`] has the loss, the metrics and the predictions; [`Head::own`], [`Head::loss_fn`], [`Head::add_metric`] and
/// [`Head::predictions_fn`] replace them by your own.
///
/// ```
/// use phalanx_estimator::{EstimatorSpec, Head, Table};
/// use phalanx_optim::{Adagrad, Adam, Sgd};
/// let spec = EstimatorSpec::new(Head::classes(2), Adam::new(1e-3))
///     .optimizer_of("bias", Sgd::new(0.01))
///     .table(Table::embedding("user", 100_000, 8, Adagrad::new(0.1)));
/// # let _ = spec;
/// ```
#[derive(Clone)]
pub struct EstimatorSpec {
    head: Head,
    optimizer: Optimizer,
    optimizers: Vec<(String, Optimizer)>,
    tables: Vec<Table>,
    hooks: Vec<Arc<dyn Fn() -> Box<dyn Hook> + Send + Sync>>,
}

impl EstimatorSpec {
    /// A model with this head, whose variables this optimizer updates.
    #[must_use]
    pub fn new(head: Head, optimizer: impl Into<Optimizer>) -> Self {
        let (optimizers, tables, hooks) = (Vec::new(), Vec::new(), Vec::new());
        Self { head, optimizer: optimizer.into(), optimizers, tables, hooks }
    }

    /// Sets the optimizer of the variable of this name.
    #[must_use]
    pub fn optimizer_of(mut self, variable: impl Into<String>, optimizer: impl Into<Optimizer>) -> Self {
        self.optimizers.push((variable.into(), optimizer.into()));
        self
    }

    /// Adds a table of rows by id, which [`ModelFn::ids`] looks up by its name.
    #[must_use]
    pub fn table(mut self, table: Table) -> Self {
        self.tables.push(table);
        self
    }

    /// Adds a hook to every training: the `training_hooks` of TensorFlow's `EstimatorSpec`. `make` is called for each.
    #[must_use]
    pub fn training_hook<H: Hook + 'static>(mut self, make: impl Fn() -> H + Send + Sync + 'static) -> Self {
        self.hooks.push(Arc::new(move || Box::new(make())));
        self
    }

    fn check(&self) -> Result<()> {
        self.head.check()?;
        let optimizers = self.optimizers.iter().map(|(_, optimizer)| optimizer).chain([&self.optimizer]);
        optimizers.chain(self.tables.iter().map(|table| &table.spec.optimizer)).try_for_each(Optimizer::validate)?;
        for (at, table) in self.tables.iter().enumerate() {
            let name = &table.spec.name;
            if self.tables[..at].iter().any(|other| other.spec.name == *name) {
                return Err(Error::new(Code::BadSetting, format!("two tables are called {name:?}"))
                    .at("EstimatorSpec")
                    .help("rename one"));
            }
        }
        Ok(())
    }
}

/// A batch with the rows of its ids. It dereferences to the [`Batch`].
#[derive(Clone, Copy)]
pub struct ModelInput<'a> {
    batch: &'a Batch,
    /// The names of the tables that were looked up, with their rows.
    rows: &'a [(&'a str, Rows)],
}

impl ModelInput<'_> {
    /// Returns the rows of the ids that [`ModelFn::ids`] looked up in this table.
    ///
    /// # Errors
    /// Fails if none were.
    pub fn rows_of(&self, table: &str) -> Result<&Rows> {
        self.rows.iter().find(|(name, _)| *name == table).map(|(_, rows)| rows).ok_or_else(|| {
            let error = Error::new(Code::NoSuchVariable, format!("no rows of the table {table:?} were looked up"));
            match nearest(table, self.rows.iter().map(|(name, _)| *name)) {
                Some(near) => error.help(format!("did you mean {near:?}?")),
                None => error.help("return its ids from ModelFn::ids"),
            }
        })
    }
}

impl std::ops::Deref for ModelInput<'_> {
    type Target = Batch;

    fn deref(&self) -> &Batch {
        self.batch
    }
}

/// Your own model: a Burn module, its logits, and an [`EstimatorSpec`].
///
/// ```
/// use phalanx_estimator::{EstimatorSpec, Head, ModelFn, ModelInput};
/// use phalanx_nn::burn::{nn::{Linear, LinearConfig}, tensor::{Device, Tensor, TensorData}};
/// use phalanx_nn::model::Mode;
/// use phalanx_optim::Sgd;
///
/// #[derive(Clone)]
/// struct Line;
///
/// impl ModelFn for Line {
///     type Module = Linear;
///     fn spec(&self) -> EstimatorSpec { EstimatorSpec::new(Head::regression(1), Sgd::new(0.1)) }
///     fn module(&self, device: &Device) -> phalanx_base::Result<Linear> { Ok(LinearConfig::new(1, 1).init(device)) }
///     fn logits(&self, module: &Linear, batch: &ModelInput<'_>, _: Mode) -> phalanx_base::Result<Tensor<2>> {
///         let x = batch.f32("x")?.to_vec();
///         let shape = [x.len(), 1];
///         Ok(module.forward(Tensor::from_data(TensorData::new(x, shape), &module.weight.device())))
///     }
/// }
/// ```
pub trait ModelFn: Clone + Send + Sync + 'static {
    /// The Burn module. On parameter servers, its parameters are variables named by their path.
    type Module: Module;

    /// Returns the head, the optimizers, the tables and the hooks.
    fn spec(&self) -> EstimatorSpec;

    /// Creates and initializes the module.
    ///
    /// # Errors
    /// Fails if it cannot be created.
    fn module(&self, device: &Device) -> Result<Self::Module>;

    /// Returns the ids that a batch looks up, each list with the name of its table.
    ///
    /// # Errors
    /// Fails if a column is missing or does not fit.
    fn ids(&self, batch: &Batch) -> Result<Vec<(&str, Vec<i64>)>> {
        let _ = batch;
        Ok(Vec::new())
    }

    /// Returns `[rows, logits]` for a batch.
    ///
    /// # Errors
    /// Fails if a column is missing or does not fit.
    fn logits(&self, module: &Self::Module, batch: &ModelInput<'_>, mode: Mode) -> Result<Tensor<2>>;

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
    spec: EstimatorSpec,
}

/// A batch of a [`ModelFn`] and its ids, each list with the number of its table.
pub struct CustomInput {
    batch: Batch,
    ids: Vec<(usize, Vec<i64>)>,
}

impl<F: ModelFn> IntoModel for F {
    type Model = CustomModel<F>;

    fn to_model(&self, _seed: u64) -> Result<CustomModel<F>> {
        let spec = self.spec();
        spec.check()?;
        Ok(CustomModel { function: self.clone(), spec })
    }
}

impl<F: ModelFn> Trainable for CustomModel<F> {
    type Module = F::Module;
    type Input = CustomInput;

    fn head(&self) -> &Head {
        &self.spec.head
    }

    fn module(&self, device: &Device) -> Result<F::Module> {
        self.function.module(device)
    }

    fn optimizer(&self, variable: &str) -> Result<Optimizer> {
        let own = self.spec.optimizers.iter().find(|(name, _)| name == variable);
        Ok(own.map_or(self.spec.optimizer, |(_, optimizer)| *optimizer))
    }

    fn tables(&self) -> &[Table] {
        &self.spec.tables
    }

    fn hooks(&self) -> Vec<Box<dyn Hook>> {
        self.spec.hooks.iter().map(|make| make()).collect()
    }

    fn served(&self, input: ServingInput) -> Result<Served> {
        self.function.served(input)
    }

    fn input(&self, batch: &Batch) -> Result<CustomInput> {
        let mut ids: Vec<(usize, Vec<i64>)> = Vec::new();
        for (name, own) in self.function.ids(batch)? {
            let tables = || self.spec.tables.iter().map(|table| table.spec.name.as_str());
            let table = tables().position(|known| known == name).ok_or_else(|| {
                let error = Error::new(Code::NoSuchVariable, format!("the model has no table {name:?}"));
                match nearest(name, tables()) {
                    Some(near) => error.help(format!("did you mean {near:?}?")),
                    None => error.help("add it: EstimatorSpec::table"),
                }
            })?;
            let rows = self.spec.tables[table].rows as i64;
            if let Some(id) = own.iter().find(|id| !(0..rows).contains(*id)) {
                return Err(Error::new(Code::DataRow, format!("the table {name:?} has no row {id}"))
                    .because(format!("its ids are 0 to {}", rows - 1))
                    .help("give the table more rows, or map such ids to others"));
            }
            if ids.iter().any(|(known, _)| *known == table) {
                return Err(Error::new(Code::BadSetting, format!("the table {name:?} is looked up twice"))
                    .at("ModelFn::ids")
                    .help("join its ids to one list, and divide the rows of the lookup"));
            }
            ids.push((table, own));
        }
        Ok(CustomInput { batch: batch.clone(), ids })
    }

    fn ids<'a>(&self, input: &'a CustomInput) -> Vec<(usize, &'a [i64])> {
        input.ids.iter().map(|(table, ids)| (*table, ids.as_slice())).collect()
    }

    fn step(
        &self,
        module: &F::Module,
        registry: &ParameterRegistry,
        part: StepPart<'_, CustomInput>,
    ) -> Result<StepGradients> {
        let StepPart { input, rows, seed, targets, share } = part;
        let forward = |module: &F::Module| {
            let rows = self.rows(input, rows, Rows::new, &device(module));
            let logits = self.function.logits(module, &input.with(&rows), Mode::Training { seed })?;
            let mut loss = self.spec.head.batch_loss(logits, targets)?;
            if share != 1.0 && self.spec.head.sums_losses() {
                // A sum over rows counts fully, whatever their share is.
                loss = loss / share;
            }
            let of_rows =
                move |gradients: &mut Gradients| rows.iter().map(|(_, rows)| rows.gradients(gradients)).collect();
            Ok((loss, of_rows))
        };
        StepGradients::compute(registry, module, forward)
    }

    fn logits(&self, module: &F::Module, input: &CustomInput, rows: Vec<RowValues>) -> Result<Vec<f32>> {
        let rows = self.rows(input, rows, Rows::fixed, &device(module));
        HostBuffer::of(self.function.logits(module, &input.with(&rows), Mode::Inference)?).map(Vec::from)
    }
}

impl<F> CustomModel<F> {
    /// Returns the rows that were looked up, with the names of their tables.
    fn rows(
        &self,
        input: &CustomInput,
        rows: Vec<RowValues>,
        make: impl Fn(Vec<f32>, usize, &[u32], &Device) -> Rows,
        device: &Device,
    ) -> Vec<(&str, Rows)> {
        let looked_up = |((table, _), of): (&(usize, Vec<i64>), RowValues)| {
            (self.spec.tables[*table].spec.name.as_str(), make(of.values, of.dim, &of.positions, device))
        };
        input.ids.iter().zip(rows).map(looked_up).collect()
    }
}

impl CustomInput {
    fn with<'a>(&'a self, rows: &'a [(&'a str, Rows)]) -> ModelInput<'a> {
        ModelInput { batch: &self.batch, rows }
    }
}

fn device<M: Module>(module: &M) -> Device {
    module.devices().into_iter().next().unwrap_or_else(default_device)
}
