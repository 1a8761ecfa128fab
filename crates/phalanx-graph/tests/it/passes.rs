//! What a step does beside its arithmetic.

use phalanx_base::Combiner;
use phalanx_graph::{
    Bag, Concat, Dense, Dropout, Executor, Fed, Feed, Graph, Ids, InputValues, NodeId, Reduce, Seed, SquaredError,
};
use std::sync::Arc;

/// Three layers over an embedding and a number, and their loss.
fn model() -> (Arc<Graph>, NodeId, NodeId) {
    let mut graph = Graph::default();
    let rows = graph.table("table", 3, true).unwrap();
    let ids = graph.input("ids", InputValues::Ids).unwrap();
    let number = graph.input("number", InputValues::Numbers(vec![1])).unwrap();
    let labels = graph.input("labels", InputValues::Numbers(vec![1])).unwrap();
    let bag = graph.add(Bag { combiner: Combiner::Mean, max_norm: None }, &[rows, ids]).unwrap();
    let mut x = graph.add(Concat { axis: 0 }, &[bag, number]).unwrap();
    for (at, (from, to)) in [(4, 8), (8, 8), (8, 1)].into_iter().enumerate() {
        let kernel = graph.parameter(format!("{at}/kernel"), [from, to]).unwrap();
        let bias = graph.parameter(format!("{at}/bias"), [to]).unwrap();
        x = graph.add(Dense { relu: to > 1, ..Dense::default() }, &[x, kernel, bias]).unwrap();
        if to > 1 {
            x = graph.add(Dropout { rate: 0.25 }, &[x]).unwrap();
        }
    }
    let each = graph.add(SquaredError, &[x, labels]).unwrap();
    let loss = graph.add(Reduce::Mean, &[each]).unwrap();
    (Arc::new(graph), x, loss)
}

/// The values of a model of any shape, and a batch.
struct Values {
    parameters: Vec<Vec<f32>>,
    rows: Vec<f32>,
    splits: Vec<usize>,
    positions: Vec<u32>,
    numbers: Vec<f32>,
}

impl Values {
    fn new(graph: &Graph, examples: usize) -> Self {
        let start = |dims: &[usize]| (0..dims.iter().product()).map(|at: usize| (at as f32 * 1.7).sin()).collect();
        Self {
            parameters: graph.parameters().iter().map(|parameter| start(&parameter.dims)).collect(),
            rows: start(&[4, 3]),
            splits: (0..=examples).collect(),
            positions: (0..examples).map(|at| at as u32 % 4).collect(),
            numbers: start(&[examples]),
        }
    }

    fn feed(&self) -> Feed<'_> {
        let ids = Ids { splits: &self.splits, positions: &self.positions, weights: None };
        Feed {
            rows: self.numbers.len(),
            inputs: vec![Fed::Ids(ids), Fed::Numbers(&self.numbers), Fed::Numbers(&self.numbers)],
            parameters: self.parameters.iter().map(Vec::as_slice).collect(),
            tables: vec![&self.rows],
            seed: 9,
        }
    }
}

#[test]
fn threads_change_no_bit() {
    let (graph, _, loss) = model();
    let values = Values::new(&graph, 20_000);
    let with = |threads: usize| {
        let executor = Executor::new(&graph, &[], &[loss]).unwrap();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let mut pass = executor.forward(values.feed()).unwrap();
            (pass.scalar(loss).to_bits(), pass.backward(&[Seed::Constant(1.0)]))
        })
    };
    assert_eq!(with(1), with(3));
}

#[test]
fn batches_of_any_size_use_one_plan() {
    let (graph, logits, loss) = model();
    let executor = Executor::new(&graph, &[logits], &[loss]).unwrap();
    let of = |executor: &Executor, examples: usize| {
        let values = Values::new(&graph, examples);
        let mut pass = executor.forward(values.feed()).unwrap();
        (pass.value(logits).to_vec(), pass.backward(&[Seed::Constant(1.0)]))
    };
    for examples in [7, 300, 2, 1] {
        let fresh = Executor::new(&graph, &[logits], &[loss]).unwrap();
        assert_eq!(of(&executor, examples), of(&fresh, examples), "{examples}");
    }
}

#[test]
fn dropout_is_for_training_and_depends_on_the_seed() {
    let (graph, logits, loss) = model();
    let values = Values::new(&graph, 50);
    let with = |losses: &[NodeId], seed| {
        let executor = Executor::new(&graph, &[logits], losses).unwrap();
        executor.forward(Feed { seed, ..values.feed() }).unwrap().value(logits).to_vec()
    };
    assert_eq!(with(&[], 1), with(&[], 2));
    assert_eq!(with(&[loss], 1), with(&[loss], 1));
    assert_ne!(with(&[loss], 1), with(&[loss], 2));
    assert_ne!(with(&[loss], 1), with(&[], 1));
}

#[test]
fn a_fraction_is_dropped_and_the_sum_is_kept() {
    let mut graph = Graph::default();
    let x = graph.input("x", InputValues::Numbers(vec![100])).unwrap();
    let y = graph.add(Dropout { rate: 0.3 }, &[x]).unwrap();
    let executor = Executor::new(&Arc::new(graph), &[y], &[y]).unwrap();
    let ones = vec![1.0; 10_000];
    let feed = Feed { rows: 100, inputs: vec![Fed::Numbers(&ones)], parameters: vec![], tables: vec![], seed: 5 };
    let pass = executor.forward(feed).unwrap();
    let zeros = pass.value(y).iter().filter(|x| **x == 0.0).count();
    assert!((2_700..3_300).contains(&zeros), "{zeros}");
    assert!(pass.value(y).iter().all(|x| *x == 0.0 || (x - 1.0 / 0.7).abs() < 1e-6));
}

#[test]
fn gradients_that_were_computed_elsewhere_continue() {
    let (graph, logits, loss) = model();
    let values = Values::new(&graph, 16);
    let whole = Executor::new(&graph, &[], &[loss]).unwrap();
    let whole = whole.forward(values.feed()).unwrap().backward(&[Seed::Constant(1.0)]);
    let rest = Executor::new(&graph, &[], &[logits]).unwrap();
    let mut pass = rest.forward(values.feed()).unwrap();
    let errors: Vec<f32> = pass.value(logits).iter().zip(&values.numbers).map(|(x, y)| 2.0 * (x - y) / 16.0).collect();
    assert_eq!(pass.backward(&[Seed::Numbers(&errors)]), whole);
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_computed() {
    let (graph, logits, _) = model();
    let executor = Executor::new(&graph, &[logits], &[]).unwrap();
    let values = Values::new(&graph, 4);
    assert!(executor.forward(values.feed()).is_ok());
    let mut absent = values.feed();
    absent.inputs[2] = Fed::Absent;
    assert!(executor.forward(absent.clone()).is_ok(), "inference needs no labels");
    absent.inputs[1] = Fed::Absent;
    assert!(executor.forward(absent).is_err());
    let (short, far, falling) = ([1.0; 3], [0, 1, 2, 4], [0, 3, 1, 4, 4]);
    let mut wrong = values.feed();
    wrong.inputs[1] = Fed::Numbers(&short);
    assert!(executor.forward(wrong).is_err());
    let mut wrong = values.feed();
    wrong.parameters[0] = &short;
    assert!(executor.forward(wrong).is_err());
    let mut wrong = values.feed();
    wrong.inputs[0] = Fed::Ids(Ids { splits: &values.splits, positions: &far, weights: None });
    assert!(executor.forward(wrong).unwrap_err().what().contains("ids"));
    let mut wrong = values.feed();
    wrong.inputs[0] = Fed::Ids(Ids { splits: &falling, positions: &values.positions, weights: None });
    assert!(executor.forward(wrong).is_err());
}
