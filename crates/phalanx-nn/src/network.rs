//! The trait of models that can be compiled and fitted.

use crate::model::{DynTensor, Mode, Model, NamedLayer};
use burn::module::Module;
use phalanx_base::Result;

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

    /// Returns the size of the last axis of each output, if it is known before anything is computed.
    fn output_widths(&self) -> Option<Vec<usize>> {
        None
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

    fn layer_names(&self) -> Vec<String> {
        // Keras does not list the input of a Sequential.
        let hidden = |placed: &&NamedLayer| self.form.style.sequential && placed.layer.is_none();
        self.form.layers.iter().filter(|placed| !hidden(placed)).map(|placed| placed.name.clone()).collect()
    }

    fn output_widths(&self) -> Option<Vec<usize>> {
        Some(self.form.outputs.iter().map(|&at| self.form.steps[at].dims.last().copied().unwrap_or(1)).collect())
    }
}

impl Model {
    fn names_of(&self, steps: &[usize]) -> Vec<String> {
        steps.iter().map(|&at| self.form.layers[self.form.steps[at].layer].name.clone()).collect()
    }
}
