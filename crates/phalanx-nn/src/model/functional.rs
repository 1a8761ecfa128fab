//! Functional models.

use super::graph::{InputValues, Inputs};
use super::layer::{Layer, Mode, shown};
use super::random::mixed;
use super::tables::{SourceOfRows, TableLayer};
use super::weights::Weight;
use super::{DynTensor, Weights};
use burn::module::{Devices, Module, ModuleMapper, ModuleVisitor};
use burn::tensor::{Device, Tensor};
use phalanx_base::{Code, Error, Result, Shape};
use std::sync::Arc;

/// A model with its weights, which is a Burn module. Create one from symbols with [`Model::new`], or from a list of layers
/// with [`Sequential`](super::Sequential).
///
/// ```
/// use phalanx_nn::burn::tensor::Tensor;
/// use phalanx_nn::model::{Add, Dense, Function, Input, Layer, Mode, Model};
/// let x = Input::new([16]);
/// let h = Dense::new(16).activation(Function::Gelu).call(&x);
/// let y = Dense::new(3).call(&Add::new().call([&x, &h]));
/// let model = Model::new(&x, &y)?;
/// let batch = Tensor::<2>::ones([2, 16], &phalanx_nn::default_device());
/// let logits: Tensor<2> = model.forward(batch, Mode::Training { seed: 1 })?;
/// assert_eq!(logits.dims(), [2, 3]);
/// # Ok::<(), phalanx_nn::model::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Model {
    pub(crate) form: Arc<ModelStructure>,
    /// The weights of each layer, in Keras' order of layers.
    pub(crate) weights: Vec<Vec<Weight>>,
    /// Where the rows of tables come from that are not among the weights.
    pub(crate) source: Option<SourceOfRows>,
}

/// The parts of a model that training does not change.
#[derive(Debug)]
pub(crate) struct ModelStructure {
    pub(crate) style: ModelOptions,
    /// The layers in Keras' order.
    pub(crate) layers: Vec<NamedLayer>,
    pub(crate) steps: Vec<LayerCall>,
    pub(crate) chain: bool,
    pub(crate) inputs: Vec<usize>,
    /// The steps whose values [`Model::call`] takes: the inputs, or what preprocessing layers make of them.
    pub(crate) fed: Vec<usize>,
    pub(crate) outputs: Vec<usize>,
    pub(crate) tables: Vec<TableLayer>,
}

/// The options of a model.
#[derive(Debug)]
pub(crate) struct ModelOptions {
    pub(crate) sequential: bool,
    pub(crate) name: String,
    pub(crate) seed: u64,
}

/// A named layer of a model, or an input, which has no layer.
#[derive(Debug)]
pub(crate) struct NamedLayer {
    pub(crate) name: String,
    pub(crate) layer: Option<Arc<dyn Layer>>,
    /// The type of an input's values.
    pub(crate) values: InputValues,
}

/// A call of a layer.
#[derive(Debug)]
pub(crate) struct LayerCall {
    pub(crate) layer: usize,
    pub(crate) call: usize,
    /// The calls whose outputs it takes, and whether it is the last to take them.
    pub(crate) inputs: Vec<(usize, bool)>,
    pub(crate) dims: Vec<usize>,
}

/// A weight, as in checkpoints.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// The name, such as `dense/kernel`.
    pub name: String,
    /// The shape.
    pub shape: Shape,
    /// Whether it is trained, unlike a moving average.
    pub trainable: bool,
}

impl Model {
    /// Returns the model that computes `outputs` from `inputs`, with weights from seed 0.
    ///
    /// # Errors
    /// If a layer does not accept its input (the error names it and shows both shapes), an output needs an input that is not
    /// listed, or two layers have the same name.
    pub fn new<'a>(inputs: impl Into<Inputs<'a>>, outputs: impl Into<Inputs<'a>>) -> Result<Self> {
        Self::seeded(inputs, outputs, 0)
    }

    /// Like [`Model::new`], with weights from another seed.
    ///
    /// # Errors
    /// As [`Model::new`].
    pub fn seeded<'a>(inputs: impl Into<Inputs<'a>>, outputs: impl Into<Inputs<'a>>, seed: u64) -> Result<Self> {
        let style = ModelOptions { sequential: false, name: "model".to_owned(), seed };
        Self::build(&inputs.into().0, &outputs.into().0, style)
    }

    /// Returns the outputs for a batch, in the order of the model. `inputs` has what [`Model::host_graph`] returns, if the
    /// model has preprocessing layers.
    ///
    /// # Errors
    /// If the number of inputs is not that of the model, or one has another shape than its [`Input`](super::Input).
    pub fn call(&self, inputs: Vec<DynTensor>, mode: Mode) -> Result<Vec<DynTensor>> {
        let form = &*self.form;
        if inputs.len() != form.fed.len() {
            let what = format!("model {:?} was given {} inputs", form.style.name, inputs.len());
            return Err(Error::new(Code::ShapeMismatch, what).because(format!("it has {}", form.fed.len())));
        }
        let mut values: Vec<Option<DynTensor>> = form.steps.iter().map(|_| None).collect();
        for (input, &at) in inputs.into_iter().zip(&form.fed) {
            let (found, expected) = (input.dims(), &form.steps[at].dims);
            if found.get(1..) != Some(expected) {
                let what =
                    format!("input {:?} was given a batch of shape {found:?}", form.layers[form.steps[at].layer].name);
                return Err(Error::new(Code::ShapeMismatch, what).because(format!("it has {}", shown(expected))));
            }
            values[at] = Some(input);
        }
        for (at, step) in form.steps.iter().enumerate() {
            let placed = &form.layers[step.layer];
            if let Some(layer) = placed.layer.as_ref().filter(|layer| layer.on_host().is_none()) {
                let take =
                    |&(from, last): &(usize, bool)| if last { values[from].take() } else { values[from].clone() };
                let inputs: Vec<DynTensor> = step.inputs.iter().filter_map(take).collect();
                let mode = match mode {
                    Mode::Inference => Mode::Inference,
                    // Two layers, or two calls of one, must not drop the same numbers.
                    Mode::Training { seed } => Mode::Training { seed: mixed(seed, at as u64) },
                };
                let output = match self.table_elsewhere(step.layer) {
                    Some(table) => self.look_up(table, inputs),
                    None => layer.forward(inputs, &Weights(&self.weights[step.layer]), mode),
                };
                values[at] = Some(output.map_err(|error| named(error, &placed.name, Some(layer)))?);
            }
        }
        Ok(form.outputs.iter().filter_map(|&at| values[at].clone()).collect())
    }

    /// Returns the output of a model with one input and one output.
    ///
    /// # Errors
    /// If the model has more than one, or the input has another shape than expected.
    pub fn forward<const D: usize>(&self, input: impl Into<DynTensor>, mode: Mode) -> Result<Tensor<D>> {
        let mut outputs = self.call(vec![input.into()], mode)?;
        match (outputs.pop(), outputs.is_empty()) {
            (Some(output), true) => output.tensor(),
            _ => Err(Error::new(Code::ShapeMismatch, format!("model {:?} has several outputs", self.form.style.name))
                .help("use Model::call, which returns all of them")),
        }
    }

    /// Returns the weights, layer by layer, in the order of Keras' `model.weights`.
    #[must_use]
    pub fn variables(&self) -> Vec<Variable> {
        (0..self.weights.len()).flat_map(|layer| self.variables_of(layer)).collect()
    }

    pub(crate) fn variables_of(&self, layer: usize) -> Vec<Variable> {
        let of = |weight: &Weight| Variable {
            name: format!("{}/{}", self.form.layers[layer].name, weight.name),
            shape: weight.shape.clone(),
            trainable: weight.trainable,
        };
        self.weights[layer].iter().map(of).collect()
    }

    /// Returns the values of all weights, in the order of [`variables`](Self::variables).
    ///
    /// # Errors
    /// If they are not 32-bit floats.
    pub fn values(&self) -> Result<Vec<Vec<f32>>> {
        self.weights.iter().flatten().map(Weight::values).collect()
    }

    /// Replaces the values of a weight or a moving average.
    ///
    /// # Errors
    /// If there is no such weight, or it has another size.
    pub fn set(&mut self, name: &str, values: Vec<f32>) -> Result<()> {
        let named = self.form.layers.iter().zip(&mut self.weights);
        let mut weights =
            named.flat_map(|(placed, weights)| weights.iter_mut().map(move |weight| (&placed.name, weight)));
        let wanted = name.rsplit_once('/');
        match weights.find(|(layer, weight)| wanted == Some((layer.as_str(), weight.name))) {
            Some((_, weight)) => weight.set(values),
            None => Err(Error::new(Code::NoSuchVariable, format!("the model has no weight {name:?}"))
                .help("Model::variables lists them")),
        }
    }

    /// Returns the number of values of all weights, including moving averages.
    #[must_use]
    pub fn count_params(&self) -> usize {
        self.weights.iter().flatten().map(|weight| weight.shape.elements()).sum()
    }
}

/// Adds the layer to an error.
pub(crate) fn named(error: Error, name: &str, layer: Option<&Arc<dyn Layer>>) -> Error {
    error.at(format!("layer {name:?} ({})", layer.map_or("InputLayer", |layer| layer.kind())))
}

impl Model {
    fn change(self, change: impl FnMut(Weight) -> Weight + Copy) -> Self {
        let weights = self.weights.into_iter().map(|layer| layer.into_iter().map(change).collect()).collect();
        Self { form: self.form, weights, source: self.source }
    }
}

impl Module for Model {
    fn collect_devices(&self, devices: Devices) -> Devices {
        self.weights.iter().flatten().fold(devices, |devices, weight| weight.collect_devices(devices))
    }

    fn fork(self, device: &Device) -> Self {
        self.change(|weight| weight.fork(device))
    }

    fn to_device(self, device: &Device) -> Self {
        self.change(|weight| weight.to_device(device))
    }

    fn train(self) -> Self {
        self.change(Module::train)
    }

    fn valid(&self) -> Self {
        self.clone().change(|weight| weight.valid())
    }

    fn materialize(self) -> Self {
        self.change(Module::materialize)
    }

    fn visit<V: ModuleVisitor>(&self, visitor: &mut V) {
        for (placed, weights) in self.form.layers.iter().zip(&self.weights) {
            visitor.enter_module(&placed.name, "Layer");
            for weight in weights {
                visitor.enter_module(weight.name, "Weight");
                weight.visit(visitor);
                visitor.exit_module(weight.name, "Weight");
            }
            visitor.exit_module(&placed.name, "Layer");
        }
    }

    fn map<M: ModuleMapper>(self, mapper: &mut M) -> Self {
        let Self { form, weights, source } = self;
        let mut mapped = Vec::with_capacity(weights.len());
        for (placed, weights) in form.layers.iter().zip(weights) {
            mapper.enter_module(&placed.name, "Layer");
            let mut layer = Vec::with_capacity(weights.len());
            for weight in weights {
                let name = weight.name;
                mapper.enter_module(name, "Weight");
                layer.push(weight.map(mapper));
                mapper.exit_module(name, "Weight");
            }
            mapper.exit_module(&placed.name, "Layer");
            mapped.push(layer);
        }
        Self { form, weights: mapped, source }
    }
}
