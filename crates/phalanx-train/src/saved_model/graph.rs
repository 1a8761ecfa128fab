//! Models made of Phalanx's layers as graphs of TensorFlow ops.

use crate::preprocessing::function;
use phalanx_base::{Code, Error, Result};
use phalanx_data::DType;
use phalanx_feature::GraphTensor;
use phalanx_formats::saved_model::{GraphBuilder, Normalization, Output, Padding};
use phalanx_nn::model::{
    Function, HostCall, InputValues, LayerGraph, LayerNode, Model, Op, Padding as Border, Variable,
};
use std::collections::HashMap;

/// An input of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelInput {
    /// The name of the input's layer.
    pub name: String,
    /// The type of its values: integers if they are looked up in a table, texts if a layer looks them up in a vocabulary.
    pub dtype: DType,
    /// The shape without the batch axis.
    pub dims: Vec<usize>,
}

/// Returns the inputs of a model, in order.
///
/// # Errors
/// Fails if a layer on the host is no [`Preprocess`](crate::Preprocess).
pub fn model_inputs(model: &Model) -> Result<Vec<ModelInput>> {
    let (nodes, host) = (model.nodes(), model.host_graph());
    let mut inputs = Vec::with_capacity(nodes.inputs.len());
    for (number, (&at, input)) in nodes.inputs.iter().zip(host.inputs).enumerate() {
        let is_looked_up = |node: &LayerNode| node.op == Some(Op::Embedding) && node.inputs.contains(&at);
        let dtype = match (input.values, host.calls.iter().find(|call| call.inputs.contains(&number))) {
            (InputValues::Texts, _) => DType::Bytes,
            (InputValues::Integers, _) => DType::I64,
            (InputValues::Inferred, Some(call)) => function(&*call.layer)?.input_type(),
            (InputValues::Inferred, None) if nodes.all.iter().any(is_looked_up) => DType::I64,
            (InputValues::Inferred, None) => DType::F32,
        };
        inputs.push(ModelInput { name: input.name, dtype, dims: input.dims });
    }
    Ok(inputs)
}

/// Adds a model to a graph and returns its outputs. Variables have the names of the model's weights.
///
/// # Errors
/// Fails if a layer is a custom one, or TensorFlow has no op for it.
pub fn model_graph(graph: &mut GraphBuilder, model: &Model, inputs: &[GraphTensor]) -> Result<Vec<GraphTensor>> {
    let nodes = model.nodes();
    let mut writer = Writer { graph, variables: HashMap::new(), made: vec![None; nodes.all.len()] };
    let mut on_host = model.host_graph().calls.into_iter();
    if inputs.len() != nodes.inputs.len() {
        return Err(Error::new(Code::Internal, format!("{} tensors for {} inputs", inputs.len(), nodes.inputs.len())));
    }
    for (&at, &input) in nodes.inputs.iter().zip(inputs) {
        writer.made[at] = Some(input);
    }
    for at in 0..nodes.all.len() {
        if writer.made[at].is_none() {
            // Both list the layers on the host in the order of computation.
            let host = if nodes.all[at].op == Some(Op::Host) { on_host.next() } else { None };
            let made = match host {
                Some(call) => writer.host(&nodes, at, &call),
                None => writer.node(&nodes, at).map(GraphTensor::F32),
            };
            writer.made[at] = Some(made.map_err(|error| error.at(format!("layer {:?}", nodes.all[at].layer)))?);
        }
    }
    nodes.outputs.iter().map(|&at| writer.value(at)).collect()
}

struct Writer<'a> {
    graph: &'a mut GraphBuilder,
    /// By name: a layer that is called twice shares its variables.
    variables: HashMap<String, Output<f32>>,
    made: Vec<Option<GraphTensor>>,
}

impl Writer<'_> {
    fn value(&self, at: usize) -> Result<GraphTensor> {
        self.made[at].ok_or_else(|| Error::new(Code::Internal, format!("node {at} is used before it is built")))
    }

    fn floats(&mut self, at: usize) -> Result<Output<f32>> {
        self.value(at)?.floats(self.graph)
    }

    /// A preprocessing layer.
    fn host(&mut self, nodes: &LayerGraph, at: usize, call: &HostCall) -> Result<GraphTensor> {
        let &[from] = nodes.all[at].inputs.as_slice() else {
            return Err(Error::new(Code::Internal, "a preprocessing layer takes one input"));
        };
        let input = self.value(from)?;
        function(&*call.layer)?.graph(self.graph, input, &nodes.all[from].dims)
    }

    fn variable(&mut self, variable: &Variable) -> Output<f32> {
        if let Some(&known) = self.variables.get(&variable.name) {
            return known;
        }
        let made = if variable.trainable {
            self.graph.variable(&variable.name, &variable.shape)
        } else {
            self.graph.untrained_variable(&variable.name, &variable.shape)
        };
        self.variables.insert(variable.name.clone(), made);
        made
    }

    fn node(&mut self, nodes: &LayerGraph, at: usize) -> Result<Output<f32>> {
        let node = &nodes.all[at];
        if let (Some(Op::Embedding), [from]) = (node.op, node.inputs.as_slice()) {
            let ids = self.value(*from)?.integers(self.graph)?;
            let table = self.weights(node)[0];
            return Ok(self.graph.gather(table, ids));
        }
        let inputs = node.inputs.iter().map(|&from| self.floats(from)).collect::<Result<Vec<_>>>()?;
        let Some(&x) = inputs.first() else {
            return Err(Error::new(Code::Internal, "a layer takes nothing"));
        };
        let dims = |which: usize| nodes.all[node.inputs[which]].dims.as_slice();
        Ok(match node.op {
            Some(Op::Dot { axes, normalize }) if inputs.len() == 2 => {
                let a = self.matrices(x, dims(0), axes[0], normalize);
                let b = self.matrices(inputs[1], dims(1), axes[1], normalize);
                let product = self.graph.batch_matmul(a, b, false, true);
                self.shaped(product, &node.dims)
            }
            Some(Op::Concatenate { axis }) => self.graph.concat(&inputs, axis as i32),
            Some(Op::Add | Op::Subtract | Op::Multiply | Op::Average | Op::Maximum | Op::Minimum) => {
                self.merged(node.op, &inputs)
            }
            Some(op) => self.of_one(op, node, x, dims(0))?,
            None => {
                return Err(Error::new(Code::BadSetting, "a custom layer has no TensorFlow graph")
                    .help("use only Phalanx's layers, or save the weights"));
            }
        })
    }

    /// A layer of one input.
    fn of_one(&mut self, op: Op, node: &LayerNode, x: Output<f32>, dims: &[usize]) -> Result<Output<f32>> {
        let weights = self.weights(node);
        let graph = &mut *self.graph;
        Ok(match op {
            Op::Dense { bias, activation } => {
                let matrix = if dims.len() == 1 { x } else { graph.reshape(x, &[-1, last(dims)]) };
                let sums = graph.dense(matrix, weights[0], bias.then(|| weights[1]));
                let sums = if dims.len() == 1 { sums } else { self.shaped(sums, &node.dims) };
                activated(self.graph, sums, activation)
            }
            Op::Activation(function) => activated(graph, x, function),
            Op::Conv2D { groups, .. } if groups > 1 => {
                return Err(Error::new(Code::BadSetting, format!("a convolution in {groups} groups"))
                    .because("TensorFlow has no CPU kernel for it"));
            }
            Op::Conv2D { strides, dilations, padding, bias, activation, .. } => {
                let mut y = graph.dilated_conv2d(x, weights[0], strides, dilations, border(padding));
                if bias {
                    y = graph.bias_add(y, weights[1]);
                }
                activated(graph, y, activation)
            }
            Op::Pooling2D { mean: true, size, strides, padding } => graph.avg_pool(x, size, strides, border(padding)),
            Op::Pooling2D { size, strides, padding, .. } => graph.max_pool(x, size, strides, border(padding)),
            Op::GlobalAveragePooling2D { keepdims } => graph.mean(x, &[1, 2], keepdims),
            Op::BatchNormalization { epsilon, gamma, beta } => {
                let (gamma, beta, mean, variance) = affine(&weights, gamma, beta);
                let (Some(mean), Some(variance)) = (mean, variance) else {
                    return Err(Error::new(Code::Internal, "a batch normalization without moving values"));
                };
                graph.batch_norm(x, &Normalization { mean, variance, gamma, beta }, epsilon as f32)
            }
            Op::LayerNormalization { epsilon, gamma, beta } => {
                let (gamma, beta, ..) = affine(&weights, gamma, beta);
                graph.layer_norm(x, gamma, beta, epsilon as f32)
            }
            Op::Reshape => self.shaped(x, &node.dims),
            Op::Identity | Op::Input => x,
            other => {
                return Err(Error::new(Code::BadSetting, format!("{other:?} has no TensorFlow graph")));
            }
        })
    }

    fn weights(&mut self, node: &LayerNode) -> Vec<Output<f32>> {
        node.weights.iter().map(|variable| self.variable(variable)).collect()
    }

    fn shaped(&mut self, x: Output<f32>, dims: &[usize]) -> Output<f32> {
        let dims: Vec<i32> = std::iter::once(-1).chain(dims.iter().map(|&d| d as i32)).collect();
        self.graph.reshape(x, &dims)
    }

    fn merged(&mut self, op: Option<Op>, inputs: &[Output<f32>]) -> Output<f32> {
        let graph = &mut *self.graph;
        let mut merged = inputs[0];
        for &next in &inputs[1..] {
            merged = match op {
                Some(Op::Subtract) => graph.sub(merged, next),
                Some(Op::Multiply) => graph.mul(merged, next),
                Some(Op::Maximum) => graph.maximum(merged, next),
                Some(Op::Minimum) => graph.minimum(merged, next),
                _ => graph.add(merged, next),
            };
        }
        if op == Some(Op::Average) {
            let count = graph.scalar(inputs.len() as f32);
            merged = graph.div(merged, count);
        }
        merged
    }

    /// Returns `[batch, rows, length]` with the axis to multiply along last.
    fn matrices(&mut self, x: Output<f32>, dims: &[usize], axis: isize, normalize: bool) -> Output<f32> {
        let first = axis == 1 || axis + dims.len() as isize == 0;
        let x = match dims.len() {
            1 => self.shaped(x, &[1, dims[0]]),
            _ if first => self.graph.transpose(x, &[0, 2, 1]),
            _ => x,
        };
        if !normalize {
            return x;
        }
        let squares = self.graph.square(x);
        let sum = self.graph.sum(squares, &[2], true);
        let least = self.graph.scalar(1e-12_f32);
        let sum = self.graph.maximum(sum, least);
        let length = self.graph.sqrt(sum);
        self.graph.div(x, length)
    }
}

type Affine = (Option<Output<f32>>, Option<Output<f32>>, Option<Output<f32>>, Option<Output<f32>>);

/// Returns gamma, beta and the two weights after them.
fn affine(weights: &[Output<f32>], gamma: bool, beta: bool) -> Affine {
    let mut rest = weights.iter().copied();
    let gamma = if gamma { rest.next() } else { None };
    let beta = if beta { rest.next() } else { None };
    (gamma, beta, rest.next(), rest.next())
}

fn last(dims: &[usize]) -> i32 {
    dims.last().map_or(1, |&d| d as i32)
}

fn border(padding: Border) -> Padding {
    match padding {
        Border::Valid => Padding::Valid,
        Border::Same => Padding::Same,
    }
}

/// Applies an activation function of Keras.
pub fn activated(graph: &mut GraphBuilder, x: Output<f32>, function: Function) -> Output<f32> {
    match function {
        Function::Linear => x,
        Function::Relu => graph.relu(x),
        Function::Elu => graph.elu(x),
        Function::Selu => graph.selu(x),
        Function::Gelu => graph.gelu(x, false),
        Function::Sigmoid => graph.sigmoid(x),
        Function::HardSigmoid => graph.hard_sigmoid(x),
        Function::Tanh => graph.tanh(x),
        Function::Softmax => graph.softmax(x),
        Function::Softplus => graph.softplus(x),
        Function::Softsign => graph.softsign(x),
        Function::Swish => graph.swish(x),
        Function::Mish => graph.mish(x),
        Function::Exponential => graph.exp(x),
    }
}
