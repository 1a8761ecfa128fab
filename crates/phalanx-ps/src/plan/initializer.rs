//! The first value of a table's row: a function of the seed, the id and the column, so that any server creates the same row
//! in any order and at any time.

use crate::proto::{Initializer, initializer::Kind};
use phalanx_base::{Code, Error, Result, STRIDE, mix};

/// The first value of a row that has never been touched.
///
/// ```
/// use phalanx_ps::plan::RowInitializer;
/// let mut row = [0.0; 4];
/// RowInitializer::uniform(-0.1, 0.1, 7).fill(42, &mut row);
/// assert!(row.iter().all(|x| x.abs() <= 0.1) && row[0] != row[1]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowInitializer {
    kind: Kind,
    a: f32,
    b: f32,
    seed: u64,
}

impl RowInitializer {
    /// Every number is `value`.
    #[must_use]
    pub fn constant(value: f32) -> Self {
        Self { kind: Kind::Constant, a: value, b: 0.0, seed: 0 }
    }

    /// Numbers from `low` to `high`.
    #[must_use]
    pub fn uniform(low: f32, high: f32, seed: u64) -> Self {
        Self { kind: Kind::Uniform, a: low, b: high, seed }
    }

    /// Normally distributed numbers.
    #[must_use]
    pub fn normal(mean: f32, stddev: f32, seed: u64) -> Self {
        Self { kind: Kind::Normal, a: mean, b: stddev, seed }
    }

    /// Normally distributed numbers within two deviations, as TensorFlow initializes embeddings.
    #[must_use]
    pub fn truncated_normal(mean: f32, stddev: f32, seed: u64) -> Self {
        Self { kind: Kind::TruncatedNormal, a: mean, b: stddev, seed }
    }

    /// Returns the mean of all initial values.
    #[must_use]
    pub fn mean(&self) -> f32 {
        if self.kind == Kind::Uniform { f32::midpoint(self.a, self.b) } else { self.a }
    }

    /// Fills the row of `id`.
    pub fn fill(&self, id: i64, row: &mut [f32]) {
        let start = mix(self.seed ^ mix(id as u64));
        for (column, value) in (1..).zip(row) {
            let random = mix(start.wrapping_add(u64::wrapping_mul(column, STRIDE)));
            *value = match self.kind {
                Kind::Constant => self.a,
                Kind::Uniform => self.a + (self.b - self.a) * unit(random >> 40),
                Kind::Normal => self.a + self.b * normal(random),
                Kind::TruncatedNormal => {
                    let mut random = random;
                    while normal(random).abs() >= 2.0 {
                        random = mix(random.wrapping_add(STRIDE));
                    }
                    self.a + self.b * normal(random)
                }
            };
        }
    }

    pub(crate) fn to_wire(self) -> Initializer {
        Initializer { kind: self.kind.into(), a: self.a, b: self.b, seed: self.seed }
    }

    pub(crate) fn from_wire(wire: &Initializer) -> Result<Self> {
        let kind = Kind::try_from(wire.kind).ok().filter(|_| wire.a.is_finite() && wire.b.is_finite());
        let kind = kind.ok_or_else(|| Error::new(Code::BadMessage, "an initializer is not one this build knows"))?;
        Ok(Self { kind, a: wire.a, b: wire.b, seed: wire.seed })
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
