//! SavedModels of models made of Phalanx's layers.

mod folder;
mod graph;

pub use folder::{Folder, is_free};
pub use graph::{ModelInput, activated, model_graph, model_inputs};
pub use phalanx_feature::GraphTensor;

use crate::fit::Compiled;
use phalanx_base::{Code, Context, Error, Result};
use phalanx_data::Batch;
use phalanx_formats::saved_model::{
    DEFAULT_SIGNATURE, GraphBuilder, SavedModel, SavedModelWriter, Signature, VariableValues,
};
use phalanx_nn::burn::module::Module;
use phalanx_nn::model::{Mode, Model};
use phalanx_ps::checkpoint::Checkpoint;
use phalanx_storage::Dir;
use std::collections::HashMap;
use std::path::Path;

impl Compiled<Model> {
    /// Writes the model as a SavedModel to a new folder, with the signature `serving_default`. As in Keras, inputs and
    /// outputs have the names of their layers. Preprocessing layers are part of it, so that it takes raw features.
    ///
    /// To check the export, its variables are read back and used to predict the batch `held`; the largest difference is
    /// written to `assets.extra/phalanx.json`.
    ///
    /// ```
    /// use phalanx_nn::model::{Dense, Sequential};
    /// use phalanx_optim::Sgd;
    /// use phalanx_train::fit::Compile;
    /// # let folder = tempfile::tempdir().unwrap();
    /// let model = Sequential::new().add(Dense::new(3)).build([4])?.compile(Sgd::new(0.1), "mse", ["mae"])?;
    /// model.export_saved_model(folder.path().join("model"), None)?;
    /// assert!(folder.path().join("model/saved_model.pb").exists());
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails if a layer has no TensorFlow graph, or the folder exists already or cannot be written.
    pub fn export_saved_model(&self, folder: impl AsRef<Path>, held: Option<&Batch>) -> Result<()> {
        let (folder, model) = (folder.as_ref(), self.module());
        is_free(folder)?;
        let mut graph = GraphBuilder::new();
        let mut signature = Signature::predict();
        let mut inputs = Vec::new();
        for input in model_inputs(model)? {
            let dims: Vec<Option<usize>> = std::iter::once(None).chain(input.dims.iter().copied().map(Some)).collect();
            let name = format!("{DEFAULT_SIGNATURE}_{}", input.name);
            let given = GraphTensor::placeholder(&mut graph, &name, input.dtype, &dims);
            signature = signature.input(&input.name, given);
            inputs.push(given);
        }
        let outputs = model_graph(&mut graph, model, &inputs)?;
        let nodes = model.nodes();
        for (&at, output) in nodes.outputs.iter().zip(outputs) {
            let (name, dims) = (&nodes.all[at].layer, nodes.all[at].dims.iter().copied().map(Some));
            let dims: Vec<Option<usize>> = std::iter::once(None).chain(dims).collect();
            signature = signature.output_of(name, output, &dims);
        }
        let weights: HashMap<String, Vec<f32>> =
            self.weights()?.into_iter().map(|weight| (weight.name, weight.values)).collect();
        let written = SavedModel::new(graph).signature(DEFAULT_SIGNATURE, signature);
        Folder::fill(folder, |temporary| {
            SavedModelWriter::new(Folder(temporary.to_owned())).write(written, |variable| {
                let values = weights.get(&variable.name).cloned().map(VariableValues::from);
                values.ok_or_else(|| Error::new(Code::Internal, format!("no weight {:?}", variable.name)))
            })?;
            let difference = held.map(|held| self.difference(temporary, held)).transpose()?;
            let (rows, difference) =
                (held.map_or(0, Batch::rows), difference.map_or("null".into(), |d| format!("{d:e}")));
            let manifest = format!(
                "{{\n  \"signatures\": [{DEFAULT_SIGNATURE:?}],\n  \"checked_rows\": {rows},\n  \
                 \"largest_difference\": {difference}\n}}\n"
            );
            let extra = temporary.join("assets.extra");
            std::fs::create_dir_all(&extra)
                .and_then(|()| std::fs::write(extra.join("phalanx.json"), manifest))
                .context(Code::StorageWrite, format!("{} cannot be written", extra.display()))
        })
    }

    /// Returns the largest difference between the predictions of the model and of the export's variables.
    fn difference(&self, folder: &Path, held: &Batch) -> Result<f32> {
        let checkpoint = Checkpoint::open(&Dir::local(folder.join("variables")), "variables")?;
        let own = self.module().clone().no_grad();
        let mut again = own.clone();
        for variable in own.variables() {
            again.set(&variable.name, checkpoint.tensors().read(&variable.name)?.f32s()?)?;
        }
        let inputs = self.inputs(held)?;
        let (one, other) = (own.call(inputs.clone(), Mode::Inference)?, again.call(inputs, Mode::Inference)?);
        let mut largest = 0.0_f32;
        for (one, other) in one.into_iter().zip(other) {
            let apart = one.numbers()?.into_iter().zip(other.numbers()?).map(|(a, b)| (a - b).abs());
            largest = apart.fold(largest, f32::max);
        }
        if largest > 1e-5 {
            return Err(Error::new(Code::Internal, "the export and the model predict differently")
                .because(format!("their outputs differ by {largest}")));
        }
        Ok(largest)
    }
}
