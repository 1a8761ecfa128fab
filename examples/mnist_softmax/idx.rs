//! MNIST's IDX files.

use flate2::read::GzDecoder;
use phalanx::{Code, Error, Result};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Images of 28 × 28 numbers, and their digits.
pub(crate) struct Images {
    pub(crate) pixels: Vec<f32>,
    pub(crate) labels: Vec<u8>,
}

pub(crate) struct Mnist {
    pub(crate) train: Images,
    pub(crate) test: Images,
}

impl Mnist {
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        let mut mnist = Self { train: Images::read(folder, "train")?, test: Images::read(folder, "t10k")? };
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
    fn read(folder: &Path, which: &str) -> Result<Self> {
        let pixels = read_idx(folder, &format!("{which}-images-idx3-ubyte"), &[28, 28])?;
        let labels = read_idx(folder, &format!("{which}-labels-idx1-ubyte"), &[])?;
        if pixels.len() != labels.len() * 784 || labels.iter().any(|&digit| digit > 9) {
            return Err(Error::new(Code::DataFormat, "images and labels do not belong together")
                .at(folder.display().to_string())
                .because(format!("{} images, {} labels", pixels.len() / 784, labels.len())));
        }
        Ok(Self { pixels: pixels.into_iter().map(|p| f32::from(p) / 255.0).collect(), labels })
    }
}

/// The bytes of an IDX file of unsigned bytes whose items have the extents `item`.
fn read_idx(folder: &Path, name: &str, item: &[u32]) -> Result<Vec<u8>> {
    let plain = folder.join(name);
    let packed = folder.join(format!("{name}.gz"));
    let (path, gzip) = if plain.exists() { (plain, false) } else { (packed, true) };
    let place = path.display().to_string();
    let missing = |error| {
        Error::new(Code::DataMissing, format!("{name} cannot be read"))
            .at(place.clone())
            .because(error)
            .help("give the folder that has MNIST's four files with --data-dir")
    };
    let file = File::open(&path).map_err(missing)?;
    let mut bytes = Vec::new();
    // MNIST's largest file has 47 MB; one that unpacks to more is something else.
    let limit = 64 << 20;
    let read = if gzip {
        GzDecoder::new(file).take(limit).read_to_end(&mut bytes)
    } else {
        file.take(limit).read_to_end(&mut bytes)
    };
    read.map_err(missing)?;
    let wrong = |why: String| {
        Error::new(Code::DataFormat, format!("{name} is not an IDX file of bytes")).at(place.clone()).because(why)
    };
    let header = 4 * (2 + item.len());
    let word = |i: usize| bytes.get(4 * i..4 * i + 4).map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]));
    if word(0) != Some(0x0800 | (1 + item.len() as u32)) {
        return Err(wrong(format!("it starts with {:02x?}", &bytes[..bytes.len().min(4)])));
    }
    let extents: Option<Vec<u32>> = (0..item.len()).map(|i| word(2 + i)).collect();
    let count = word(1).ok_or_else(|| wrong("it ends in its header".into()))? as u64;
    let body = count * item.iter().map(|&d| u64::from(d)).product::<u64>();
    if extents.as_deref() != Some(item) || (bytes.len() as u64) != header as u64 + body {
        return Err(wrong(format!("{count} items of {extents:?} do not fit its {} bytes", bytes.len())));
    }
    Ok(bytes.split_off(header))
}
