//! `Estimator`: trains, evaluates and predicts with a model in a run directory.

use crate::distribution::Distribution;
use crate::evaluation::{Evaluation, evaluate};
use crate::input::located;
use crate::trained::{TrainedModel, newest};
use crate::training::Trainer;
use crate::training_task::TrainingTask;
use crate::{Hook, IntoModel, RunConfig, TrainSteps, Trainable, Training};
use phalanx_base::{Code, Error, Result, Role};
use phalanx_data::{Batch, Dataset, DatasetIter, InputContext, ShardedBy};
use phalanx_nn::{Parameter, ParameterRegistry, Slots, default_device};
use phalanx_optim::{Optimizer, Sgd};
use phalanx_storage::Dir;
use phalanx_train::SummaryWriter;
use std::sync::Arc;

/// A model and its run directory, to train, evaluate, predict and export.
///
/// ```
/// use phalanx_data::{Batch, Column, Dataset};
/// use phalanx_estimator::{Estimator, LinearRegressor, RunConfig, TrainSteps};
/// use phalanx_feature::numeric_column;
/// # let folder = tempfile::tempdir().unwrap();
/// # let model_dir = folder.path().to_string_lossy().into_owned();
/// let rows = Batch::new([("x", Column::f32(vec![0.0, 1.0, 2.0])), ("y", Column::f32(vec![1.0, 3.0, 5.0]))])?;
/// let data = Dataset::from_tensor_slices(rows.with_label("y")?);
/// let estimator = Estimator::new(&LinearRegressor::new([numeric_column("x")]), RunConfig::new().model_dir(model_dir))?;
///
/// estimator.train(|_| data.clone().repeat().batch(3), TrainSteps::Max(300))?;
/// let found = estimator.evaluate(|_| data.clone().batch(3), None)?;
/// assert_eq!(found.global_step, 300);
/// assert!(found.get("average_loss").unwrap() < 0.1, "{found}");
/// let predicted = estimator.predict(|_| data.clone().batch(3))?.next().unwrap()?;
/// assert_eq!(predicted.f32("predictions")?.len(), 3);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
pub struct Estimator<M: Trainable> {
    pub(crate) model: Arc<M>,
    pub(crate) config: RunConfig,
    pub(crate) dir: Dir,
    /// The names of the dense variables.
    pub(crate) variables: Vec<String>,
}

impl<M: Trainable> Estimator<M> {
    /// Creates an estimator from the settings of a canned model, or from a [`ModelFn`](crate::ModelFn).
    ///
    /// # Errors
    /// Fails if the settings are invalid, or the run directory cannot be opened.
    pub fn new(model: &impl IntoModel<Model = M>, config: RunConfig) -> Result<Self> {
        let model = Arc::new(model.to_model(config.seed)?);
        let registry = ParameterRegistry::of(&model.module(&default_device())?)?;
        let variables = registry.parameters().iter().map(|parameter| parameter.name.clone()).collect();
        let dir = config.dir()?;
        Ok(Self { model, config, dir, variables })
    }

    /// Returns the parameters of a model in the order of its variables, with their optimizers. Moving averages come last; their
    /// gradients are their changes.
    pub(crate) fn planned(&self, registry: &ParameterRegistry) -> Result<Vec<(Parameter, Optimizer)>> {
        let trained = registry.parameters().iter();
        let trained = trained.map(|parameter| Ok((parameter.clone(), self.model.optimizer(&parameter.name)?)));
        let moving = registry.states().iter().map(|state| Ok((state.clone(), Sgd::new(1.0).into())));
        trained.chain(moving).collect()
    }

    /// Returns the location of the run directory.
    #[must_use]
    pub fn model_dir(&self) -> String {
        self.dir.location()
    }

    /// Returns the name of the newest checkpoint.
    ///
    /// # Errors
    /// Fails if the run directory cannot be read.
    pub fn latest_checkpoint(&self) -> Result<Option<String>> {
        newest(&self.dir)
    }

    /// Trains from the newest checkpoint, or from the start. In a cluster this task is one of the trainers.
    ///
    /// # Errors
    /// Fails if input or model are invalid, or the job fails.
    pub fn train(&self, input_fn: impl Fn(InputContext) -> Dataset, steps: TrainSteps) -> Result<Training> {
        self.train_with(input_fn, steps, &mut [])
    }

    /// As [`Self::train`], with hooks.
    ///
    /// # Errors
    /// As [`Self::train`]. Also fails if a hook does.
    pub fn train_with(
        &self,
        input_fn: impl Fn(InputContext) -> Dataset,
        steps: TrainSteps,
        hooks: &mut [Box<dyn Hook>],
    ) -> Result<Training> {
        if let Some(task) = self.config.task.task().filter(|task| matches!(task.role, Role::Ps | Role::Evaluator)) {
            return Err(Error::new(Code::BadSetting, format!("{task} does not train"))
                .help("call train_and_evaluate, which supports every role"));
        }
        let task = TrainingTask::start(&self.config)?;
        let trained = self.train_on(&task, &input_fn, steps, hooks, &mut |_| Ok(()));
        task.leave(trained.as_ref().err());
        trained
    }

    pub(crate) fn train_on(
        &self,
        task: &TrainingTask,
        input_fn: &dyn Fn(InputContext) -> Dataset,
        steps: TrainSteps,
        hooks: &mut [Box<dyn Hook>],
        on_saved: crate::training::OnSaved<'_>,
    ) -> Result<Training> {
        if matches!(steps, TrainSteps::More(0) | TrainSteps::Max(0)) {
            return Err(Error::new(Code::BadSetting, "a training of 0 steps").help("give at least 1"));
        }
        let cx = task.input_context()?;
        let data = input_fn(cx);
        data.check_batched()?;
        // What the input function has not shared among trainers is shared here.
        let (data, sharding) = data.shard_for(&cx)?;
        if sharding.by == ShardedBy::Blocks && task.workers.is_some() {
            return Err(Error::new(Code::BadSetting, "mirrored workers cannot share the input by blocks")
                .because("they step together, so none is free before the others")
                .help("share it by rows or by files, or train with parameter servers"));
        }
        if cx.num_input_pipelines > 1 {
            task.in_scope(|| tracing::info!("{sharding}"));
        }
        let slots = Slots::new(task.distribution.replicas())?;
        let mut own = self.model.hooks();
        let hooks = own.iter_mut().chain(hooks).collect();
        Trainer { estimator: self, task, hooks, on_saved, slots }.train(&data, steps)
    }

    /// Evaluates the newest checkpoint on `steps` batches, or on all, and writes the metrics to `eval/`.
    ///
    /// # Errors
    /// Fails if there is no checkpoint, or input and model do not fit.
    pub fn evaluate(
        &self,
        input_fn: impl Fn(InputContext) -> Dataset,
        steps: impl Into<Option<u64>>,
    ) -> Result<Evaluation> {
        let trained = self.load()?;
        self.evaluate_as(&trained, &input_fn, steps.into(), None)
    }

    /// As [`Self::evaluate`], but writes the metrics to `eval_NAME/`.
    ///
    /// # Errors
    /// As [`Self::evaluate`].
    pub fn evaluate_named(
        &self,
        name: &str,
        input_fn: impl Fn(InputContext) -> Dataset,
        steps: impl Into<Option<u64>>,
    ) -> Result<Evaluation> {
        let trained = self.load()?;
        self.evaluate_as(&trained, &input_fn, steps.into(), Some(name))
    }

    pub(crate) fn evaluate_as(
        &self,
        trained: &TrainedModel<M>,
        input_fn: &dyn Fn(InputContext) -> Dataset,
        steps: Option<u64>,
        name: Option<&str>,
    ) -> Result<Evaluation> {
        let data = input_fn(InputContext::default());
        data.check_batched()?;
        let replicas = Distribution::of_evaluation(self.config.eval_distribute.as_ref())?;
        let interrupt = &self.config.options.interrupt;
        let found = evaluate(trained, self.model.head(), &data, steps, replicas, interrupt);
        let found = found.map_err(|error| located(error, &*self.model, &data))?;
        let folder = eval_folder(name);
        let writer = SummaryWriter::open(&self.dir.child(&folder)?)?;
        for (name, value) in &found.metrics {
            writer.scalar(found.global_step, name, *value as f32);
        }
        writer.text(found.global_step, "checkpoint_path", &found.checkpoint);
        Ok(found)
    }

    /// Returns the predictions for every batch of an input, in columns with TensorFlow's names: `probabilities`,
    /// `class_ids`, `classes`, … or `predictions`.
    ///
    /// # Errors
    /// Fails if there is no checkpoint, or the input cannot be opened.
    pub fn predict(&self, input_fn: impl Fn(InputContext) -> Dataset) -> Result<Predictions<M>> {
        let data = input_fn(InputContext::default());
        data.check_batched()?;
        Ok(Predictions::new(Arc::new(self.load()?), Arc::clone(&self.model), data.iter()?))
    }

    /// Loads the newest checkpoint.
    pub(crate) fn load(&self) -> Result<TrainedModel<M>> {
        let name = self.latest_checkpoint()?.ok_or_else(|| {
            Error::new(Code::CheckpointMissing, "there is no trained model")
                .at(self.dir.location())
                .because("the directory has no checkpoint")
                .help("train the model first, or set the model_dir of an earlier training")
        })?;
        TrainedModel::load(&self.model, &self.dir, &name)
    }
}

/// Returns the folder of evaluations of this name.
pub(crate) fn eval_folder(name: Option<&str>) -> String {
    name.map_or_else(|| "eval".to_owned(), |name| format!("eval_{name}"))
}

/// An iterator over the predictions of each batch, made by [`Estimator::predict`].
pub struct Predictions<M: Trainable> {
    trained: Arc<TrainedModel<M>>,
    model: Arc<M>,
    batches: DatasetIter,
    carried: Vec<String>,
}

impl<M: Trainable> Predictions<M> {
    pub(crate) fn new(trained: Arc<TrainedModel<M>>, model: Arc<M>, batches: DatasetIter) -> Self {
        Self { trained, model, batches, carried: Vec::new() }
    }

    /// Carries columns of the input through, such as an id: the predictions of each batch begin with them.
    #[must_use]
    pub fn carrying<N: Into<String>>(self, columns: impl IntoIterator<Item = N>) -> Self {
        Self { carried: columns.into_iter().map(Into::into).collect(), ..self }
    }

    fn predict(&self, batch: &Batch) -> Result<Batch> {
        let predictions = self.model.head().predictions(self.trained.logits(batch)?)?;
        if self.carried.is_empty() {
            return Ok(predictions);
        }
        let names: Vec<&str> = self.carried.iter().map(String::as_str).collect();
        batch.select(&names)?.beside(&predictions)
    }
}

impl<M: Trainable> Iterator for Predictions<M> {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.batches.next()?;
        Some(batch.and_then(|batch| self.predict(&batch)))
    }
}
