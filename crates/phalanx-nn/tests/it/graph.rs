//! A graph computes what Burn computes.

use phalanx_graph::{
    Activation, BatchNorm, Dense, Executor, Fed, Feed, Function, Graph, InputValues, NodeId, Op, Reduce, Seed,
    SigmoidCrossEntropy, SparseSoftmaxCrossEntropy, SquaredError,
};
use phalanx_nn::burn::tensor::{Tensor, TensorData, activation};
use phalanx_nn::losses::{Labels, Loss};
use phalanx_nn::model::Initializer;
use phalanx_nn::{HostBuffer, Precision, default_device, fused_dense, scalar};
use std::sync::Arc;

const ROWS: usize = 7;
const WIDTH: usize = 5;
const UNITS: usize = 3;

fn numbers(dims: &[usize], seed: u64) -> Vec<f32> {
    Initializer::RandomUniform { low: -2.0, high: 2.0 }.values(dims, seed)
}

fn tensor<const D: usize>(numbers: &[f32], dims: [usize; D]) -> Tensor<D> {
    Tensor::from_data(TensorData::new(numbers.to_vec(), dims), &default_device()).require_grad()
}

fn close(what: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() < 1e-5 * expected.abs().max(1.0), "{what} at {at}: {found}, not {expected}");
    }
}

/// Two layers with a function between them, and a loss: what both compute of the same parameters.
fn compare(function: Function, loss: (Loss, Op, InputValues), labels: (&[f32], &[i64])) {
    let (of_burn, of_graph, label_values) = loss;
    let dims: [Vec<usize>; 4] = [vec![WIDTH, UNITS], vec![UNITS], vec![UNITS, UNITS], vec![UNITS]];
    let parameters: Vec<Vec<f32>> = dims.iter().zip(1..).map(|(dims, seed)| numbers(dims, seed)).collect();
    let x = numbers(&[ROWS, WIDTH], 9);

    let mut graph = Graph::default();
    let input = graph.input("x", InputValues::Numbers(vec![WIDTH])).unwrap();
    let nodes: Vec<NodeId> = dims.iter().map(|dims| graph.parameter("p", dims.clone()).unwrap()).collect();
    let relu = function == Function::Relu;
    let mut h = graph.add(Dense { relu, ..Dense::default() }, &[input, nodes[0], nodes[1]]).unwrap();
    if !relu {
        h = graph.add(Activation { function }, &[h]).unwrap();
    }
    let y = graph.add(Dense::default(), &[h, nodes[2], nodes[3]]).unwrap();
    let given = graph.input("labels", label_values).unwrap();
    let each = graph.add(of_graph, &[y, given]).unwrap();
    let total = graph.add(Reduce::Mean, &[each]).unwrap();
    let executor = Executor::new(&Arc::new(graph), &[y], &[total]).unwrap();
    let fed = if labels.1.is_empty() { Fed::Numbers(labels.0) } else { Fed::Classes(labels.1) };
    let parameters_fed = parameters.iter().map(Vec::as_slice).collect();
    let inputs = vec![Fed::Numbers(&x), fed];
    let feed = Feed { rows: ROWS, inputs, parameters: parameters_fed, tables: vec![], seed: 0 };
    let mut pass = executor.forward(feed).unwrap();

    let kernels = [0, 2].map(|at| tensor(&parameters[at], [dims[at][0], dims[at][1]]));
    let biases = [1, 3].map(|at| tensor(&parameters[at], [dims[at][0]]));
    let h = fused_dense(tensor(&x, [ROWS, WIDTH]), kernels[0].clone(), biases[0].clone(), relu, Precision::F32);
    let h = match function {
        Function::Gelu => activation::gelu(h),
        Function::Tanh => activation::tanh(h),
        Function::Softmax => activation::softmax(h, 1),
        Function::Elu => activation::elu(h, 1.0),
        Function::Selu => activation::selu(h),
        Function::Swish => activation::silu(h),
        _ => h,
    };
    let y = fused_dense(h, kernels[1].clone(), biases[1].clone(), false, Precision::F32);
    let device = default_device();
    let labels = match labels {
        (numbers, []) => Labels::rows(numbers.to_vec(), UNITS, &device),
        (_, ids) => Labels::ids(ids, UNITS, &device),
    };
    let loss = of_burn.forward(labels.unwrap(), y).unwrap().mean();
    assert!((pass.scalar(total) - scalar(loss.clone()).unwrap()).abs() < 1e-5);
    let found = pass.backward(&[Seed::Constant(1.0)]);
    let mut gradients = loss.backward();
    for (at, kernel) in [(0, 0), (2, 1)] {
        let expected = HostBuffer::of(kernels[kernel].grad_remove(&mut gradients).unwrap()).unwrap();
        close("a kernel", found.parameters[at].as_ref().unwrap(), &expected);
        let expected = HostBuffer::of(biases[kernel].grad_remove(&mut gradients).unwrap()).unwrap();
        close("a bias", found.parameters[at + 1].as_ref().unwrap(), &expected);
    }
}

#[test]
fn layers_functions_and_losses_are_those_of_burn() {
    let numbers: Vec<f32> = numbers(&[ROWS, UNITS], 77).iter().map(|x| (x + 2.0) / 4.0).collect();
    let classes = [0, 2, 1, 1, 0, 2, 2];
    use Function::{Elu, Gelu, Relu, Selu, Softmax, Swish, Tanh};
    for function in [Relu, Elu, Selu, Gelu, Tanh, Softmax, Swish] {
        let values = || InputValues::Numbers(vec![UNITS]);
        compare(function, (Loss::MeanSquaredError, SquaredError.into(), values()), (&numbers, &[]));
        let entropy = Loss::BinaryCrossentropy { from_logits: true, label_smoothing: 0.0 };
        compare(function, (entropy, SigmoidCrossEntropy.into(), values()), (&numbers, &[]));
        let entropy = Loss::SparseCategoricalCrossentropy { from_logits: true };
        let values = InputValues::Classes(UNITS);
        compare(function, (entropy, SparseSoftmaxCrossEntropy.into(), values), (&[], &classes));
    }
}

#[test]
fn a_batch_normalization_is_the_one_of_its_formula() {
    let (x, weights) = (numbers(&[ROWS, WIDTH], 3), numbers(&[ROWS, WIDTH], 8));
    let own = [4, 5].map(|seed| numbers(&[WIDTH], seed));
    let mut graph = Graph::default();
    let given = graph.input("x", InputValues::Numbers(vec![WIDTH])).unwrap();
    let nodes = ["gamma", "beta", "moving_mean", "moving_variance"].map(|name| graph.parameter(name, [WIDTH]).unwrap());
    let y = graph
        .add(BatchNorm { epsilon: 1e-3, gamma: true, beta: true }, &[given, nodes[0], nodes[1], nodes[2], nodes[3]])
        .unwrap();
    let executor = Executor::new(&Arc::new(graph), &[y], &[y]).unwrap();
    let (moving, inputs) = ([0.0; WIDTH], vec![Fed::Numbers(&x)]);
    let parameters = vec![&own[0][..], &own[1][..], &moving[..], &moving[..]];
    let mut pass = executor.forward(Feed { rows: ROWS, inputs, parameters, tables: vec![], seed: 0 }).unwrap();

    let [gamma, beta] = [0, 1].map(|at: usize| tensor(&own[at], [1, WIDTH]));
    let x = tensor(&x, [ROWS, WIDTH]);
    let centred = x.clone() - x.mean_dim(0);
    let variance = (centred.clone() * centred.clone()).mean_dim(0);
    let expected = centred / (variance + 1e-3).sqrt() * gamma.clone() + beta.clone();
    close("the values", pass.value(y), &HostBuffer::of(expected.clone()).unwrap());
    let found = pass.backward(&[Seed::Numbers(&weights)]);
    let mut gradients = (expected * tensor(&weights, [ROWS, WIDTH]).detach()).sum().backward();
    for (at, own) in [(0, gamma), (1, beta)] {
        let expected = HostBuffer::of(own.grad_remove(&mut gradients).unwrap()).unwrap();
        close("a parameter", found.parameters[at].as_ref().unwrap(), &expected);
    }
}
