//! MNIST in memory.

use phalanx::data::{Batch, Column, Dataset, Idx, SourceExt, mnist_test, mnist_train};
use phalanx::{Code, Error, Result};
use std::path::Path;

/// Returns the training and the test images, the mean training image subtracted. Without that, a learning rate of 0.5 is barely
/// stable, and the stale gradients of asynchronous workers make the final accuracy a matter of luck.
pub(crate) fn centred(folder: &Path) -> Result<[Dataset; 2]> {
    let [train, test] = [read(mnist_train(folder))?, read(mnist_test(folder))?];
    let mut mean = vec![0.0; 784];
    for image in train.f32("image")?.chunks_exact(784) {
        mean.iter_mut().zip(image).for_each(|(sum, pixel)| *sum += pixel / train.rows() as f32);
    }
    let centre = |digits: Batch| {
        let pixels = digits.f32("image")?.iter().zip(mean.iter().cycle()).map(|(pixel, mean)| pixel - mean).collect();
        Ok(Dataset::from_tensor_slices(digits.with_column("image", Column::f32(pixels).with_row_shape([784])?)?))
    };
    Ok([centre(train)?, centre(test)?])
}

fn read(digits: Idx) -> Result<Batch> {
    let batches = digits.scaled("image").batch(10_000).iter().and_then(Iterator::collect::<Result<Vec<Batch>>>);
    let all = batches.and_then(|batches| Batch::concat(&batches));
    let all = all.map_err(|error| error.help("give the folder of MNIST's four files with --data-dir"))?;
    if all.is_empty() || all.f32("image")?.len() != 784 * all.rows() {
        return Err(Error::new(Code::DataFormat, "the files do not hold images of 28 × 28 pixels"));
    }
    Ok(all)
}
