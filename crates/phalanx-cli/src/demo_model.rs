//! The demo's problem: ten classes of random points, told apart by a rule made here, with every tenth label made at
//! random. Whoever knows the rule is right nine times out of ten, and in a tenth of the tenth: [`BEST`].

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::activation::relu;
use burn::tensor::{Int, Tensor, TensorData};
use phalanx::{default_device, losses};

const WIDTH: usize = 32;
const CLASSES: usize = 10;
/// The accuracy of a classifier that knows the rule.
pub(crate) const BEST: f32 = 0.9 + 0.1 / CLASSES as f32;

#[derive(Module, Debug)]
pub(crate) struct Classifier {
    hidden: Linear,
    logits: Linear,
}

impl Classifier {
    pub(crate) fn new() -> Self {
        let device = default_device();
        Self {
            hidden: LinearConfig::new(WIDTH, 64).init(&device),
            logits: LinearConfig::new(64, CLASSES).init(&device),
        }
    }

    fn forward(&self, input: Tensor<2>) -> Tensor<2> {
        self.logits.forward(relu(self.hidden.forward(input)))
    }

    pub(crate) fn loss(&self, input: Tensor<2>, labels: Tensor<1, Int>) -> Tensor<1> {
        losses::sparse_softmax_cross_entropy(self.forward(input), labels)
    }

    pub(crate) fn accuracy(&self, batches: &mut Batches) -> f32 {
        let (input, labels) = batches.next_batch(20_000);
        let right = self.forward(input).argmax(1).flatten::<1>(0, 1).equal(labels);
        right.float().mean().into_scalar()
    }
}

/// Points and labels without end; the rule is always the same, the points depend on the seed.
pub(crate) struct Batches {
    rule: Vec<f32>,
    random: Random,
}

impl Batches {
    pub(crate) fn new(seed: u64) -> Self {
        let mut of_the_rule = Random(42);
        let rule = (0..WIDTH * CLASSES).map(|_| of_the_rule.normal()).collect();
        Self { rule, random: Random(0x9e37_79b9_7f4a_7c15 ^ (seed << 20)) }
    }

    pub(crate) fn next_batch(&mut self, size: usize) -> (Tensor<2>, Tensor<1, Int>) {
        let points: Vec<f32> = (0..size * WIDTH).map(|_| self.random.normal()).collect();
        let labels: Vec<i32> = points.chunks(WIDTH).map(|point| label(&self.rule, &mut self.random, point)).collect();
        let device = default_device();
        (
            Tensor::from_data(TensorData::new(points, [size, WIDTH]), &device),
            Tensor::from_data(TensorData::new(labels, [size]), &device),
        )
    }
}

fn label(rule: &[f32], random: &mut Random, point: &[f32]) -> i32 {
    if random.next().is_multiple_of(10) {
        return (random.next() % CLASSES as u64) as i32;
    }
    let score = |class: &[f32]| class.iter().zip(point).map(|(a, b)| a * b).sum::<f32>();
    let scores = rule.chunks(WIDTH).map(score).zip(0..);
    scores.max_by(|a, b| a.0.total_cmp(&b.0)).map_or(0, |(_, class)| class)
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 8
    }

    /// Nearly normal: the sum of four even numbers, scaled.
    fn normal(&mut self) -> f32 {
        let even = |bits: u64| (bits & 0xffff) as f32 / 65_536.0 - 0.5;
        let bits = self.next();
        (even(bits) + even(bits >> 16) + even(bits >> 32) + even(self.next())) * 3.0_f32.sqrt()
    }
}
