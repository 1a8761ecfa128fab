//! The functions, datasets and resources that steps use, by name.

use super::StepContext;
use phalanx_base::{Code, Error, Result, nearest};
use phalanx_cluster::schedule::StepEffect;
use phalanx_data::{Dataset, InputContext};
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A step: it may run again on another worker, and its update counts once.
pub(super) type StepFunction<M> = Arc<dyn Fn(&mut StepContext<'_, M>) -> Result<Vec<f64>> + Send + Sync>;

/// Creates a worker's share of a dataset.
pub(super) type DatasetFunction = Arc<dyn Fn(&InputContext) -> Result<Dataset> + Send + Sync>;

/// Creates a worker's resource.
pub(super) type ResourceFunction = Arc<dyn Fn(&InputContext) -> Result<Box<dyn Any>> + Send + Sync>;

/// The registry of a program's step functions, datasets and resources. No code crosses the wire: every task runs the same
/// program and registers the same names, and the coordinator schedules a function by its name.
///
/// ```
/// use phalanx_data::Dataset;
/// use phalanx_nn::burn::nn::Linear;
/// use phalanx_train::StepFunctions;
/// let steps = StepFunctions::<Linear>::new()
///     .dataset("numbers", |cx| Ok(Dataset::range(0, 100, 1).shard(*cx).repeat().batch(10)))
///     .step("count", |cx| Ok(vec![cx.next("numbers")?.rows() as f64]));
/// # let _ = steps;
/// ```
pub struct StepFunctions<M> {
    functions: BTreeMap<String, (StepEffect, StepFunction<M>)>,
    datasets: BTreeMap<String, DatasetFunction>,
    resources: BTreeMap<String, ResourceFunction>,
}

impl<M> Default for StepFunctions<M> {
    fn default() -> Self {
        Self { functions: BTreeMap::new(), datasets: BTreeMap::new(), resources: BTreeMap::new() }
    }
}

impl<M> Clone for StepFunctions<M> {
    fn clone(&self) -> Self {
        let (functions, datasets) = (self.functions.clone(), self.datasets.clone());
        Self { functions, datasets, resources: self.resources.clone() }
    }
}

impl<M> StepFunctions<M> {
    /// Creates an empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a function that changes the model. What it returns is the step's result.
    #[must_use]
    pub fn step(
        mut self,
        name: &str,
        function: impl Fn(&mut StepContext<'_, M>) -> Result<Vec<f64>> + Send + Sync + 'static,
    ) -> Self {
        self.functions.insert(name.to_owned(), (StepEffect::Update, Arc::new(function)));
        self
    }

    /// Adds a function that does not change the model, such as a part of an evaluation.
    #[must_use]
    pub fn evaluation(
        mut self,
        name: &str,
        function: impl Fn(&mut StepContext<'_, M>) -> Result<Vec<f64>> + Send + Sync + 'static,
    ) -> Self {
        self.functions.insert(name.to_owned(), (StepEffect::Nothing, Arc::new(function)));
        self
    }

    /// Adds a dataset that every worker creates for itself: TensorFlow's `create_per_worker_dataset`. The function gets the index
    /// and the number of workers, and shards the dataset; otherwise every worker reads all of it.
    #[must_use]
    pub fn dataset(
        mut self,
        name: &str,
        function: impl Fn(&InputContext) -> Result<Dataset> + Send + Sync + 'static,
    ) -> Self {
        self.datasets.insert(name.to_owned(), Arc::new(function));
        self
    }

    /// Adds a value that every worker creates for itself on first use.
    #[must_use]
    pub fn resource<T: Any>(
        mut self,
        name: &str,
        function: impl Fn(&InputContext) -> Result<T> + Send + Sync + 'static,
    ) -> Self {
        let boxed = move |cx: &InputContext| Ok(Box::new(function(cx)?) as Box<dyn Any>);
        self.resources.insert(name.to_owned(), Arc::new(boxed));
        self
    }

    pub(super) fn function(&self, name: &str) -> Result<&(StepEffect, StepFunction<M>)> {
        self.functions.get(name).ok_or_else(|| unknown("step", name, self.functions.keys()))
    }

    pub(super) fn resource_function(&self, name: &str) -> Result<&ResourceFunction> {
        self.resources.get(name).ok_or_else(|| unknown("resource", name, self.resources.keys()))
    }

    pub(super) fn dataset_function(&self, name: &str) -> Result<&DatasetFunction> {
        self.datasets.get(name).ok_or_else(|| unknown("dataset", name, self.datasets.keys()))
    }
}

fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a String>) -> Error {
    let known: Vec<&str> = known.map(String::as_str).collect();
    let error = Error::new(Code::BadSetting, format!("no {what} is registered as {name:?}"));
    match nearest(name, known.iter().copied()) {
        Some(near) => error.help(format!("did you mean {near:?}?")),
        None => error.help(format!("register it in StepFunctions; there are {known:?}")),
    }
}
