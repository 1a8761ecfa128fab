//! MNIST in memory.

use phalanx::data::{Idx, SourceExt, mnist_test, mnist_train};
use phalanx::{Code, Error, Result};
use std::path::Path;

/// Images of 28 × 28 pixels, and their labels.
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
            Images::read(digits).map_err(|error| error.help("give the folder of MNIST's four files with --data-dir"))
        };
        let mut mnist = Self { train: read(mnist_train(folder))?, test: read(mnist_test(folder))? };
        mnist.centre();
        Ok(mnist)
    }

    /// Subtracts the mean training image from every image. Without that, a learning rate of 0.5 is barely stable, and the
    /// stale gradients of asynchronous workers make the final accuracy a matter of luck.
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
            return Err(Error::new(Code::DataFormat, "the files do not hold images of 28 × 28 pixels and digits")
                .because(format!("there are {} pixels and {count} labels", images.pixels.len())));
        }
        Ok(images)
    }
}
