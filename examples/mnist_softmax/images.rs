//! MNIST's images and digits, all of them in memory.

use phalanx::data::{Idx, Input, mnist_test, mnist_train};
use phalanx::{Code, Error, Result};
use std::path::Path;

/// Images of 28 × 28 numbers, and their digits.
#[derive(Default)]
pub(crate) struct Images {
    pub(crate) pixels: Vec<f32>,
    pub(crate) labels: Vec<i64>,
}

pub(crate) struct Mnist {
    pub(crate) train: Images,
    pub(crate) test: Images,
}

impl Mnist {
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        let read = |digits: Idx| {
            Images::read(digits)
                .map_err(|error| error.help("give the folder that has MNIST's four files with --data-dir"))
        };
        let mut mnist = Self { train: read(mnist_train(folder))?, test: read(mnist_test(folder))? };
        mnist.centre();
        Ok(mnist)
    }

    /// Takes the mean training image off every image. Without that, a learning rate of 0.5 is at the edge of what is
    /// stable, and gradients that are one step late, as those of asynchronous workers are, make the accuracy of the
    /// last step a matter of luck.
    fn centre(&mut self) {
        let mut mean = vec![0.0; 784];
        for image in self.train.pixels.chunks_exact(784) {
            mean.iter_mut().zip(image).for_each(|(sum, pixel)| *sum += pixel);
        }
        let count = self.train.labels.len().max(1) as f32;
        mean.iter_mut().for_each(|sum| *sum /= count);
        for image in self.train.pixels.chunks_exact_mut(784).chain(self.test.pixels.chunks_exact_mut(784)) {
            image.iter_mut().zip(&mean).for_each(|(pixel, mean)| *pixel -= mean);
        }
    }
}

impl Images {
    fn read(digits: Idx) -> Result<Self> {
        let mut images = Self::default();
        for batch in digits.scaled("image").batch(1000).iter()? {
            let batch = batch?;
            images.pixels.extend_from_slice(batch.f32("image")?);
            images.labels.extend_from_slice(batch.i64("label")?);
        }
        let count = images.labels.len();
        if count == 0
            || images.pixels.len() != 784 * count
            || images.labels.iter().any(|digit| !(0..10).contains(digit))
        {
            return Err(Error::new(Code::DataFormat, "these are no images of 28 × 28 with digits")
                .because(format!("{} numbers, {count} labels", images.pixels.len())));
        }
        Ok(images)
    }
}
