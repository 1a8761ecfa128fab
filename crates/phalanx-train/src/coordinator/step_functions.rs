//! The steps, datasets, resources and metrics of a program.

use super::StepContext;
use super::codec::{decode, encode};
use super::handle::{DatasetHandle, Handle, MetricHandle, RegistryId, ResourceHandle, StepHandle};
use bytes::Bytes;
use phalanx_base::{Code, Error, Result};
use phalanx_cluster::schedule::StepEffect;
use phalanx_data::{Dataset, InputContext};
use phalanx_nn::metrics::Metric;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::any::{Any, TypeId, type_name};
use std::panic::Location;
use std::sync::Arc;

/// A step, from encoded argument to encoded result. It may run again on another worker, and its update counts once.
type RunStep<M> = Arc<dyn Fn(&mut StepContext<'_, M>, &[u8]) -> Result<Bytes> + Send + Sync>;

/// Creates a worker's share of a dataset.
type CreateDataset = Arc<dyn Fn(&InputContext) -> Result<Dataset> + Send + Sync>;

/// Creates a worker's resource.
type CreateResource = Arc<dyn Fn(&InputContext) -> Result<Box<dyn Any>> + Send + Sync>;

pub(super) struct RegisteredStep<M> {
    pub(super) name: String,
    pub(super) effect: StepEffect,
    pub(super) run: RunStep<M>,
    /// The types of its argument and its result.
    types: [TypeId; 2],
}

/// Something with the name that messages use.
#[derive(Clone)]
pub(super) struct Named<F> {
    pub(super) name: String,
    pub(super) create: F,
}

/// The registry of a program's steps, and of the datasets, resources and metrics that they use. Every registration returns
/// a typed handle.
///
/// No code crosses the wire: every task runs the same program and registers the same things in the same order, and the
/// coordinator schedules a step by its position. A worker that has registered something else is refused.
///
/// ```
/// use phalanx_data::Dataset;
/// use phalanx_nn::burn::nn::Linear;
/// use phalanx_train::StepFunctions;
/// let mut steps = StepFunctions::<Linear>::new();
/// let numbers = steps.dataset(|cx| Ok(Dataset::range(0, 100, 1).shard(*cx).repeat().batch(10)));
/// let count = steps.evaluation(move |cx, (): ()| Ok(cx.next(&numbers)?.rows()));
/// # let _ = count;
/// ```
pub struct StepFunctions<M> {
    id: RegistryId,
    steps: Vec<RegisteredStep<M>>,
    datasets: Vec<Named<CreateDataset>>,
    resources: Vec<Named<CreateResource>>,
    metrics: Vec<Arc<dyn Metric>>,
}

impl<M> Default for StepFunctions<M> {
    fn default() -> Self {
        let (steps, datasets, resources, metrics) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { id: RegistryId::default(), steps, datasets, resources, metrics }
    }
}

impl<M> Clone for RegisteredStep<M> {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), effect: self.effect, run: Arc::clone(&self.run), types: self.types }
    }
}

impl<M> Clone for StepFunctions<M> {
    /// Shares the functions; handles of one are handles of the other.
    fn clone(&self) -> Self {
        Self {
            id: self.id.clone(),
            steps: self.steps.clone(),
            datasets: self.datasets.clone(),
            resources: self.resources.clone(),
            metrics: self.metrics.clone(),
        }
    }
}

impl<M> StepFunctions<M> {
    /// Creates an empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a step that changes the model. Its argument and its result are any serde types,
    /// [`HostTensor`](crate::HostTensor) among them. Messages name it after the function, or after the line of a closure.
    #[track_caller]
    pub fn register<A, R, F>(&mut self, step: F) -> StepHandle<A, R>
    where
        A: DeserializeOwned + 'static,
        R: Serialize + 'static,
        F: Fn(&mut StepContext<'_, M>, A) -> Result<R> + Send + Sync + 'static,
    {
        let name = name_of::<F>();
        self.register_as(&name, step)
    }

    /// Registers a step as [`Self::register`] does, under this name in messages.
    pub fn register_as<A, R, F>(&mut self, name: &str, step: F) -> StepHandle<A, R>
    where
        A: DeserializeOwned + 'static,
        R: Serialize + 'static,
        F: Fn(&mut StepContext<'_, M>, A) -> Result<R> + Send + Sync + 'static,
    {
        self.add(name, StepEffect::Update, step)
    }

    /// Registers a step that does not change the model, such as a part of an evaluation.
    #[track_caller]
    pub fn evaluation<A, R, F>(&mut self, step: F) -> StepHandle<A, R>
    where
        A: DeserializeOwned + 'static,
        R: Serialize + 'static,
        F: Fn(&mut StepContext<'_, M>, A) -> Result<R> + Send + Sync + 'static,
    {
        let name = name_of::<F>();
        self.evaluation_as(&name, step)
    }

    /// Registers a step as [`Self::evaluation`] does, under this name in messages.
    pub fn evaluation_as<A, R, F>(&mut self, name: &str, step: F) -> StepHandle<A, R>
    where
        A: DeserializeOwned + 'static,
        R: Serialize + 'static,
        F: Fn(&mut StepContext<'_, M>, A) -> Result<R> + Send + Sync + 'static,
    {
        self.add(name, StepEffect::Nothing, step)
    }

    fn add<A, R, F>(&mut self, name: &str, effect: StepEffect, step: F) -> StepHandle<A, R>
    where
        A: DeserializeOwned + 'static,
        R: Serialize + 'static,
        F: Fn(&mut StepContext<'_, M>, A) -> Result<R> + Send + Sync + 'static,
    {
        let run: RunStep<M> =
            Arc::new(move |cx, argument| encode("its result", &step(cx, decode("its argument", argument)?)?));
        let types = [TypeId::of::<A>(), TypeId::of::<R>()];
        self.steps.push(RegisteredStep { name: name.to_owned(), effect, run, types });
        self.id.handle(self.steps.len() - 1)
    }

    /// Registers a dataset that every worker creates for itself: TensorFlow's `create_per_worker_dataset`. The function gets
    /// the index and the number of workers, and shards the dataset; otherwise every worker reads all of it.
    #[track_caller]
    pub fn dataset(
        &mut self,
        create: impl Fn(&InputContext) -> Result<Dataset> + Send + Sync + 'static,
    ) -> DatasetHandle {
        self.datasets.push(Named { name: called_from(), create: Arc::new(create) });
        self.id.handle(self.datasets.len() - 1)
    }

    /// Registers a value that every worker creates for itself on first use: TensorFlow's `PerWorkerValues`.
    #[track_caller]
    pub fn resource<T: Any>(
        &mut self,
        create: impl Fn(&InputContext) -> Result<T> + Send + Sync + 'static,
    ) -> ResourceHandle<T> {
        let boxed = move |cx: &InputContext| Ok(Box::new(create(cx)?) as Box<dyn Any>);
        self.resources.push(Named { name: called_from(), create: Arc::new(boxed) });
        self.id.handle(self.resources.len() - 1)
    }

    /// Registers a metric that steps update with [`StepContext::update`]. The chief reads it with
    /// [`Coordinator::result`](super::Coordinator::result); every step counts once, even if it ran on several workers
    /// because one was lost.
    pub fn metric(&mut self, metric: impl Metric + 'static) -> MetricHandle {
        self.metrics.push(Arc::new(metric));
        self.id.handle(self.metrics.len() - 1)
    }

    pub(super) fn step(&self, index: usize) -> Result<&RegisteredStep<M>> {
        self.steps.get(index).ok_or_else(|| {
            Error::new(Code::BadMessage, format!("there is no step number {index}"))
                .because(format!("this task has registered {}", self.steps.len()))
        })
    }

    pub(super) fn index<K: ?Sized>(&self, handle: &Handle<K>) -> Result<usize> {
        self.id.index(handle)
    }

    /// Returns the step of this name and these types.
    pub(super) fn find<A: 'static, R: 'static>(&self, name: &str) -> Option<StepHandle<A, R>> {
        let types = [TypeId::of::<A>(), TypeId::of::<R>()];
        let index = self.steps.iter().position(|step| step.name == name && step.types == types)?;
        Some(self.id.handle(index))
    }

    pub(super) fn datasets(&self) -> &[Named<CreateDataset>] {
        &self.datasets
    }

    pub(super) fn resources(&self) -> &[Named<CreateResource>] {
        &self.resources
    }

    pub(super) fn metrics(&self) -> impl Iterator<Item = &dyn Metric> {
        self.metrics.iter().map(|metric| &**metric)
    }

    /// Describes everything that was registered, in order: the same on every task of a job.
    pub(super) fn describe(&self) -> Vec<String> {
        let steps = self.steps.iter().map(|step| match step.effect {
            StepEffect::Update => format!("step {}", step.name),
            StepEffect::Nothing => format!("evaluation {}", step.name),
        });
        let datasets = self.datasets.iter().map(|dataset| format!("dataset of {}", dataset.name));
        let resources = self.resources.iter().map(|resource| format!("resource of {}", resource.name));
        let metrics = self.metrics().map(|metric| format!("metric {}", metric.name()));
        steps.chain(datasets).chain(resources).chain(metrics).collect()
    }
}

/// Returns the name of a function, or where a closure was registered.
#[track_caller]
fn name_of<F>() -> String {
    let name = type_name::<F>();
    if name.contains("{closure") {
        return called_from();
    }
    let name = name.split('<').next().unwrap_or(name);
    name.rsplit("::").next().unwrap_or(name).to_owned()
}

#[track_caller]
fn called_from() -> String {
    let at = Location::caller();
    format!("{}:{}", at.file(), at.line())
}
