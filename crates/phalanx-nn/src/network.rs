//! What can be compiled and fitted.

use crate::model::{Mode, Model, Placed, Value};
use burn::module::Module;
use phalanx_base::Result;

/// A Burn module that makes outputs of inputs: a [`Model`] of ours, or any `#[derive(Module)]` of yours, which is what
/// Keras calls subclassing.
///
/// ```
/// use phalanx_nn::burn::{self, module::Module, nn::{Linear, LinearConfig}, tensor::Tensor};
/// use phalanx_nn::model::{Error, Mode, Value};
/// use phalanx_nn::Network;
///
/// #[derive(Module, Debug)]
/// struct Line {
///     dense: Linear,
/// }
///
/// impl Network for Line {
///     fn call(&self, mut inputs: Vec<Value>, _: Mode) -> Result<Vec<Value>, Error> {
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
    /// The outputs for a batch.
    ///
    /// # Errors
    /// When an input cannot be computed with.
    fn call(&self, inputs: Vec<Value>, mode: Mode) -> Result<Vec<Value>>;

    /// What the inputs are called, where they have names: columns of the data are then found by them.
    fn input_names(&self) -> Vec<String> {
        Vec::new()
    }

    /// What the outputs are called: the losses and metrics of several outputs are told apart by it.
    fn output_names(&self) -> Vec<String> {
        vec!["output".to_owned()]
    }

    /// What the layers are called, in Keras' order, those without weights included; empty where there are no layers. A
    /// weight `dense/kernel` is one of layer `dense`. Checkpoints of such models are those of Keras.
    fn layer_names(&self) -> Vec<String> {
        Vec::new()
    }

    /// How many numbers the last axis of each output has, where that is known before anything is computed.
    fn output_widths(&self) -> Option<Vec<usize>> {
        None
    }
}

impl Network for Model {
    fn call(&self, inputs: Vec<Value>, mode: Mode) -> Result<Vec<Value>> {
        Self::call(self, inputs, mode)
    }

    fn input_names(&self) -> Vec<String> {
        self.names_of(&self.form.inputs)
    }

    fn output_names(&self) -> Vec<String> {
        self.names_of(&self.form.outputs)
    }

    fn layer_names(&self) -> Vec<String> {
        // Keras hides the input of a Sequential.
        let hidden = |placed: &&Placed| self.form.style.sequential && placed.layer.is_none();
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
