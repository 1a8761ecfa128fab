//! The trait of layers.

use super::graph::{Inputs, Symbol};
use super::op::Op;
use super::{DynTensor, Initializer, Weights};
use phalanx_base::{Code, Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Whether a model is trained or used for inference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Dropout is disabled, normalization uses its moving averages.
    Inference,
    /// Dropout is enabled, normalization uses the batch and updates its moving averages.
    Training {
        /// The seed of dropout, which should differ in every step.
        seed: u64,
    },
}

/// The identity and the name of a layer. Clones are the same layer and share its weights.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    calls: Arc<AtomicUsize>,
    name: Option<Arc<str>>,
}

impl Identity {
    /// Sets the name. By default, the model derives one from the layer's kind.
    pub fn rename(&mut self, name: &str) {
        self.name = Some(name.into());
    }

    /// Returns the name, if one was set.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns whether both are the same layer.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.calls, &other.calls)
    }

    pub(crate) fn count_call(&self) -> usize {
        self.calls.fetch_add(1, Ordering::Relaxed)
    }
}

/// A weight of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightPlan {
    /// Its name within the layer, such as `kernel`.
    pub name: &'static str,
    /// Its shape, with at most four axes.
    pub dims: Vec<usize>,
    /// Its initial values.
    pub initializer: Initializer,
    /// Whether it is trained; otherwise it is a moving average, which has one axis.
    pub trainable: bool,
    /// Whether it is the only weight of a layer that returns the row of each id of its only input, and nothing else. A
    /// strategy may then keep its rows elsewhere, and give the model those that a batch needs.
    pub looked_up: bool,
}

impl WeightPlan {
    /// Returns a trainable weight.
    #[must_use]
    pub fn new(name: &'static str, dims: impl Into<Vec<usize>>, initializer: Initializer) -> Self {
        Self { name, dims: dims.into(), initializer, trainable: true, looked_up: false }
    }

    /// Returns a table, of which the layer only looks up rows.
    #[must_use]
    pub fn table(name: &'static str, dims: [usize; 2], initializer: Initializer) -> Self {
        Self { looked_up: true, ..Self::new(name, dims, initializer) }
    }

    /// Returns a moving average.
    #[must_use]
    pub fn moving(name: &'static str, length: usize, initializer: Initializer) -> Self {
        Self { name, dims: vec![length], initializer, trainable: false, looked_up: false }
    }
}

/// The output shape and the weights of a layer for given inputs.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The shape of its output, without the batch.
    pub output: Vec<usize>,
    /// The weights.
    pub weights: Vec<WeightPlan>,
}

impl Plan {
    /// Returns a plan without weights.
    #[must_use]
    pub fn output(output: impl Into<Vec<usize>>) -> Self {
        Self { output: output.into(), weights: Vec::new() }
    }
}

/// A layer, which can be called, planned and computed. Implement it for your own layers.
pub trait Layer: std::fmt::Debug + Send + Sync + 'static {
    /// Returns the identity of the layer.
    fn identity(&self) -> &Identity;

    /// Returns the type as shown in summaries, such as `Conv2D`.
    fn kind(&self) -> &'static str;

    /// Returns the output shape and the weights for inputs of these shapes, all without the batch.
    ///
    /// # Errors
    /// If the layer does not accept such inputs. The model adds the layer's name.
    fn plan(&self, inputs: &[Vec<usize>]) -> Result<Plan>;

    /// Returns the output for a batch. The inputs have the planned shapes and the weights are in the order of the plan.
    ///
    /// # Errors
    /// If an input has a wrong type or value.
    fn forward(&self, inputs: Vec<DynTensor>, weights: &Weights<'_>, mode: Mode) -> Result<DynTensor>;

    /// Returns the function that computes the layer on the host, before there are tensors, if it is such a layer: it takes
    /// raw columns of data, texts among them. What it returns is up to the crate that reads data; [`Model::call`] takes
    /// the layer's output as an input and never calls [`forward`](Self::forward).
    ///
    /// [`Model::call`]: super::Model::call
    fn on_host(&self) -> Option<&(dyn std::any::Any + Send + Sync)> {
        None
    }

    /// Returns the operation for exports to other formats, `None` if there is no equivalent.
    fn op(&self) -> Option<Op> {
        None
    }

    /// Adds a call of the layer to a graph. All calls of a layer share its weights.
    fn call<'a>(&self, inputs: impl Into<Inputs<'a>>) -> Symbol
    where
        Self: Sized + Clone,
    {
        Symbol::after(Arc::new(self.clone()), inputs.into())
    }
}

/// The input of a layer that takes exactly one.
pub(crate) fn only<T>(inputs: impl IntoIterator<Item = T>) -> Result<T> {
    let mut inputs = inputs.into_iter();
    match (inputs.next(), inputs.next()) {
        (Some(input), None) => Ok(input),
        _ => Err(Error::new(Code::ShapeMismatch, "the layer takes exactly one input")
            .help("join several with Concatenate or Add first")),
    }
}

/// A shape for messages, starting with the batch.
pub(crate) fn shown(dims: &[usize]) -> String {
    let dims: Vec<String> = std::iter::once("None".to_owned()).chain(dims.iter().map(usize::to_string)).collect();
    format!("[{}]", dims.join(", "))
}

/// An error about the shape of an input.
pub(crate) fn mismatch(expected: &str, found: &[usize]) -> Error {
    Error::new(Code::ShapeMismatch, format!("an input of shape {expected} is needed, this one has {}", shown(found)))
}

/// The methods of [`Layer`] that all our layers share, and the setter of the name.
macro_rules! layer_basics {
    ($kind:ident) => {
        impl $kind {
            /// Sets the name of the layer.
            #[must_use]
            pub fn name(mut self, name: &str) -> Self {
                self.identity.rename(name);
                self
            }
        }
    };
    (parts $kind:ident) => {
        fn identity(&self) -> &$crate::model::Identity {
            &self.identity
        }

        fn kind(&self) -> &'static str {
            stringify!($kind)
        }
    };
}

/// The settings of a layer with the fields `activation`, `bias`, `kernel_initializer` and `bias_initializer`.
macro_rules! kernel_settings {
    ($kind:ident) => {
        impl $kind {
            setters! {
                /// Sets the activation function. The default is linear.
                activation: $crate::model::Function => activation;
                /// Sets whether to add a bias. The default is true.
                use_bias: bool => bias;
                /// Sets the initializer of the kernel. The default is `glorot_uniform`.
                kernel_initializer: $crate::model::Initializer => kernel_initializer;
                /// Sets the initializer of the bias. The default is zeros.
                bias_initializer: $crate::model::Initializer => bias_initializer;
            }
        }
    };
}

/// The settings of a layer with the field `window`, whose default stride is `$stride`.
macro_rules! window_settings {
    ($kind:ident, $stride:literal) => {
        impl $kind {
            setters! {
                #[doc = concat!("Sets the stride of the windows. The default is ", $stride, ".")]
                strides: [usize; 2] => window.stride;
                /// Sets the padding. The default is valid.
                padding: $crate::model::Padding => window.padding;
            }
        }
    };
}
pub(crate) use {kernel_settings, layer_basics, window_settings};
