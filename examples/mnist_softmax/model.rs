//! Softmax regression, and the batches that feed it.

use crate::images::Images;
use burn::module::{Module, Param};
use burn::tensor::{Int, Tensor, TensorData};
use phalanx::{default_device, losses};

/// One layer, starting at zero.
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

/// Batches of all images, in a new order each epoch and another one for each worker. Every worker has all of them, so
/// that one that is lost takes no part of the data with it.
pub(crate) struct Batches {
    images: Images,
    order: Vec<u32>,
    next: usize,
    size: usize,
    random: u64,
}

impl Batches {
    /// The batches of trainer number `place`.
    pub(crate) fn new(images: Images, size: usize, place: usize) -> Self {
        let order: Vec<u32> = (0..images.labels.len() as u32).collect();
        let random = 0x9e37_79b9_7f4a_7c15 ^ (place as u64 + 1);
        let mut batches = Self { images, next: order.len(), order, size: size.max(1), random };
        batches.size = batches.size.min(batches.order.len());
        batches
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
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            self.order.swap(i, (self.random % (i as u64 + 1)) as usize);
        }
    }
}
