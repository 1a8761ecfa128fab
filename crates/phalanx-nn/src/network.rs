//! The trait of models that can be compiled and fitted.

use crate::model::{DynTensor, HostGraph, Mode, Model, ModelTable, NamedLayer, RowSource};
use burn::module::Module;
use phalanx_base::Result;
use std::sync::Arc;

/// A Burn module that maps inputs to outputs: a [`Model`], or your own `#[derive(Module)]` type, which is what Keras calls
/// subclassing.
///
/// ```
/// use phalanx_nn::burn::{self, module::Module, nn::{Linear, LinearConfig}, tensor::Tensor};
/// use phalanx_nn::model::{Error, Mode, DynTensor};
/// use phalanx_nn::Network;
///
/// #[derive(Module, Debug)]
/// struct Line {
///     dense: Linear,
/// }
///
/// impl Network for Line {
///     fn call(&self, mut inputs: Vec<DynTensor>, _: Mode) -> Result<Vec<DynTensor>, Error> {
///         let x: Tensor<2> = inputs.remove(0).tensor()?;
///         Ok(vec![self.dense.forward(x).into()])
///     }
/// }
/// let line = Line { dense: LinearConfig::new(3, 1).init(&phalanx_nn::default_device()) };
/// let x = Tensor::<2>::ones([4, 3], &phalanx_nn::default_device());
/// assert_eq!(line.call(vec![x.into()], Mode::Inference)?[0].dims(), [4, 1]);
/// # Ok::<(), Error>(())
/// ```
pub trait Network: Module {
    /// Returns the outputs for a batch.
    ///
    /// # Errors
    /// If an input has the wrong shape or type.
    fn call(&self, inputs: Vec<DynTensor>, mode: Mode) -> Result<Vec<DynTensor>>;

    /// Returns the names of the inputs, if they have any: they then select the columns of the data.
    fn input_names(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the names of the outputs, which distinguish the losses and metrics of several outputs.
    fn output_names(&self) -> Vec<String> {
        vec!["output".to_owned()]
    }

    /// Returns the names of the layers in Keras' order, including those without weights; empty for a module without
    /// layers. The weight `dense/kernel` belongs to layer `dense`. Checkpoints of models with layers have Keras' format.
    fn layer_names(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the preprocessing layers of the model, which make the arguments of [`call`](Self::call) of columns of data;
    /// `None` if those are the columns themselves.
    fn host_graph(&self) -> Option<HostGraph> {
        None
    }

    /// Returns the size of the last axis of each output, if it is known before anything is computed.
    fn output_widths(&self) -> Option<Vec<usize>> {
        None
    }

    /// Returns the tables of which a batch needs some rows. A strategy with parameter servers keeps their rows there. A module
    /// has none unless it says so: its embeddings are variables.
    fn tables(&self) -> Vec<ModelTable> {
        Vec::new()
    }

    /// Returns the ids that a batch has for each table of [`Self::tables`], in the order in which the model looks them
    /// up. There are none while the model has its tables itself.
    ///
    /// # Errors
    /// If an id is not in its table.
    fn table_ids(&self, inputs: &[DynTensor]) -> Result<Vec<Vec<i64>>> {
        let _ = inputs;
        Ok(Vec::new())
    }

    /// Returns the values of each table that has other values here than its first ones.
    ///
    /// # Errors
    /// If they are not 32-bit floats.
    fn table_values(&self) -> Result<Vec<Option<Vec<f32>>>> {
        Ok(Vec::new())
    }

    /// Returns the model without its tables: it looks their rows up in `source`. Without a source it cannot compute.
    #[must_use]
    fn with_rows(self, source: Option<Arc<dyn RowSource>>) -> Self {
        let _ = source;
        self
    }
}

impl Network for Model {
    fn call(&self, inputs: Vec<DynTensor>, mode: Mode) -> Result<Vec<DynTensor>> {
        Self::call(self, inputs, mode)
    }

    fn input_names(&self) -> Vec<String> {
        self.names_of(&self.form.inputs)
    }

    fn output_names(&self) -> Vec<String> {
        self.names_of(&self.form.outputs)
    }

    fn host_graph(&self) -> Option<HostGraph> {
        Some(Self::host_graph(self)).filter(|graph| !graph.calls.is_empty())
    }

    fn layer_names(&self) -> Vec<String> {
        // Keras does not list the input of a Sequential.
        let hidden = |placed: &&NamedLayer| self.form.style.sequential && placed.layer.is_none();
        self.form.layers.iter().filter(|placed| !hidden(placed)).map(|placed| placed.name.clone()).collect()
    }

    fn output_widths(&self) -> Option<Vec<usize>> {
        Some(self.form.outputs.iter().map(|&at| self.form.steps[at].dims.last().copied().unwrap_or(1)).collect())
    }

    fn tables(&self) -> Vec<ModelTable> {
        self.all_tables()
    }

    fn table_ids(&self, inputs: &[DynTensor]) -> Result<Vec<Vec<i64>>> {
        self.ids_of(inputs)
    }

    fn table_values(&self) -> Result<Vec<Option<Vec<f32>>>> {
        self.created_tables()
    }

    fn with_rows(self, source: Option<Arc<dyn RowSource>>) -> Self {
        self.looking_up(source)
    }
}

impl Model {
    fn names_of(&self, steps: &[usize]) -> Vec<String> {
        steps.iter().map(|&at| self.form.layers[self.form.steps[at].layer].name.clone()).collect()
    }
}
