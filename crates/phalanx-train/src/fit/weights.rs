//! Weights in files: TensorFlow checkpoints and safetensors.

use super::Compiled;
use crate::run_dir;
use phalanx_base::{Code, Error, Result, Shape};
use phalanx_formats::bundle::{BundleIndex, BundleReader, BundleWriter, CheckpointState, data_file, index_file};
use phalanx_formats::object_graph::{KerasLayer, KerasWeights, OBJECT_GRAPH_KEY, read_keras_weights};
use phalanx_formats::safetensors::{SafeTensors, SafeTensorsWriter};
use phalanx_nn::model::ModelTable;
use phalanx_nn::{HostBuffer, Network};
use phalanx_ps::checkpoint::Files;
use phalanx_storage::Dir;

/// The largest index and the largest safetensors file that are read, in bytes.
const INDEX: u64 = 256 << 20;
const FILE: u64 = 64 << 30;

/// A named tensor of a model or its optimizer.
#[derive(Clone, Debug, PartialEq)]
pub struct Weight {
    /// `dense/kernel`.
    pub name: String,
    /// Its shape.
    pub shape: Shape,
    /// Its values, row-major.
    pub values: Vec<f32>,
}

impl<M: Network> Compiled<M> {
    /// Returns the weights of the model, including moving averages. With parameter servers, all rows of its tables are fetched.
    ///
    /// # Errors
    /// Fails if they are not 32-bit floats, or the rows of a table cannot be fetched.
    pub fn weights(&self) -> Result<Vec<Weight>> {
        let (registry, module) = (&self.model.registry, self.module());
        let listed = registry.parameters().iter().chain(registry.states());
        let values = registry.values(module)?.into_iter().chain(registry.state_values(module)?);
        let weight = |(parameter, values): (&phalanx_nn::Parameter, HostBuffer)| Weight {
            name: parameter.name.clone(),
            shape: parameter.shape.clone(),
            values: values.into(),
        };
        let mut weights: Vec<Weight> = listed.zip(values).map(weight).collect();
        for (table, weight) in self.table_weights()?.into_iter().enumerate() {
            let values = self.model.tables.values(table)?;
            weights.insert(self.model.tables.specs()[table].place, Weight { values, ..weight });
        }
        Ok(weights)
    }

    /// Returns the names and shapes of the tables on parameter servers.
    fn table_weights(&self) -> Result<Vec<Weight>> {
        let weight = |table: &ModelTable| {
            let shape = Shape::new(vec![table.rows, table.dim])?;
            Ok(Weight { name: table.name.clone(), shape, values: Vec::new() })
        };
        self.model.tables.specs().iter().map(weight).collect()
    }

    /// Returns the weights of the model without their values.
    fn without_values(&self) -> Result<Vec<Weight>> {
        let listed = self.model.registry.parameters().iter().chain(self.model.registry.states());
        let weight = |parameter: &phalanx_nn::Parameter| Weight {
            name: parameter.name.clone(),
            shape: parameter.shape.clone(),
            values: Vec::new(),
        };
        let mut weights: Vec<Weight> = listed.map(weight).collect();
        weights.extend(self.table_weights()?);
        Ok(weights)
    }

    /// Replaces weights by name and leaves the others. Every worker must do the same.
    ///
    /// # Errors
    /// Fails if the model has no such weight, or one of another shape.
    pub fn set_weights(&mut self, weights: Vec<Weight>) -> Result<()> {
        let registry = self.model.registry.clone();
        let learning = registry.parameters().len();
        let listed: Vec<_> = registry.parameters().iter().chain(registry.states()).collect();
        let mut values: Vec<Option<Vec<f32>>> = vec![None; listed.len()];
        let tables: Vec<String> = self.model.tables.specs().iter().map(|table| table.name.clone()).collect();
        for weight in weights {
            if let Some(table) = tables.iter().position(|name| *name == weight.name) {
                self.model.set_table(table, &weight.shape, weight.values)?;
                continue;
            }
            let at = listed.iter().position(|known| known.name == weight.name).ok_or_else(|| {
                Error::new(Code::NoSuchVariable, format!("the model has no weight {:?}", weight.name)).help(format!(
                    "it has {}",
                    listed.iter().map(|known| &known.name).chain(&tables).cloned().collect::<Vec<_>>().join(", ")
                ))
            })?;
            if listed[at].shape != weight.shape || weight.values.len() != weight.shape.elements() {
                let what = format!("weight {:?} has shape {}", weight.name, listed[at].shape);
                return Err(Error::new(Code::ShapeMismatch, what).because(format!("it was given {}", weight.shape)));
            }
            values[at] = Some(weight.values);
        }
        let states = values.split_off(learning);
        let old = self.model.state_values()?;
        let states = states.into_iter().zip(old).map(|(new, old)| new.unwrap_or(old)).collect();
        self.model.change(|module| Ok(registry.load_states(registry.load(module, values), states)))
    }

    /// Saves the weights: as a safetensors file if `location` ends in `.safetensors`, else as a TensorFlow checkpoint of
    /// that prefix. Keras' `load_weights` reads those of models made of Phalanx's layers. As in Keras, a file `checkpoint`
    /// beside it names the newest. Only the first of several workers saves.
    ///
    /// # Errors
    /// Fails if the files cannot be written.
    pub fn save_weights(&self, location: &str) -> Result<()> {
        if !self.strategy().should_checkpoint() {
            return Ok(());
        }
        let (dir, name) = dir_and_name(location)?;
        dir.create_all()?;
        let weights = self.weights()?;
        if name.ends_with(".safetensors") {
            return write_safetensors(&dir, &name, &weights);
        }
        let data = data_file(&name, 0, 1);
        let layers = self.module().layer_names();
        let (staged, index) = if layers.is_empty() {
            stage_bundle(&dir, &data, &weights, &[], &[])?
        } else {
            let mut file = dir.stage(&data)?;
            let (_, index) = KerasWeights::new(keras_layers(&layers, &weights)).write(&mut file)?;
            (file.finish()?.name, index)
        };
        dir.remove(&index_file(&name))?;
        dir.publish(&staged, &data)?;
        dir.write(&index_file(&name), &index.to_bytes()?)?;
        let state = CheckpointState { latest: Some(name.clone()), all: vec![name], ..CheckpointState::default() };
        dir.write("checkpoint", state.to_string().as_bytes())
    }

    /// Loads weights written by [`Self::save_weights`] or Keras. Every worker reads them.
    ///
    /// # Errors
    /// Fails if the files cannot be read, or lack a weight of the model in its shape.
    pub fn load_weights(&mut self, location: &str) -> Result<()> {
        let at = |error: Error| error.at(location.to_owned());
        let (dir, name) = dir_and_name(location)?;
        let wanted = self.without_values()?;
        let read = if name.ends_with(".safetensors") {
            read_safetensors(&dir, &name, wanted)
        } else {
            let index = dir.read(&index_file(&name), INDEX)?;
            let index = BundleIndex::parse(&index)?;
            let shards = index.shards();
            let files = Files::open(&dir, (0..shards).map(|shard| data_file(&name, shard, shards)))?;
            let reader = BundleReader::new(index, files)?;
            if reader.index().tensors().contains_key(OBJECT_GRAPH_KEY) {
                read_keras(&reader, &self.module().layer_names(), wanted)
            } else {
                let read = |weight: Weight| {
                    let tensor = reader.read(&weight.name)?;
                    Ok(Weight { shape: Shape::new(tensor.shape.dims().to_vec())?, values: tensor.f32s()?, ..weight })
                };
                wanted.into_iter().map(read).collect()
            }
        };
        self.set_weights(read.map_err(at)?).map_err(at)
    }
}

/// Splits a location into the directory and the name within it.
fn dir_and_name(location: &str) -> Result<(Dir, String)> {
    let (parent, name) = location.rsplit_once('/').unwrap_or((".", location));
    if name.is_empty() {
        return Err(Error::new(Code::BadSetting, format!("{location:?} names no checkpoint"))
            .help("give the prefix of its files, for example runs/weights"));
    }
    Ok((run_dir::open_run_dir(if parent.is_empty() { "/" } else { parent })?, name.to_owned()))
}

fn keras_layers<'a>(layers: &[String], weights: &'a [Weight]) -> Vec<KerasLayer<'a>> {
    let of = |layer: &String| {
        let own = weights.iter().filter_map(|weight| {
            let (of, attribute) = weight.name.rsplit_once('/')?;
            (of == layer).then_some((attribute, weight))
        });
        own.fold(KerasLayer::new(layer.clone()), |layer, (attribute, weight)| {
            layer.weight(attribute, &weight.shape, &weight.values)
        })
    };
    layers.iter().map(of).collect()
}

/// Reads Keras' weights by the position of their layer, since Keras' names depend on what the process built before.
fn read_keras(reader: &BundleReader<Files>, layers: &[String], wanted: Vec<Weight>) -> Result<Vec<Weight>> {
    let found = read_keras_weights(reader)?;
    let read = |weight: Weight| {
        let (layer, attribute) = weight.name.rsplit_once('/').unwrap_or(("", &weight.name));
        let at = layers.iter().position(|name| name == layer);
        let theirs = found.iter().find(|theirs| Some(theirs.layer) == at && theirs.attribute == attribute);
        let theirs = theirs.ok_or_else(|| {
            Error::new(Code::CheckpointMismatch, format!("the checkpoint has no weight {:?}", weight.name))
                .because(format!("layer {at:?} of the saved model has no weight of that name"))
                .help("build the same model that was saved")
        })?;
        let shape = Shape::new(theirs.tensor.shape.dims().to_vec())?;
        Ok(Weight { shape, values: theirs.tensor.f32s()?, ..weight })
    };
    wanted.into_iter().map(read).collect()
}

fn write_safetensors(dir: &Dir, name: &str, weights: &[Weight]) -> Result<()> {
    let mut writer = SafeTensorsWriter::new();
    weights.iter().try_for_each(|weight| writer.add_f32s(&weight.name, &weight.shape, &weight.values))?;
    let mut file = dir.stage(name)?;
    writer.write(&mut file)?;
    dir.publish(&file.finish()?.name, name)
}

fn read_safetensors(dir: &Dir, name: &str, wanted: Vec<Weight>) -> Result<Vec<Weight>> {
    let bytes = dir.read(name, FILE)?;
    let file = SafeTensors::parse(&bytes)?;
    let read = |weight: Weight| {
        let tensor = file.get(&weight.name)?;
        Ok(Weight { shape: tensor.shape.clone(), values: tensor.f32s()?, ..weight })
    };
    wanted.into_iter().map(read).collect()
}

/// Writes tensors, integer vectors and strings into a staged data file. Returns its staged name and the index.
pub(super) fn stage_bundle(
    dir: &Dir,
    data: &str,
    tensors: &[Weight],
    numbers: &[(String, Vec<i64>)],
    strings: &[(String, &[u8])],
) -> Result<(String, BundleIndex)> {
    let mut file = dir.stage(data)?;
    let mut bundle = BundleWriter::new(&mut file);
    tensors.iter().try_for_each(|tensor| bundle.add_f32s(&tensor.name, &tensor.shape, &tensor.values))?;
    for (name, row) in numbers {
        // TensorFlow's counters are scalars.
        let shape = if row.len() == 1 { Shape::new(vec![])? } else { Shape::new(vec![row.len()])? };
        bundle.add_i64s(name, &shape, row)?;
    }
    strings.iter().try_for_each(|(name, bytes)| bundle.add_strings(name, &Shape::new(vec![])?, [bytes]))?;
    let (_, index) = bundle.finish()?;
    Ok((file.finish()?.name, index))
}
