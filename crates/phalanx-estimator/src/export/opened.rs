//! Opens exported models without TensorFlow.

use crate::evaluation::evaluate;
use crate::trained::TrainedModel;
use crate::{Estimator, Evaluation, Predictions, Trainable};
use phalanx_base::{Code, Context, Error, Result};
use phalanx_data::{Dataset, InputContext};
use phalanx_formats::saved_model::{VariableSpec, graph_variables};
use phalanx_nn::{ParameterRegistry, default_device};
use phalanx_ps::checkpoint::{Checkpoint, table_keys, table_values};
use phalanx_storage::Dir;
use phalanx_train::Interrupt;
use std::path::Path;
use std::sync::Arc;

/// The largest graph that is read, in bytes.
const LARGEST_GRAPH: u64 = 1 << 30;

/// An exported model with its variables; made by [`Estimator::open_export`].
pub struct Exported<M: Trainable> {
    pub(crate) trained: Arc<TrainedModel<M>>,
    pub(crate) model: Arc<M>,
}

impl<M: Trainable> Estimator<M> {
    /// Opens an export of this model. Its graph is not run: the estimator's own model is, with the variables of the
    /// export. So the graph must have exactly this model's variables, and `variables/` exactly the graph's, by name,
    /// type and shape.
    ///
    /// # Errors
    /// Fails if the folder is no export of this model.
    pub fn open_export(&self, folder: impl AsRef<Path>) -> Result<Exported<M>> {
        let folder = folder.as_ref();
        let place = folder.display().to_string();
        let graph = folder.join("saved_model.pb");
        let wrong = || format!("{} cannot be read", graph.display());
        let size = std::fs::metadata(&graph).context(Code::DataMissing, wrong())?.len();
        if size > LARGEST_GRAPH {
            return Err(Error::new(Code::DataFormat, wrong()).because(format!("it has {size} bytes")));
        }
        let bytes = std::fs::read(&graph).context(Code::DataMissing, wrong())?;
        let variables = graph_variables(&bytes).map_err(|error| error.at(graph.display().to_string()))?;
        let dir = Dir::local(folder.join("variables"));
        same_as_bundle(&variables, &Checkpoint::open(&dir, "variables")?).map_err(|error| error.at(place.clone()))?;
        self.same_as_model(&variables).map_err(|error| error.at(place))?;
        let trained = Arc::new(TrainedModel::load(&self.model, &dir, "variables")?);
        Ok(Exported { trained, model: Arc::clone(&self.model) })
    }

    fn same_as_model(&self, graph: &[VariableSpec]) -> Result<()> {
        let registry = ParameterRegistry::of(&self.model.module(&default_device())?)?;
        let dense = registry
            .parameters()
            .iter()
            .chain(registry.states())
            .map(|parameter| (parameter.name.clone(), parameter.shape.dims().to_vec()));
        let tables = self.model.tables().iter().flat_map(|table| {
            let (name, dim) = (&table.spec.name, table.spec.dim);
            if !table.is_growing() {
                return vec![(name.clone(), vec![table.rows, dim])];
            }
            // It has as many rows as were seen.
            let (keys, values) = (table_keys(name), table_values(name));
            let found = graph.iter().find(|variable| variable.name == keys).map_or(0, |keys| keys.shape.elements());
            vec![(keys, vec![found]), (values, vec![found, dim])]
        });
        let mut own: Vec<(String, Vec<usize>)> = dense.chain(tables).collect();
        let mut theirs: Vec<(String, Vec<usize>)> = graph
            .iter()
            .filter(|variable| variable.name != "global_step")
            .map(|variable| (variable.name.clone(), variable.shape.dims().to_vec()))
            .collect();
        own.sort();
        theirs.sort();
        // A weight may be a vector in one and a matrix in the other, so only the number of elements is compared.
        let count = |all: &[(String, Vec<usize>)]| -> Vec<(String, usize)> {
            all.iter().map(|(name, dims)| (name.clone(), dims.iter().product())).collect()
        };
        if count(&own) == count(&theirs) {
            return Ok(());
        }
        let only = |a: &[(String, Vec<usize>)], b: &[(String, Vec<usize>)]| {
            let b = count(b);
            let names: Vec<String> = a
                .iter()
                .filter(|(name, dims)| !b.contains(&(name.clone(), dims.iter().product())))
                .map(|(name, dims)| format!("{name} {dims:?}"))
                .collect();
            if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
        };
        Err(Error::new(Code::CheckpointMismatch, "the export is of another model")
            .because(format!("only the graph has {}; only the model has {}", only(&theirs, &own), only(&own, &theirs)))
            .help("build the model that was exported"))
    }
}

/// Fails unless graph and bundle have the same variables.
fn same_as_bundle(graph: &[VariableSpec], bundle: &Checkpoint) -> Result<()> {
    let tensors = bundle.index().tensors();
    let same = |variable: &&VariableSpec| {
        let info = tensors.get(&variable.name);
        info.is_some_and(|info| info.dtype == variable.dtype && info.shape == variable.shape)
    };
    let differs = graph.iter().find(|variable| !same(variable)).map(|variable| variable.name.clone());
    let extra = || tensors.keys().find(|name| graph.iter().all(|variable| variable.name != **name)).cloned();
    match differs.or_else(extra) {
        None => Ok(()),
        Some(name) => {
            Err(Error::new(Code::CheckpointMismatch, "the export's graph and variables belong to different models")
                .because(format!("they differ in {name:?}"))
                .help("export the model again; a file of the folder was replaced"))
        }
    }
}

impl<M: Trainable> Exported<M> {
    /// Returns the global step of the exported model.
    #[must_use]
    pub fn global_step(&self) -> u64 {
        self.trained.global_step
    }

    /// Evaluates `steps` batches of an input, or all.
    ///
    /// # Errors
    /// Fails if input and model do not fit.
    pub fn evaluate(
        &self,
        input_fn: impl Fn(InputContext) -> Dataset,
        steps: impl Into<Option<u64>>,
    ) -> Result<Evaluation> {
        let data = input_fn(InputContext::default());
        data.check_batched()?;
        evaluate(&self.trained, self.model.head(), &data, steps.into(), 1, &Interrupt::default())
    }

    /// Returns the predictions for every batch of an input, as [`Estimator::predict`] does.
    ///
    /// # Errors
    /// Fails if the input cannot be opened.
    pub fn predict(&self, input_fn: impl Fn(InputContext) -> Dataset) -> Result<Predictions<M>> {
        let data = input_fn(InputContext::default());
        data.check_batched()?;
        Ok(Predictions::new(Arc::clone(&self.trained), Arc::clone(&self.model), data.iter()?))
    }
}
