//! Softmax regression and its batches.

use crate::images::Images;
use burn::module::{Module, Param};
use burn::tensor::{Int, Tensor, TensorData};
use phalanx::{default_device, losses};
use phalanx_base::SplitMix;

/// One layer, initialized with zeros.
#[derive(Module, Debug)]
pub(crate) struct Softmax {
    weight: Param<Tensor<2>>,
    bias: Param<Tensor<1>>,
}

impl Softmax {
    pub(crate) fn new() -> Self {
        let device = default_device();
        let weight = Param::from_tensor(Tensor::zeros([784, 10], &device));
        Self { weight, bias: Param::from_tensor(Tensor::zeros([10], &device)) }
    }

    fn logits(&self, images: Tensor<2>) -> Tensor<2> {
        images.matmul(self.weight.val()) + self.bias.val().unsqueeze()
    }

    pub(crate) fn loss(&self, images: Tensor<2>, labels: Tensor<1, Int>) -> Tensor<1> {
        losses::sparse_softmax_cross_entropy(self.logits(images), labels)
    }

    pub(crate) fn accuracy(&self, test: &Images) -> f64 {
        let images =
            Tensor::from_data(TensorData::new(test.pixels.clone(), [test.labels.len(), 784]), &default_device());
        let logits = self.logits(images).into_data();
        let logits = logits.as_slice::<f32>().unwrap_or_default();
        let right = logits.chunks(10).zip(&test.labels).filter(|(row, label)| {
            let best = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map(|(digit, _)| digit);
            best.map(|digit| digit as i64) == Some(**label)
        });
        right.count() as f64 / test.labels.len() as f64
    }
}

/// Batches of all images, in a new order for each epoch and worker. Every worker has all images, so that a lost worker
/// loses no data.
pub(crate) struct Batches {
    images: Images,
    order: Vec<u32>,
    next: usize,
    size: usize,
    random: SplitMix,
}

impl Batches {
    /// Creates the batches of one trainer.
    pub(crate) fn new(images: Images, size: usize, trainer: usize) -> Self {
        let order: Vec<u32> = (0..images.labels.len() as u32).collect();
        let (next, size) = (order.len(), size.clamp(1, order.len().max(1)));
        Self { images, next, order, size, random: SplitMix::new(trainer as u64) }
    }

    pub(crate) fn next_batch(&mut self) -> (Tensor<2>, Tensor<1, Int>) {
        if self.next + self.size > self.order.len() {
            self.shuffle();
        }
        let chosen = &self.order[self.next..self.next + self.size];
        let mut pixels = Vec::with_capacity(784 * self.size);
        let mut labels = Vec::with_capacity(self.size);
        for &at in chosen {
            pixels.extend_from_slice(&self.images.pixels[784 * at as usize..][..784]);
            labels.push(self.images.labels[at as usize] as i32);
        }
        self.next += self.size;
        let device = default_device();
        (
            Tensor::from_data(TensorData::new(pixels, [self.size, 784]), &device),
            Tensor::from_data(TensorData::new(labels, [self.size]), &device),
        )
    }

    fn shuffle(&mut self) {
        self.next = 0;
        for i in (1..self.order.len()).rev() {
            self.order.swap(i, self.random.below(i + 1));
        }
    }
}
