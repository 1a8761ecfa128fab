//! The layers of `phalanx.keras`, and models of them.

use crate::data_sources::no_such;
use phalanx::layers::{
    Activation, Add, Average, AveragePooling2D, BatchNormalization, Concatenate, Conv2D, Dense, Dot, Dropout,
    Embedding, Flatten, GlobalAveragePooling2D, Input, Layer, LayerNormalization, MaxPooling2D, Maximum, Minimum,
    Multiply, Padding, Reshape, Subtract,
};
use phalanx::model::{Function, Model, Sequential, Symbol};
use phalanx_base::{Code, Error, Result};
use pyo3::prelude::*;
use std::collections::HashMap;

/// A layer: its class in Keras, its name if it has one of its own, its sizes, its number, its activation, and whether its padding
/// is `same`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct LayerOf {
    kind: String,
    name: Option<String>,
    sizes: Vec<isize>,
    rate: f64,
    activation: String,
    same: bool,
}

/// A model: a list of layers, or the calls of layers that lead from inputs to outputs.
#[derive(FromPyObject)]
pub(crate) enum ModelOf {
    #[pyo3(transparent)]
    Sequential(SequentialOf),
    #[pyo3(transparent)]
    Functional(FunctionalOf),
}

/// A list of layers, and the shape of a row of the input.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct SequentialOf {
    layers: Vec<LayerOf>,
    input_shape: Vec<usize>,
}

/// Layers, their calls in order, and which calls are inputs and outputs.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct FunctionalOf {
    layers: Vec<LayerOf>,
    calls: Vec<CallOf>,
    inputs: Vec<usize>,
    outputs: Vec<usize>,
}

/// An input of a shape and a name, or the call of a layer with the outputs of other calls.
#[derive(FromPyObject)]
enum CallOf {
    Input(Vec<usize>, Option<String>),
    Layer(usize, Vec<usize>),
}

/// What is done with a layer, of whichever type.
trait Use {
    type Output;
    fn with<L: Layer + Clone>(self, layer: L) -> Self::Output;
}

/// Appends the layer to a model.
struct Append(Sequential);

impl Use for Append {
    type Output = Sequential;
    fn with<L: Layer + Clone>(self, layer: L) -> Sequential {
        self.0.add(layer)
    }
}

/// Calls a layer; all its calls share its weights.
type Caller = Box<dyn Fn(&[Symbol]) -> Symbol>;

struct Call;

impl Use for Call {
    type Output = Caller;
    fn with<L: Layer + Clone>(self, layer: L) -> Caller {
        Box::new(move |inputs| layer.call(inputs))
    }
}

/// The names that `no_such` compares with.
const KINDS: [&str; 20] = [
    "Dense",
    "Activation",
    "Dropout",
    "Embedding",
    "Flatten",
    "Reshape",
    "BatchNormalization",
    "LayerNormalization",
    "Conv2D",
    "MaxPooling2D",
    "AveragePooling2D",
    "GlobalAveragePooling2D",
    "Add",
    "Subtract",
    "Multiply",
    "Average",
    "Maximum",
    "Minimum",
    "Concatenate",
    "Dot",
];

impl LayerOf {
    /// Returns a size; layers are made with as many as they have.
    fn size(&self, at: usize) -> usize {
        self.sizes.get(at).copied().unwrap_or(0).max(0).cast_unsigned()
    }

    fn pair(&self, at: usize) -> [usize; 2] {
        [self.size(at), self.size(at + 1)]
    }

    fn padding(&self) -> Padding {
        if self.same { Padding::Same } else { Padding::Valid }
    }

    fn used<U: Use>(&self, by: U) -> Result<U::Output> {
        let activation: Function = self.activation.parse()?;
        macro_rules! named {
            ($layer:expr) => {{
                let layer = $layer;
                by.with(match &self.name {
                    Some(name) => layer.name(name),
                    None => layer,
                })
            }};
        }
        Ok(match self.kind.as_str() {
            "Dense" => named!(Dense::new(self.size(0)).activation(activation)),
            "Activation" => named!(Activation::new(activation)),
            "Dropout" => named!(Dropout::new(self.rate)),
            "Embedding" => named!(Embedding::new(self.size(0), self.size(1))),
            "Flatten" => named!(Flatten::new()),
            "Reshape" => named!(Reshape::new(self.sizes.clone())),
            "BatchNormalization" => named!(BatchNormalization::new().momentum(self.rate)),
            "LayerNormalization" => named!(LayerNormalization::new()),
            "Conv2D" => {
                let layer = Conv2D::new(self.size(0), self.pair(1)).strides(self.pair(3)).padding(self.padding());
                named!(layer.activation(activation))
            }
            "MaxPooling2D" => {
                named!(MaxPooling2D::new(self.pair(0)).strides(self.pair(2)).padding(self.padding()))
            }
            "AveragePooling2D" => {
                named!(AveragePooling2D::new(self.pair(0)).strides(self.pair(2)).padding(self.padding()))
            }
            "GlobalAveragePooling2D" => named!(GlobalAveragePooling2D::new()),
            "Add" => named!(Add::new()),
            "Subtract" => named!(Subtract::new()),
            "Multiply" => named!(Multiply::new()),
            "Average" => named!(Average::new()),
            "Maximum" => named!(Maximum::new()),
            "Minimum" => named!(Minimum::new()),
            "Concatenate" => named!(Concatenate::new()),
            "Dot" => named!(Dot::new([self.axis(0), self.axis(1)])),
            other => return Err(no_such("a layer", other, &KINDS)),
        })
    }

    fn axis(&self, at: usize) -> isize {
        self.sizes.get(at).copied().unwrap_or(1)
    }
}

impl ModelOf {
    /// Builds the model.
    pub(crate) fn build(&self, seed: u64) -> Result<Model> {
        match self {
            Self::Sequential(model) => model.build(seed),
            Self::Functional(model) => model.build(seed),
        }
    }
}

impl SequentialOf {
    fn build(&self, seed: u64) -> Result<Model> {
        let empty = Sequential::new().seed(seed);
        let model = self.layers.iter().try_fold(empty, |model, layer| layer.used(Append(model)))?;
        model.build(self.input_shape.as_slice())
    }
}

impl FunctionalOf {
    fn build(&self, seed: u64) -> Result<Model> {
        let mut callers: HashMap<usize, Caller> = HashMap::new();
        let mut symbols: Vec<Symbol> = Vec::with_capacity(self.calls.len());
        for call in &self.calls {
            let symbol = match call {
                CallOf::Input(shape, Some(name)) => Input::named(name, shape.as_slice()),
                CallOf::Input(shape, None) => Input::new(shape.as_slice()),
                CallOf::Layer(index, inputs) => {
                    let inputs = chosen(&symbols, inputs)?;
                    if !callers.contains_key(index) {
                        let layer = self.layers.get(*index).ok_or_else(missing)?;
                        callers.insert(*index, layer.used(Call)?);
                    }
                    callers.get(index).ok_or_else(missing)?(&inputs)
                }
            };
            symbols.push(symbol);
        }
        Model::seeded(&chosen(&symbols, &self.inputs)?, &chosen(&symbols, &self.outputs)?, seed)
    }
}

fn chosen(symbols: &[Symbol], indices: &[usize]) -> Result<Vec<Symbol>> {
    indices.iter().map(|&at| symbols.get(at).cloned().ok_or_else(missing)).collect()
}

fn missing() -> Error {
    Error::new(Code::Internal, "a model is described by calls that it does not have")
}
