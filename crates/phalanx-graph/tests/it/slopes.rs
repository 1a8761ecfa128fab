//! Every derivative, measured by differences of the values.

use phalanx_base::{Combiner, SplitMix};
use phalanx_graph::{
    AbsoluteError, Activation, Add, Bag, BatchNorm, Border, Concat, Conv2d, Cross, Dense, Dot, Dropout, Executor, Fed,
    Feed, Function, Gather, GlobalMean, Graph, Huber, Ids, InputValues, LayerNorm, LogCosh, LogPoisson, Merge, NodeId,
    Op, PairProducts, PercentageError, Poisson, Pool2d, Precision, Reduce, Repeat, Reshape, Scale, SecondOrder, Seed,
    SigmoidCrossEntropy, Slice, SparseSoftmaxCrossEntropy, SquaredError, SquaredLogError, SquaredNorm,
};
use std::sync::Arc;

const ROWS: usize = 5;
/// The ids of each example, as positions among four rows; the second example has none.
const SPLITS: [usize; ROWS + 1] = [0, 2, 2, 3, 6, 7];
const POSITIONS: [u32; 7] = [0, 2, 1, 3, 0, 3, 2];
const WEIGHTS: [f32; 7] = [0.5, 2.0, 1.0, 1.5, 0.25, 1.0, 3.0];
/// The positions of a table with a row for each example: a value that differs from example to example, and learns.
const OWN: [u32; ROWS] = [0, 1, 2, 3, 4];
const OWN_SPLITS: [usize; ROWS + 1] = [0, 1, 2, 3, 4, 5];

fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut random = SplitMix::new(seed);
    (0..count).map(|_| (random.word() >> 40) as f32 / (1 << 23) as f32 - 1.0).collect()
}

/// A graph under test, with the values of its parameters and tables.
#[derive(Default)]
struct Case {
    graph: Graph,
    inputs: Vec<Vec<f32>>,
    classes: Vec<i64>,
    parameters: Vec<Vec<f32>>,
    tables: Vec<Vec<f32>>,
    weighted: bool,
}

impl Case {
    fn parameter(&mut self, dims: &[usize]) -> NodeId {
        self.parameters.push(numbers(dims.iter().product(), 7 + self.parameters.len() as u64));
        self.graph.parameter(format!("parameter {}", self.parameters.len()), dims).unwrap()
    }

    /// A value of `width` numbers for each example, all of which learn.
    fn value(&mut self, width: usize) -> NodeId {
        self.tables.push(numbers(ROWS * width, 100 + self.tables.len() as u64));
        let rows = self.graph.table(format!("value {}", self.tables.len()), width, true).unwrap();
        let ids = self.graph.input(format!("own {}", self.tables.len()), InputValues::Ids).unwrap();
        self.graph.add(Bag { combiner: Combiner::Sum, max_norm: None }, &[rows, ids]).unwrap()
    }

    fn add(&mut self, op: impl Into<Op>, inputs: &[NodeId]) -> NodeId {
        self.graph.add(op, inputs).unwrap()
    }

    fn feed(&self) -> Feed<'_> {
        let mut numbers = self.inputs.iter();
        let fed = |input: &phalanx_graph::Input| match input.values {
            InputValues::Numbers(_) => Fed::Numbers(numbers.next().unwrap()),
            InputValues::Classes(_) => Fed::Classes(&self.classes),
            InputValues::Ids if input.name.starts_with("own") => {
                Fed::Ids(Ids { splits: &OWN_SPLITS, positions: &OWN, weights: None })
            }
            InputValues::Ids => {
                Fed::Ids(Ids { splits: &SPLITS, positions: &POSITIONS, weights: self.weighted.then_some(&WEIGHTS[..]) })
            }
        };
        Feed {
            rows: ROWS,
            inputs: self.graph.inputs().iter().map(fed).collect(),
            parameters: self.parameters.iter().map(Vec::as_slice).collect(),
            tables: self.tables.iter().map(Vec::as_slice).collect(),
            seed: 3,
        }
    }

    /// Compares every gradient of a weighted sum of the node's numbers with differences of that sum.
    fn check(mut self, of: NodeId) {
        let executor = Executor::new(&Arc::new(self.graph.clone()), &[], &[of]).unwrap();
        let pass = executor.forward(self.feed()).unwrap();
        let weights = numbers(pass.value(of).len(), 42);
        drop(pass);
        // Twice: the second pass uses the memory of the first one.
        let gradients = || executor.forward(self.feed()).unwrap().backward(&[Seed::Numbers(&weights)]);
        let found = gradients();
        assert_eq!(found, gradients());
        let sum = |case: &Self| -> f64 {
            let pass = executor.forward(case.feed()).unwrap();
            pass.value(of).iter().zip(&weights).map(|(x, w)| f64::from(*x) * f64::from(*w)).sum()
        };
        let mut compared = 0;
        for is_table in [false, true] {
            let count = if is_table { self.tables.len() } else { self.parameters.len() };
            for which in 0..count {
                let all = if is_table { &found.tables } else { &found.parameters };
                let Some(slopes) = &all[which] else { continue };
                for (at, slope) in slopes.iter().enumerate() {
                    let mut moved = |by: f32| {
                        let own = if is_table { &mut self.tables } else { &mut self.parameters };
                        let before = std::mem::replace(&mut own[which][at], 0.0);
                        own[which][at] = before + by;
                        let sum = sum(&self);
                        let own = if is_table { &mut self.tables } else { &mut self.parameters };
                        own[which][at] = before;
                        sum
                    };
                    let measured = (moved(4e-3) - moved(-4e-3)) / 8e-3;
                    let near = (measured - f64::from(*slope)).abs() < 2e-3 * measured.abs().max(1.0);
                    assert!(near, "{is_table} {which} at {at}: {measured}, not {slope}\n{}", self.graph);
                    compared += 1;
                }
            }
        }
        assert!(compared > 0, "nothing learns");
    }
}

#[test]
fn of_dense_layers() {
    for (relu, with_bias, precision) in
        [(false, true, Precision::F32), (true, true, Precision::F32), (false, false, Precision::F32)]
    {
        let mut case = Case::default();
        let (x, kernel) = (case.value(3), case.parameter(&[3, 4]));
        let mut inputs = vec![x, kernel];
        if with_bias {
            inputs.push(case.parameter(&[4]));
        }
        let y = case.add(Dense { relu, precision }, &inputs);
        case.check(y);
    }
}

#[test]
fn of_activation_functions() {
    use Function::*;
    for function in [
        Linear,
        Relu,
        Elu,
        Selu,
        Gelu,
        Sigmoid,
        HardSigmoid,
        Tanh,
        Softmax,
        Softplus,
        Softsign,
        Swish,
        Mish,
        Exponential,
    ] {
        let mut case = Case::default();
        let x = case.value(3);
        let y = case.add(Activation { function }, &[x]);
        case.check(y);
    }
}

#[test]
fn of_sums_multiples_and_repetitions() {
    let mut case = Case::default();
    let (a, b, bias) = (case.value(3), case.value(3), case.parameter(&[3]));
    let scaled = case.add(Scale { factor: -1.5 }, &[b]);
    let repeated = case.add(Repeat, &[bias]);
    // Both use of a value twice, and a bias for all examples.
    let y = case.add(Add, &[bias, a, scaled, repeated, a]);
    case.check(y);
}

#[test]
fn of_concatenations_and_slices() {
    let mut case = Case::default();
    let (a, b, kernel) = (case.value(3), case.value(2), case.parameter(&[5, 2]));
    let part = case.add(Slice { start: 1, width: 2 }, &[a]);
    let all = case.add(Concat { axis: 0 }, &[part, b, part, a]);
    let weights = case.add(Concat { axis: 0 }, &[kernel, kernel]);
    let narrow = case.add(Slice { start: 0, width: 7 }, &[all]);
    let wide = case.add(Concat { axis: 0 }, &[narrow, a]);
    let y = case.add(Dense::default(), &[wide, weights]);
    case.check(y);
}

#[test]
fn of_dropout() {
    let mut case = Case::default();
    let x = case.value(4);
    let y = case.add(Dropout { rate: 0.4 }, &[x]);
    case.check(y);
}

#[test]
fn of_batch_normalization() {
    let mut case = Case::default();
    let x = case.value(3);
    let [gamma, beta] = [(); 2].map(|()| case.parameter(&[3]));
    // Their gradients are no slopes; they are tested below.
    let [mean, variance] = [0.5, 1.5].map(|number| {
        case.inputs.push(vec![number; ROWS * 3]);
        case.parameter(&[3])
    });
    let y = case.add(BatchNorm { epsilon: 1e-3, gamma: true, beta: true }, &[x, gamma, beta, mean, variance]);
    let executor = Executor::new(&Arc::new(case.graph.clone()), &[], &[y]).unwrap();
    let gradients = executor.forward(case.feed()).unwrap().backward(&[Seed::Constant(1.0)]);
    let column = |at: usize| case.tables[0].iter().skip(at).step_by(3).copied();
    for at in 0..3 {
        let mean = column(at).sum::<f32>() / ROWS as f32;
        let variance = column(at).map(|x| (x - mean).powi(2)).sum::<f32>() / ROWS as f32;
        for (which, now) in [(2, mean), (3, variance)] {
            let distance = gradients.parameters[which].as_ref().unwrap()[at];
            assert!((distance - (case.parameters[which][at] - now)).abs() < 1e-6, "{which} {at}");
        }
    }
    let mut learning = Case::default();
    let x = learning.value(3);
    let [gamma, beta] = [(); 2].map(|()| learning.parameter(&[3]));
    let fixed = learning.graph.input("moving", InputValues::Numbers(vec![3])).unwrap();
    learning.inputs.push(vec![0.0; ROWS * 3]);
    let y = learning.add(BatchNorm { epsilon: 1e-3, gamma: true, beta: true }, &[x, gamma, beta, fixed, fixed]);
    learning.check(y);
}

#[test]
fn of_interactions() {
    let mut case = Case::default();
    let x = case.value(6);
    let second = case.add(SecondOrder { fields: 3 }, &[x]);
    let products = case.add(PairProducts { fields: 3 }, &[x]);
    let both = case.add(Concat { axis: 0 }, &[second, products]);
    case.check(both);
}

#[test]
fn of_combined_rows() {
    for combiner in [Combiner::Mean, Combiner::Sum, Combiner::Sqrtn] {
        for (max_norm, weighted) in [(None, false), (Some(0.8), false), (None, true)] {
            let mut case = Case { weighted, ..Case::default() };
            case.tables.push(numbers(8, 5));
            let rows = case.graph.table("rows", 2, true).unwrap();
            let [ids, others] = ["ids", "other ids"].map(|name| case.graph.input(name, InputValues::Ids).unwrap());
            // Two columns of one table.
            let [a, b] = [ids, others].map(|ids| case.add(Bag { combiner, max_norm }, &[rows, ids]));
            let both = case.add(Concat { axis: 0 }, &[a, b]);
            case.check(both);
        }
    }
}

#[test]
fn of_regularization() {
    let mut case = Case::default();
    case.tables.push(numbers(8, 5));
    let (rows, kernel) = (case.graph.table("rows", 2, true).unwrap(), case.parameter(&[2, 3]));
    let norms = [rows, kernel].map(|of| case.add(SquaredNorm { factor: 0.3 }, &[of]));
    let penalty = case.add(Add, &norms);
    case.check(penalty);
}

#[test]
fn of_losses() {
    for (loss, weighted) in [
        (Op::from(SquaredError), false),
        (Op::from(SigmoidCrossEntropy), true),
        (Op::from(LogPoisson), false),
        (Op::from(SparseSoftmaxCrossEntropy), true),
        (Op::from(AbsoluteError), false),
        (Op::from(PercentageError), false),
        (Op::from(Huber { delta: 0.4 }), false),
        (Op::from(LogCosh), true),
    ] {
        let mut case = Case::default();
        let logits = case.value(3);
        let labels = if loss == Op::from(SparseSoftmaxCrossEntropy) {
            case.classes = vec![0, 2, 1, 1, 2];
            case.graph.input("classes", InputValues::Classes(3)).unwrap()
        } else {
            case.inputs.push(numbers(ROWS * 3, 9).iter().map(|x| x.abs()).collect());
            case.graph.input("labels", InputValues::Numbers(vec![3])).unwrap()
        };
        let each = case.add(loss, &[logits, labels]);
        let mut reduced = vec![each];
        if weighted {
            case.inputs.push(numbers(ROWS, 11));
            reduced.push(case.graph.input("weights", InputValues::Numbers(vec![])).unwrap());
        }
        let mean = case.add(Reduce::Mean, &reduced);
        let sum = case.add(Reduce::Sum(0.5), &[each]);
        let both = case.add(Add, &[mean, sum]);
        case.check(both);
    }
}

#[test]
fn of_convolutions_and_pools() {
    for (border, strides, groups) in [(Border::Valid, [1, 1], 1), (Border::Same, [2, 1], 2)] {
        let mut case = Case::default();
        let (x, kernel, bias) = (case.value(40), case.parameter(&[2, 3, 2 / groups, 4]), case.parameter(&[4]));
        let image = case.add(Reshape { dims: vec![4, 5, 2] }, &[x]);
        let layer = Conv2d { strides, dilations: [1; 2], border, groups, relu: false };
        let y = case.add(layer, &[image, kernel, bias]);
        case.check(y);
    }
    for (mean, border) in [(true, Border::Same), (false, Border::Same), (false, Border::Valid)] {
        let mut case = Case::default();
        let x = case.value(40);
        // No two numbers are so close that a difference would change which is the largest.
        case.tables[0] = (0..ROWS * 40).map(|at| (at * 37 % 200) as f32 / 20.0).collect();
        let image = case.add(Reshape { dims: vec![4, 5, 2] }, &[x]);
        let y = case.add(Pool2d { mean, size: [2, 2], strides: [2, 1], border }, &[image]);
        case.check(y);
    }
    let mut case = Case::default();
    let x = case.value(12);
    let image = case.add(Reshape { dims: vec![3, 2, 2] }, &[x]);
    let y = case.add(GlobalMean { keep_dims: false }, &[image]);
    case.check(y);
}

#[test]
fn of_layer_normalization() {
    for (gamma, beta) in [(true, true), (false, true), (true, false), (false, false)] {
        let mut case = Case::default();
        let mut inputs = vec![case.value(4)];
        inputs.extend((0..usize::from(gamma) + usize::from(beta)).map(|_| case.parameter(&[4])));
        let y = case.add(LayerNorm { epsilon: 1e-2, gamma, beta }, &inputs);
        case.check(y);
    }
}

#[test]
fn of_merged_values() {
    for merge in [Merge::Subtract, Merge::Multiply, Merge::Average, Merge::Maximum, Merge::Minimum] {
        let mut case = Case::default();
        let values = [case.value(3), case.value(3)];
        let y = case.add(merge, &values);
        case.check(y);
    }
}

/// Differences would cross the kinks of many sums.
#[test]
fn of_a_convolution_with_relu() {
    let gradients = |relu: bool| {
        let mut case = Case::default();
        let (x, kernel, bias) = (case.value(40), case.parameter(&[2, 3, 2, 4]), case.parameter(&[4]));
        let image = case.add(Reshape { dims: vec![4, 5, 2] }, &[x]);
        let layer = Conv2d { strides: [1; 2], dilations: [1; 2], border: Border::Same, groups: 1, relu };
        let mut y = case.add(layer, &[image, kernel, bias]);
        if !relu {
            y = case.add(Activation { function: Function::Relu }, &[y]);
        }
        let executor = Executor::new(&Arc::new(case.graph.clone()), &[], &[y]).unwrap();
        executor.forward(case.feed()).unwrap().backward(&[Seed::Constant(1.0)])
    };
    assert_eq!(gradients(true), gradients(false));
}

#[test]
fn of_losses_of_positive_predictions() {
    for loss in [Op::from(SquaredLogError), Op::from(Poisson)] {
        let mut case = Case::default();
        let x = case.value(3);
        let positive = case.add(Activation { function: Function::Softplus }, &[x]);
        case.inputs.push(numbers(ROWS * 3, 9).iter().map(|x| x.abs()).collect());
        let labels = case.graph.input("labels", InputValues::Numbers(vec![3])).unwrap();
        let each = case.add(loss, &[positive, labels]);
        case.check(each);
    }
}

#[test]
fn of_gathered_rows_and_cross_layers() {
    let mut case = Case::default();
    case.tables.push(numbers(ROWS * 2, 5));
    let rows = case.graph.table("rows", 2, true).unwrap();
    let ids = case.graph.input("own ids", InputValues::Ids).unwrap();
    let gathered = case.add(Gather { dims: vec![1] }, &[rows, ids]);
    let flat = case.add(Reshape { dims: vec![2] }, &[gathered]);
    let (first, x) = (case.value(2), case.value(2));
    let y = case.add(Cross, &[first, flat, x]);
    case.check(y);
}

#[test]
fn of_a_batch_normalization_without_factor_or_addend() {
    for (gamma, beta) in [(false, true), (true, false), (false, false)] {
        let mut case = Case::default();
        let mut inputs = vec![case.value(3)];
        inputs.extend((0..usize::from(gamma) + usize::from(beta)).map(|_| case.parameter(&[3])));
        let fixed = case.graph.input("moving", InputValues::Numbers(vec![3])).unwrap();
        case.inputs.push(vec![0.0; ROWS * 3]);
        inputs.extend([fixed, fixed]);
        let y = case.add(BatchNorm { epsilon: 1e-3, gamma, beta }, &inputs);
        case.check(y);
    }
}

#[test]
fn of_dot_products() {
    for (axes, normalize) in [([0, 0], false), ([0, 0], true), ([1, 0], false), ([0, 1], true)] {
        let mut case = Case::default();
        let shaped = |case: &mut Case, axis: usize| {
            let x = case.value(6);
            case.add(Reshape { dims: if axis == 0 { vec![3, 2] } else { vec![2, 3] } }, &[x])
        };
        let inputs = axes.map(|axis| shaped(&mut case, axis));
        let y = case.add(Dot { axes, normalize }, &inputs);
        case.check(y);
    }
    let mut case = Case::default();
    let inputs = [case.value(4), case.value(4)];
    let y = case.add(Dot { axes: [0, 0], normalize: true }, &inputs);
    case.check(y);
}
