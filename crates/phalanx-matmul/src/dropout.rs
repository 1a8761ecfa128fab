//! Dropout by a counter-based generator.

use crate::Level;
use crate::level::leveled;
use crate::parallel::{GRAIN, In, Out, by_rows, check};

/// Which numbers of a tensor are dropped. Number `i` depends on the seed and on `i` alone, so neither the number of threads
/// nor the instruction set changes it, and the backward pass needs no mask: it draws the numbers again.
///
/// ```
/// use phalanx_matmul::{Dropout, Level};
///
/// let dropout = Dropout { seed: 7, rate: 0.5 };
/// let mut y = [0.0; 1000];
/// dropout.apply(Level::detect(), &[1.0; 1000], &mut y);
/// assert!(y.iter().all(|&y| y == 0.0 || y == 2.0));
/// assert!((400..600).contains(&y.iter().filter(|&&y| y == 0.0).count()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    /// The seed of the step and the layer.
    pub seed: u64,
    /// The fraction that is dropped, between 0 and 1.
    pub rate: f32,
}

impl Dropout {
    /// Writes the numbers, dropped ones as 0 and the others scaled to preserve the expected sum. Of a gradient of the
    /// outputs, this is the gradient of the inputs.
    ///
    /// # Panics
    /// If the slices have different lengths.
    pub fn apply(self, level: Level, x: &[f32], y: &mut [f32]) {
        check("the inputs", x, y.len(), 1);
        // 0 to 2 to the 24th, so that a rate of 1 drops all and one of 0 none; NaN drops none.
        let threshold = (f64::from(self.rate) * f64::from(1 << 24)).ceil() as u32;
        let scale = if self.rate < 1.0 { 1.0 / (1.0 - self.rate) } else { 0.0 };
        let key = [self.seed as u32, (self.seed >> 32) as u32];
        by_rows(x.len(), GRAIN, (0..x.len(), In(x, 1), Out(y, 1)), &|(range, x, y)| {
            drop_part(level, key, range.start, threshold, scale, x.0, y.0);
        });
    }
}

leveled! {
    fn drop_part(key: [u32; 2], first: usize, threshold: u32, scale: f32, x: &[f32], y: &mut [f32]) => drop_body;
}

/// Blocks of four numbers that are drawn at once.
const BLOCKS: usize = 16;
/// Numbers that are drawn at once: number `16 w + i` of them is word `w` of block `i`.
const DRAWN: usize = 4 * BLOCKS;

#[inline(always)]
fn drop_body<const F: bool>(key: [u32; 2], first: usize, threshold: u32, scale: f32, x: &[f32], y: &mut [f32]) {
    let mut at = 0;
    while at < x.len() {
        let (draw, skipped) = ((first + at) / DRAWN, (first + at) % DRAWN);
        let words = philox(key, draw as u64 * BLOCKS as u64);
        let count = (DRAWN - skipped).min(x.len() - at);
        for ((y, &x), &word) in y[at..at + count].iter_mut().zip(&x[at..at + count]).zip(&words[skipped..]) {
            *y = if word >> 8 < threshold { 0.0 } else { x * scale };
        }
        at += count;
    }
}

/// Philox 4×32 with ten rounds (Salmon and others, 2011), for consecutive blocks: word `w` of all blocks, then word `w + 1`.
#[inline(always)]
fn philox(key: [u32; 2], block: u64) -> [u32; DRAWN] {
    let mut words = [[0_u32; BLOCKS]; 4];
    for i in 0..BLOCKS {
        let counter = block.wrapping_add(i as u64);
        words[0][i] = counter as u32;
        words[1][i] = (counter >> 32) as u32;
    }
    let mut key = key;
    for _ in 0..10 {
        for i in 0..BLOCKS {
            let a = u64::from(words[0][i]) * 0xd251_1f53;
            let b = u64::from(words[2][i]) * 0xcd9e_8d57;
            words[0][i] = (b >> 32) as u32 ^ words[1][i] ^ key[0];
            words[1][i] = b as u32;
            words[2][i] = (a >> 32) as u32 ^ words[3][i] ^ key[1];
            words[3][i] = a as u32;
        }
        key = [key[0].wrapping_add(0x9e37_79b9), key[1].wrapping_add(0xbb67_ae85)];
    }
    let mut drawn = [0; DRAWN];
    for (drawn, words) in drawn.as_chunks_mut::<BLOCKS>().0.iter_mut().zip(&words) {
        *drawn = *words;
    }
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first words of the paper's own known answers: counter and key 0.
    #[test]
    fn the_numbers_are_those_of_the_authors() {
        let drawn = philox([0, 0], 0);
        assert_eq!([0, 1, 2, 3].map(|w| drawn[w * BLOCKS]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    }
}
