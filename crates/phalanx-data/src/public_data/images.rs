//! Synthetic images of ten classes. Whole numbers only, so that they are the same on every machine.

use crate::{Batch, Column};
use phalanx_base::{Result, SplitMix, mix};

const SIDE: usize = 28;
const CLASSES: usize = 10;
/// A pattern is a grid of squares of four by four pixels, larger than the image by the widest shift.
const SQUARE: usize = 4;
const GRID: usize = 9;
/// Which squares of each class are bright: a quarter of them.
const PATTERNS: [[bool; GRID * GRID]; CLASSES] = patterns();

const fn patterns() -> [[bool; GRID * GRID]; CLASSES] {
    let mut patterns = [[false; GRID * GRID]; CLASSES];
    let mut at = 0;
    while at < CLASSES * GRID * GRID {
        patterns[at / (GRID * GRID)][at % (GRID * GRID)] = mix(at as u64 + 1) & 3 == 0;
        at += 1;
    }
    patterns
}

/// Returns images `first` to `first + count` of a seed, each a function of both.
pub(super) fn images(seed: u64, first: u64, count: u64) -> Result<Batch> {
    let mut pixels = Vec::with_capacity(count as usize * SIDE * SIDE);
    let labels = (first..first + count).map(|row| image(SplitMix::new(mix(mix(seed).wrapping_add(row))), &mut pixels));
    let labels = Column::i64(labels.collect());
    let image = Column::f32(pixels).with_row_shape([SIDE, SIDE])?;
    Batch::new([("image", image), ("label", labels)])?.with_label("label")
}

/// Adds the pixels of an image, and returns its label.
fn image(mut random: SplitMix, pixels: &mut Vec<f32>) -> i64 {
    let class = random.below(CLASSES);
    let (down, right, bright) = (random.below(5), random.below(5), 128 + random.below(64));
    let mut noise = 0;
    for at in 0..SIDE * SIDE {
        if at % 8 == 0 {
            noise = random.word(); // for eight pixels
        }
        let (row, column) = ((at / SIDE + down) / SQUARE, (at % SIDE + right) / SQUARE);
        let speck = (noise & 63) as usize;
        noise >>= 8;
        let pixel = if PATTERNS[class][row * GRID + column] { bright + speck } else { speck / 4 };
        pixels.push(pixel as f32 / 255.0);
    }
    let label = if random.below(20) == 0 { random.below(CLASSES) } else { class };
    label as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_is_there_and_pixels_are_between_0_and_1() {
        let batch = images(1, 500, 2000).unwrap();
        let mut counts = [0; CLASSES];
        batch.i64("label").unwrap().iter().for_each(|&label| counts[label as usize] += 1);
        assert!(counts.iter().all(|count| (120..280).contains(count)), "{counts:?}");
        assert!(batch.f32("image").unwrap().iter().all(|pixel| (0.0..=1.0).contains(pixel)));
        assert_eq!(images(1, 700, 3).unwrap(), batch.slice(200..203));
    }

    /// The mean image of each class is nearest to most images of that class, as a linear model needs it.
    #[test]
    fn the_class_can_be_learned_up_to_the_random_labels() {
        let (train, test) = (images(1, 0, 4000).unwrap(), images(2, 0, 1000).unwrap());
        let mut means = vec![vec![0.0; SIDE * SIDE]; CLASSES];
        let mut counts = [0.0_f32; CLASSES];
        let rows = |batch: &Batch| {
            let pixels = batch.f32("image").unwrap().chunks_exact(SIDE * SIDE).map(<[f32]>::to_vec).collect::<Vec<_>>();
            pixels.into_iter().zip(batch.i64("label").unwrap().to_vec()).collect::<Vec<_>>()
        };
        for (pixels, label) in rows(&train) {
            counts[label as usize] += 1.0;
            means[label as usize].iter_mut().zip(pixels).for_each(|(mean, pixel)| *mean += pixel);
        }
        let distance = |class: usize, image: &[f32]| -> f32 {
            means[class].iter().zip(image).map(|(mean, pixel)| (mean / counts[class] - pixel).powi(2)).sum()
        };
        let right = rows(&test).into_iter().filter(|(image, label)| {
            let nearest = (0..CLASSES).min_by(|&a, &b| distance(a, image).total_cmp(&distance(b, image)));
            nearest == Some(*label as usize)
        });
        let right = right.count();
        assert!((850..975).contains(&right), "{right} of 1000");
    }
}
