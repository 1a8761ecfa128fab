//! The part of a model that is computed on the host, before there are tensors.

use super::Model;
use super::graph::InputValues;
use super::layer::Layer;
use std::sync::Arc;

/// The preprocessing layers of a model: how the columns of its inputs become what [`Model::call`] takes.
///
/// A value is numbered: first the inputs, then the outputs of the calls.
#[derive(Clone, Debug)]
pub struct HostGraph {
    /// The inputs of the model.
    pub inputs: Vec<HostInput>,
    /// The calls of layers, in the order of computation.
    pub calls: Vec<HostCall>,
    /// The values that [`Model::call`] takes.
    pub outputs: Vec<usize>,
}

/// An input of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostInput {
    /// Its name.
    pub name: String,
    /// The shape of its rows.
    pub dims: Vec<usize>,
    /// The type of its values.
    pub values: InputValues,
}

/// A call of a layer whose [`Layer::on_host`] is a function.
#[derive(Clone, Debug)]
pub struct HostCall {
    /// The name of the layer.
    pub name: String,
    /// The layer.
    pub layer: Arc<dyn Layer>,
    /// The values that it takes.
    pub inputs: Vec<usize>,
}

impl Model {
    /// Returns the part of the model that is computed on the host. Without preprocessing layers it has no calls.
    #[must_use]
    pub fn host_graph(&self) -> HostGraph {
        let form = &*self.form;
        let mut numbers: Vec<Option<usize>> = vec![None; form.steps.len()];
        let input = |(number, &at): (usize, &usize)| {
            let step = &form.steps[at];
            let values = form.layers[step.layer].values;
            (number, at, HostInput { name: form.layers[step.layer].name.clone(), dims: step.dims.clone(), values })
        };
        let mut inputs = Vec::with_capacity(form.inputs.len());
        for (number, at, input) in form.inputs.iter().enumerate().map(input) {
            numbers[at] = Some(number);
            inputs.push(input);
        }
        let mut calls = Vec::new();
        for (at, step) in form.steps.iter().enumerate() {
            let placed = &form.layers[step.layer];
            if let Some(layer) = placed.layer.as_ref().filter(|layer| layer.on_host().is_some()) {
                numbers[at] = Some(inputs.len() + calls.len());
                let inputs = step.inputs.iter().filter_map(|&(from, _)| numbers[from]).collect();
                calls.push(HostCall { name: placed.name.clone(), layer: Arc::clone(layer), inputs });
            }
        }
        HostGraph { inputs, calls, outputs: form.fed.iter().filter_map(|&at| numbers[at]).collect() }
    }
}
