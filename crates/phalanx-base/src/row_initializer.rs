//! The first value of a table's row: a function of the seed, the id and the column, so that any server creates the same row
//! in any order and at any time.

use crate::{STRIDE, mix};

/// The distribution of a table's initial values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowDistribution {
    /// All equal to the first parameter.
    Constant,
    /// Uniform from the first to the second parameter.
    Uniform,
    /// Normal; the parameters are mean and deviation.
    Normal,
    /// Normal without its tails beyond two deviations.
    TruncatedNormal,
}

/// The first value of a row that has never been touched.
///
/// ```
/// use phalanx_base::RowInitializer;
/// let mut row = [0.0; 4];
/// RowInitializer::uniform(-0.1, 0.1, 7).fill(42, &mut row);
/// assert!(row.iter().all(|x| x.abs() <= 0.1) && row[0] != row[1]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowInitializer {
    /// The distribution.
    pub kind: RowDistribution,
    /// Its parameters.
    pub parameters: [f32; 2],
    /// The seed.
    pub seed: u64,
}

impl RowInitializer {
    /// Every number is `value`.
    #[must_use]
    pub fn constant(value: f32) -> Self {
        Self { kind: RowDistribution::Constant, parameters: [value, 0.0], seed: 0 }
    }

    /// Numbers from `low` to `high`.
    #[must_use]
    pub fn uniform(low: f32, high: f32, seed: u64) -> Self {
        Self { kind: RowDistribution::Uniform, parameters: [low, high], seed }
    }

    /// Normally distributed numbers.
    #[must_use]
    pub fn normal(mean: f32, stddev: f32, seed: u64) -> Self {
        Self { kind: RowDistribution::Normal, parameters: [mean, stddev], seed }
    }

    /// Normally distributed numbers within two deviations, as TensorFlow initializes embeddings.
    #[must_use]
    pub fn truncated_normal(mean: f32, stddev: f32, seed: u64) -> Self {
        Self { kind: RowDistribution::TruncatedNormal, parameters: [mean, stddev], seed }
    }

    /// Returns the mean of all initial values.
    #[must_use]
    pub fn mean(&self) -> f32 {
        let [a, b] = self.parameters;
        if self.kind == RowDistribution::Uniform { f32::midpoint(a, b) } else { a }
    }

    /// Fills the row of `id`.
    pub fn fill(&self, id: i64, row: &mut [f32]) {
        let [a, b] = self.parameters;
        let start = mix(self.seed ^ mix(id as u64));
        for (column, value) in (1..).zip(row) {
            let random = mix(start.wrapping_add(u64::wrapping_mul(column, STRIDE)));
            *value = match self.kind {
                RowDistribution::Constant => a,
                RowDistribution::Uniform => a + (b - a) * unit(random >> 40),
                RowDistribution::Normal => a + b * normal(random),
                RowDistribution::TruncatedNormal => {
                    let mut random = random;
                    while normal(random).abs() >= 2.0 {
                        random = mix(random.wrapping_add(STRIDE));
                    }
                    a + b * normal(random)
                }
            };
        }
    }

    /// Returns the values of the rows of the ids 0 to `rows`, back to back.
    #[must_use]
    pub fn table(&self, rows: usize, dim: usize) -> Vec<f32> {
        let mut values = vec![0.0; rows * dim];
        (0..).zip(values.chunks_exact_mut(dim.max(1))).for_each(|(id, row)| self.fill(id, row));
        values
    }
}

/// Returns a number of the standard normal distribution (Box and Muller).
fn normal(random: u64) -> f32 {
    let radius = (-2.0 * (1.0 - unit(random >> 40)).ln()).sqrt();
    let angle = std::f32::consts::TAU * unit((random >> 8) & 0x00ff_ffff);
    radius * angle.cos()
}

/// Returns 24 random bits as a number from 0 up to, but not including, 1.
fn unit(bits: u64) -> f32 {
    bits as f32 / 16_777_216.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_moments_they_should_have() {
        let mut row = vec![0.0; 20_000];
        for (initializer, mean, deviation) in [
            (RowInitializer::constant(0.5), 0.5, 0.0),
            (RowInitializer::uniform(-1.0, 3.0, 1), 1.0, 4.0 / 12.0_f64.sqrt()),
            (RowInitializer::normal(2.0, 0.5, 1), 2.0, 0.5),
            (RowInitializer::truncated_normal(1.0, 0.5, 1), 1.0, 0.5 * 0.879_6),
        ] {
            initializer.fill(9, &mut row);
            let n = row.len() as f64;
            let seen_mean = row.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
            let seen = (row.iter().map(|&x| (f64::from(x) - seen_mean).powi(2)).sum::<f64>() / n).sqrt();
            assert!((seen_mean - mean).abs() < 0.03 && (seen - deviation).abs() < 0.03, "{initializer:?}");
        }
    }

    #[test]
    fn rows_depend_on_id_and_seed_and_on_nothing_else() {
        let row = |id, seed| {
            let mut row = [0.0; 8];
            RowInitializer::uniform(0.0, 1.0, seed).fill(id, &mut row);
            row
        };
        assert_eq!(row(5, 1), row(5, 1));
        assert_ne!(row(5, 1), row(6, 1));
        assert_ne!(row(5, 1), row(5, 2));
    }
}
