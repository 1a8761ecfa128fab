//! The peers' models, and batches of made data that are ready before the clock starts.

use burn::module::Module;
use burn::nn::{Initializer, Linear, LinearConfig};
use burn::tensor::activation::relu;
use burn::tensor::{Distribution, Int, Tensor, TensorData};
use phalanx::prelude::*;
use phalanx::{Result, default_device};

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// 784 → 10
    Softmax,
    /// 512 → 1024 → 512 → 256 → 2
    Dnn,
    /// 26 ids of one table and 13 numbers → hidden → 2
    Embed,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Softmax => "softmax",
            Self::Dnn => "dnn",
            Self::Embed => "embed",
        })
    }
}

const IDS: usize = 26;
const NUMBERS: usize = 13;

pub(crate) struct Sizes {
    layers: Vec<usize>,
    /// Rows and width of the table, if there is one.
    table: Option<(usize, usize)>,
}

impl Sizes {
    pub(crate) fn new(kind: Kind, rows: usize, dim: usize, hidden: &[usize]) -> Self {
        match kind {
            Kind::Softmax => Self { layers: vec![784, 10], table: None },
            Kind::Dnn => Self { layers: vec![512, 1024, 512, 256, 2], table: None },
            Kind::Embed => {
                let layers = [&[IDS * dim + NUMBERS], hidden, &[2]].concat();
                Self { layers, table: Some((rows, dim)) }
            }
        }
    }
}

#[derive(Module, Debug)]
pub(crate) struct Net {
    layers: Vec<Linear>,
}

impl Net {
    pub(crate) fn new(sizes: &Sizes) -> Self {
        let initializer = Initializer::Normal { mean: 0.0, std: 0.05 };
        let layer = |pair: &[usize]| {
            LinearConfig::new(pair[0], pair[1]).with_initializer(initializer.clone()).init(&default_device())
        };
        Self { layers: sizes.layers.windows(2).map(layer).collect() }
    }

    fn loss(&self, input: Tensor<2>, labels: Tensor<1, Int>) -> Tensor<1> {
        let (last, hidden) = self.layers.split_last().expect("a net has layers");
        let input = hidden.iter().fold(input, |x, layer| relu(layer.forward(x)));
        losses::sparse_softmax_cross_entropy(last.forward(input), labels)
    }
}

struct Batch {
    input: Tensor<2>,
    labels: Tensor<1, Int>,
    ids: Vec<i64>,
}

/// Fifty batches (ten when they are large), over and over.
pub(crate) struct Batches {
    list: Vec<Batch>,
    next: usize,
    size: usize,
}

impl Batches {
    pub(crate) fn new(sizes: &Sizes, size: usize, seed: u64) -> Self {
        let device = default_device();
        device.seed(seed);
        let mut random = 0x9e37_79b9_7f4a_7c15 ^ (seed + 1);
        let mut below = move |n: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random % n as u64) as i64
        };
        let classes = sizes.layers.last().copied().unwrap_or(2);
        let width = if sizes.table.is_some() { NUMBERS } else { sizes.layers[0] };
        let mut batch = || {
            let labels: Vec<i32> = (0..size).map(|_| below(classes) as i32).collect();
            Batch {
                input: Tensor::random([size, width], Distribution::Normal(0.0, 1.0), &device),
                labels: Tensor::from_data(TensorData::new(labels, [size]), &device),
                ids: sizes.table.map_or(Vec::new(), |(rows, _)| (0..size * IDS).map(|_| below(rows)).collect()),
            }
        };
        let count = if size < 500 { 50 } else { 10 };
        Self { list: (0..count).map(|_| batch()).collect(), next: 0, size }
    }

    /// One step on the next batch.
    pub(crate) fn step(&mut self, session: &mut Session<Net>) -> Result<Option<Step>> {
        let batch = &self.list[self.next];
        self.next = (self.next + 1) % self.list.len();
        let (input, labels) = (batch.input.clone(), batch.labels.clone());
        if batch.ids.is_empty() {
            return session.step(|net| net.loss(input, labels));
        }
        session.step_with_rows(&[(0, &batch.ids)], |net, rows| {
            let embedded = rows[0].lookup().reshape([self.size as i32, -1]);
            net.loss(Tensor::cat(vec![embedded, input], 1), labels)
        })
    }
}
