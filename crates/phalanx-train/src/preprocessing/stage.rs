//! The preprocessing of a model: from the columns of a batch to its inputs.

use super::layer::function;
use phalanx_base::{Code, Error, Result};
use phalanx_data::{Batch, Column};
use phalanx_feature::PreprocessingLayer;
use phalanx_nn::Network;
use phalanx_nn::burn::tensor::Device;
use phalanx_nn::model::{DynTensor, HostInput};
use std::borrow::Cow;
use std::sync::Arc;

/// The preprocessing layers of a model. `fit`, `evaluate` and `predict` apply them; custom training loops, and pipelines that
/// preprocess on their own, do it here.
///
/// ```
/// use phalanx_data::{Batch, Column};
/// use phalanx_feature::StringLookup;
/// use phalanx_nn::model::{Input, Layer, Model};
/// use phalanx_train::{Preprocess, Preprocessing};
/// let features = Input::texts("features", [1]);
/// let ids = Preprocess::new(StringLookup::new().vocabulary(["a", "b"])?).call(&features);
/// let preprocessing = Preprocessing::of(&Model::new(&features, &ids)?)?;
/// let batch = Batch::new([("features", Column::text(["b", "z"]))])?;
/// assert_eq!(preprocessing.columns(&batch)?[0].as_i64()?, [2, 0]);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Preprocessing {
    inputs: Vec<HostInput>,
    calls: Vec<PreprocessingCall>,
    /// The values that the model takes, numbered from the first input to the last call.
    outputs: Vec<usize>,
}

/// A call of a layer.
#[derive(Clone, Debug)]
struct PreprocessingCall {
    /// The name of the layer in the model.
    name: String,
    layer: Arc<dyn PreprocessingLayer>,
    input: usize,
}

impl Preprocessing {
    /// Returns the preprocessing of a model.
    ///
    /// # Errors
    /// Fails if the model has no preprocessing layers, or a layer on the host is no [`Preprocess`](super::Preprocess).
    pub fn of<M: Network>(model: &M) -> Result<Self> {
        Self::find(model)?.ok_or_else(|| {
            Error::new(Code::BadSetting, "the model has no preprocessing layers")
                .help("its inputs are columns of the batch: batch.tensor(…)")
        })
    }

    /// Returns the preprocessing of a model that has any.
    pub(crate) fn find<M: Network>(model: &M) -> Result<Option<Self>> {
        let Some(graph) = model.host_graph() else { return Ok(None) };
        let mut calls = Vec::with_capacity(graph.calls.len());
        for call in graph.calls {
            let &[input] = call.inputs.as_slice() else {
                return Err(Error::new(Code::Internal, "a preprocessing layer takes one input"));
            };
            calls.push(PreprocessingCall { layer: Arc::clone(function(&*call.layer)?), name: call.name, input });
        }
        Ok(Some(Self { inputs: graph.inputs, calls, outputs: graph.outputs }))
    }

    /// Returns the columns that the model takes, made of the columns of a batch that have the names of its inputs.
    ///
    /// # Errors
    /// Fails if a column is missing, or a layer does not accept its values.
    pub fn columns(&self, batch: &Batch) -> Result<Vec<Column>> {
        let raw = self.inputs.iter().map(|input| batch.column(&input.name).map(Cow::Borrowed));
        let made = self.apply(raw.collect::<Result<_>>()?)?;
        Ok(made.into_iter().map(Cow::into_owned).collect())
    }

    /// Returns the tensors that the model takes, as [`Self::columns`] does.
    ///
    /// # Errors
    /// As [`Self::columns`].
    pub fn tensors(&self, batch: &Batch, device: &Device) -> Result<Vec<DynTensor>> {
        self.columns(batch)?.iter().map(|column| crate::batch_tensors::dynamic(column, device)).collect()
    }

    /// Computes the layers on the columns of the inputs.
    pub(crate) fn apply<'a>(&self, raw: Vec<Cow<'a, Column>>) -> Result<Vec<Cow<'a, Column>>> {
        let mut values = Vec::with_capacity(raw.len() + self.calls.len());
        for (column, input) in raw.into_iter().zip(&self.inputs) {
            values.push(shaped(column, input).map_err(|error| error.at(format!("input {:?}", input.name)))?);
        }
        for call in &self.calls {
            let made = call.layer.call(&values[call.input]);
            let made = made.map_err(|error| error.at(format!("layer {:?} ({})", call.name, call.layer.kind())))?;
            values.push(Cow::Owned(made));
        }
        Ok(self.outputs.iter().map(|&at| values[at].clone()).collect())
    }
}

/// Gives rows of as many values the shape of the input: one value per row may be a row of one.
fn shaped<'a>(column: Cow<'a, Column>, input: &HostInput) -> Result<Cow<'a, Column>> {
    if column.is_ragged() {
        return Err(Error::new(Code::DataColumn, "a model takes rows of one shape, and these differ in length")
            .help("use padded_batch, or apply the layer to the dataset with map"));
    }
    if column.row_shape() == input.dims {
        return Ok(column);
    }
    if column.width() != input.dims.iter().product::<usize>() {
        return Err(Error::new(Code::ShapeMismatch, format!("rows of shape {:?} were given", column.row_shape()))
            .because(format!("the input has the shape {:?}", input.dims)));
    }
    column.into_owned().with_row_shape(input.dims.clone()).map(Cow::Owned)
}
