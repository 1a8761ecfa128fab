//! What a layer is.

use super::graph::{Inputs, Symbol};
use super::op::Op;
use super::{Initializer, Value, Weights};
use phalanx_base::{Code, Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Whether a model learns or answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Dropout passes everything, normalization uses its moving averages.
    Inference,
    /// Dropout drops, normalization uses the batch and moves its averages.
    Training {
        /// Decides what is dropped: another one for every step.
        seed: u64,
    },
}

/// Which layer it is, and what it is called. Clones are the same layer: they share their weights.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    calls: Arc<AtomicUsize>,
    name: Option<Arc<str>>,
}

impl Identity {
    /// Sets the name; without one the model makes one from the layer's kind.
    pub fn rename(&mut self, name: &str) {
        self.name = Some(name.into());
    }

    /// The name that was given.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Whether both are the same layer.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.calls, &other.calls)
    }

    pub(crate) fn count_call(&self) -> usize {
        self.calls.fetch_add(1, Ordering::Relaxed)
    }
}

/// A weight that a layer needs.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightPlan {
    /// Its name inside the layer, `kernel`.
    pub name: &'static str,
    /// Its extents, at most four.
    pub dims: Vec<usize>,
    /// What it starts as.
    pub initializer: Initializer,
    /// Whether it learns; one that does not is a moving average and has one axis.
    pub trainable: bool,
}

impl WeightPlan {
    /// A weight that learns.
    #[must_use]
    pub fn new(name: &'static str, dims: impl Into<Vec<usize>>, initializer: Initializer) -> Self {
        Self { name, dims: dims.into(), initializer, trainable: true }
    }

    /// A moving average.
    #[must_use]
    pub fn moving(name: &'static str, length: usize, initializer: Initializer) -> Self {
        Self { name, dims: vec![length], initializer, trainable: false }
    }
}

/// What a layer makes of given inputs.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The extents of its output, without the batch.
    pub output: Vec<usize>,
    /// The weights it needs.
    pub weights: Vec<WeightPlan>,
}

impl Plan {
    /// An output without weights.
    #[must_use]
    pub fn output(output: impl Into<Vec<usize>>) -> Self {
        Self { output: output.into(), weights: Vec::new() }
    }
}

/// A layer: a description that can be called, planned and computed. Implement it for layers of your own.
pub trait Layer: std::fmt::Debug + Send + Sync + 'static {
    /// Which layer it is.
    fn identity(&self) -> &Identity;

    /// Its type as a summary shows it, `Conv2D`.
    fn kind(&self) -> &'static str;

    /// The output's extents and the weights, from the inputs' extents; none of them with the batch.
    ///
    /// # Errors
    /// When the layer cannot take such inputs. The model adds the layer's name.
    fn plan(&self, inputs: &[Vec<usize>]) -> Result<Plan>;

    /// The output for a batch. The inputs have the planned extents and the weights are in the order of the plan.
    ///
    /// # Errors
    /// When a value cannot be computed with.
    fn forward(&self, inputs: Vec<Value>, weights: &Weights<'_>, mode: Mode) -> Result<Value>;

    /// What it does, for whoever writes a model in another form; `None` for what no other form knows.
    fn op(&self) -> Option<Op> {
        None
    }

    /// Puts the layer into a graph, after one symbol or several. Called again it shares its weights.
    fn call<'a>(&self, inputs: impl Into<Inputs<'a>>) -> Symbol
    where
        Self: Sized + Clone,
    {
        Symbol::after(Arc::new(self.clone()), inputs.into())
    }
}

/// The one input of a layer that takes one.
pub(crate) fn only<T>(inputs: impl IntoIterator<Item = T>) -> Result<T> {
    let mut inputs = inputs.into_iter();
    match (inputs.next(), inputs.next()) {
        (Some(input), None) => Ok(input),
        _ => Err(Error::new(Code::ShapeMismatch, "the layer takes exactly one input")
            .help("join several with Concatenate or Add first")),
    }
}

/// Extents as an error shows them, the batch first.
pub(crate) fn shown(dims: &[usize]) -> String {
    let dims: Vec<String> = std::iter::once("None".to_owned()).chain(dims.iter().map(usize::to_string)).collect();
    format!("[{}]", dims.join(", "))
}

/// An input of the wrong extents: both are shown.
pub(crate) fn mismatch(expected: &str, found: &[usize]) -> Error {
    Error::new(Code::ShapeMismatch, format!("an input of shape {expected} is needed, this one has {}", shown(found)))
}

/// The parts of [`Layer`] that are the same for all of ours, and the builder for the name.
macro_rules! layer_basics {
    ($kind:ident) => {
        impl $kind {
            /// Gives the layer a name of its own.
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

/// The settings of a layer with a kernel, on one that has the fields `activation`, `bias` and the two initializers.
macro_rules! kernel_settings {
    ($kind:ident) => {
        impl $kind {
            /// Sets the function of the outputs; linear unless set.
            #[must_use]
            pub fn activation(mut self, activation: $crate::model::Function) -> Self {
                self.activation = activation;
                self
            }

            /// Whether there is a bias; there is unless set.
            #[must_use]
            pub fn use_bias(mut self, bias: bool) -> Self {
                self.bias = bias;
                self
            }

            /// Sets what the kernel starts as; `glorot_uniform` unless set.
            #[must_use]
            pub fn kernel_initializer(mut self, initializer: $crate::model::Initializer) -> Self {
                self.kernel_initializer = initializer;
                self
            }

            /// Sets what the bias starts as; zeros unless set.
            #[must_use]
            pub fn bias_initializer(mut self, initializer: $crate::model::Initializer) -> Self {
                self.bias_initializer = initializer;
                self
            }
        }
    };
}

/// The settings of a layer with a field `window`, which moves by `$stride` unless set.
macro_rules! window_settings {
    ($kind:ident, $stride:literal) => {
        impl $kind {
            #[doc = concat!("Sets how far a window is from the next; ", $stride, " unless set.")]
            #[must_use]
            pub fn strides(mut self, strides: [usize; 2]) -> Self {
                self.window.stride = strides;
                self
            }

            /// Sets what happens at the borders; valid unless set.
            #[must_use]
            pub fn padding(mut self, padding: $crate::model::Padding) -> Self {
                self.window.padding = padding;
                self
            }
        }
    };
}
pub(crate) use {kernel_settings, layer_basics, window_settings};
