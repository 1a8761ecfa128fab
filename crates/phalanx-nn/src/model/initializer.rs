//! The initial values of weights.

use super::random::Random;
use phalanx_base::RowInitializer;

/// The divisor of [`Initializer::VarianceScaling`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fan {
    /// The number of inputs of an output.
    In,
    /// The number of outputs of an input.
    Out,
    /// The mean of both.
    Average,
}

/// A distribution of random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Uniform between two bounds.
    Uniform,
    /// Normal without its tails, with the wanted variance after truncation.
    TruncatedNormal,
    /// Normal.
    Normal,
}

/// An initializer of weights: Keras' initializers with Keras' defaults. The same seed gives the same numbers, which are not
/// those of TensorFlow's generator.
///
/// ```
/// use phalanx_nn::model::Initializer;
/// let kernel = Initializer::glorot_uniform().values(&[3, 5], 7);
/// assert_eq!(kernel.len(), 15);
/// assert!(kernel.iter().all(|x| x.abs() <= (6.0_f32 / 8.0).sqrt()));
/// assert_eq!(kernel, Initializer::glorot_uniform().values(&[3, 5], 7));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Initializer {
    /// All 0.
    Zeros,
    /// All 1.
    Ones,
    /// All equal.
    Constant(f32),
    /// Uniform between two bounds.
    RandomUniform {
        /// The lower bound.
        low: f64,
        /// The upper bound.
        high: f64,
    },
    /// A normal distribution.
    RandomNormal {
        /// The mean.
        mean: f64,
        /// The standard deviation.
        deviation: f64,
    },
    /// A normal distribution, truncated at two standard deviations.
    TruncatedNormal {
        /// The mean.
        mean: f64,
        /// The standard deviation before truncation.
        deviation: f64,
    },
    /// A variance of `scale` divided by the weight's fan.
    VarianceScaling {
        /// The variance for a fan of 1.
        scale: f64,
        /// The divisor.
        fan: Fan,
        /// The distribution.
        distribution: Distribution,
    },
    /// A matrix whose columns, or rows if they are fewer, are orthogonal and have the length `gain`.
    Orthogonal {
        /// The length.
        gain: f64,
    },
}

macro_rules! scaled {
    ($($(#[$doc:meta])* $name:ident = $scale:literal, $fan:ident, $distribution:ident;)*) => {
        impl Initializer {
            $($(#[$doc])*
            #[must_use]
            pub fn $name() -> Self {
                Self::VarianceScaling { scale: $scale, fan: Fan::$fan, distribution: Distribution::$distribution }
            })*
        }
    };
}

scaled! {
    /// Uniform within `sqrt(6 / (in + out))`, Keras' default for kernels.
    glorot_uniform = 1.0, Average, Uniform;
    /// Truncated normal with variance `2 / (in + out)`.
    glorot_normal = 1.0, Average, TruncatedNormal;
    /// Uniform within `sqrt(6 / in)`, for relu.
    he_uniform = 2.0, In, Uniform;
    /// Truncated normal with variance `2 / in`, for relu.
    he_normal = 2.0, In, TruncatedNormal;
    /// Uniform within `sqrt(3 / in)`, for selu.
    lecun_uniform = 1.0, In, Uniform;
    /// Truncated normal with variance `1 / in`, for selu.
    lecun_normal = 1.0, In, TruncatedNormal;
}

impl Initializer {
    /// Uniform within 0.05, Keras' default `random_uniform`.
    #[must_use]
    pub fn random_uniform() -> Self {
        Self::RandomUniform { low: -0.05, high: 0.05 }
    }

    /// Normal with a deviation of 0.05, Keras' default `random_normal`.
    #[must_use]
    pub fn random_normal() -> Self {
        Self::RandomNormal { mean: 0.0, deviation: 0.05 }
    }

    /// Truncated normal with a deviation of 0.05, Keras' default `truncated_normal`.
    #[must_use]
    pub fn truncated_normal() -> Self {
        Self::TruncatedNormal { mean: 0.0, deviation: 0.05 }
    }

    /// Orthogonal with a gain of 1.
    #[must_use]
    pub fn orthogonal() -> Self {
        Self::Orthogonal { gain: 1.0 }
    }

    /// Returns the values of a weight of this shape.
    #[must_use]
    pub fn values(&self, dims: &[usize], seed: u64) -> Vec<f32> {
        let mut random = Random::new(seed);
        let mut fill = |draw: &mut dyn FnMut(&mut Random) -> f64| -> Vec<f32> {
            (0..dims.iter().product::<usize>()).map(|_| draw(&mut random) as f32).collect()
        };
        match *self {
            Self::Zeros => fill(&mut |_| 0.0),
            Self::Ones => fill(&mut |_| 1.0),
            Self::Constant(value) => fill(&mut |_| f64::from(value)),
            Self::RandomUniform { low, high } => fill(&mut |random| low + (high - low) * random.uniform()),
            Self::RandomNormal { mean, deviation } => fill(&mut |random| mean + deviation * random.normal()),
            Self::TruncatedNormal { mean, deviation } => {
                fill(&mut |random| mean + deviation * random.truncated_normal())
            }
            Self::VarianceScaling { scale, fan, distribution } => {
                scaled(scale, fan, distribution, dims).values(dims, seed)
            }
            Self::Orthogonal { gain } => orthogonal(gain, dims, &mut random),
        }
    }
}

impl Initializer {
    /// Returns the same distribution as a function of a row's id, for a table of this shape: any part of the table can then
    /// be created anywhere. `None` if the rows depend on each other.
    pub(crate) fn by_row(&self, dims: &[usize], seed: u64) -> Option<RowInitializer> {
        match *self {
            Self::Zeros => Some(RowInitializer::constant(0.0)),
            Self::Ones => Some(RowInitializer::constant(1.0)),
            Self::Constant(value) => Some(RowInitializer::constant(value)),
            Self::RandomUniform { low, high } => Some(RowInitializer::uniform(low as f32, high as f32, seed)),
            Self::RandomNormal { mean, deviation } => Some(RowInitializer::normal(mean as f32, deviation as f32, seed)),
            Self::TruncatedNormal { mean, deviation } => {
                Some(RowInitializer::truncated_normal(mean as f32, deviation as f32, seed))
            }
            Self::VarianceScaling { scale, fan, distribution } => {
                scaled(scale, fan, distribution, dims).by_row(dims, seed)
            }
            Self::Orthogonal { .. } => None,
        }
    }
}

fn scaled(scale: f64, fan: Fan, distribution: Distribution, dims: &[usize]) -> Initializer {
    let (inward, outward) = fans(dims);
    let fan = match fan {
        Fan::In => inward,
        Fan::Out => outward,
        Fan::Average => (inward + outward) / 2.0,
    };
    let variance = scale / fan.max(1.0);
    match distribution {
        Distribution::Uniform => {
            let bound = (3.0 * variance).sqrt();
            Initializer::RandomUniform { low: -bound, high: bound }
        }
        // The standard deviation of a truncated standard normal distribution.
        Distribution::TruncatedNormal => {
            Initializer::TruncatedNormal { mean: 0.0, deviation: variance.sqrt() / 0.879_625_661_034_239_8 }
        }
        Distribution::Normal => Initializer::RandomNormal { mean: 0.0, deviation: variance.sqrt() },
    }
}

/// The number of inputs of an output, and of outputs of an input. All but the last two axes are the receptive field.
fn fans(dims: &[usize]) -> (f64, f64) {
    match dims {
        [] => (1.0, 1.0),
        [n] => (*n as f64, *n as f64),
        [field @ .., inward, outward] => {
            let field = field.iter().product::<usize>() as f64;
            (*inward as f64 * field, *outward as f64 * field)
        }
    }
}

/// Gram-Schmidt, applied twice to recover the digits that the first pass loses.
fn orthogonal(gain: f64, dims: &[usize], random: &mut Random) -> Vec<f32> {
    let columns = dims.last().copied().unwrap_or(1);
    let rows = dims.iter().rev().skip(1).product::<usize>();
    let (long, short) = (rows.max(columns), rows.min(columns));
    let mut vectors: Vec<Vec<f64>> = Vec::with_capacity(short);
    for _ in 0..short {
        let mut vector: Vec<f64> = (0..long).map(|_| random.normal()).collect();
        for _ in 0..2 {
            for other in &vectors {
                let along: f64 = vector.iter().zip(other).map(|(a, b)| a * b).sum();
                vector.iter_mut().zip(other).for_each(|(a, b)| *a -= along * b);
            }
        }
        let length = vector.iter().map(|a| a * a).sum::<f64>().sqrt();
        vector.iter_mut().for_each(|a| *a /= length);
        vectors.push(vector);
    }
    let at = |row: usize, column: usize| if rows < columns { vectors[row][column] } else { vectors[column][row] };
    (0..rows)
        .flat_map(|row| (0..columns).map(move |column| (row, column)))
        .map(|(r, c)| (gain * at(r, c)) as f32)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(values: &[f32]) -> (f64, f64) {
        let n = values.len() as f64;
        let mean = values.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
        (mean, values.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / n)
    }

    #[test]
    fn scaled_initializers_have_the_variance_that_keras_gives_them() {
        let dims = [3, 3, 40, 60];
        for (initializer, expected) in [
            (Initializer::glorot_uniform(), 2.0_f64 / (9.0 * 100.0)),
            (Initializer::glorot_normal(), 2.0 / (9.0 * 100.0)),
            (Initializer::he_uniform(), 2.0 / 360.0),
            (Initializer::he_normal(), 2.0 / 360.0),
            (Initializer::lecun_normal(), 1.0 / 360.0),
            (Initializer::lecun_uniform(), 1.0 / 360.0),
            (Initializer::random_normal(), 0.0025),
            (Initializer::random_uniform(), 0.01 / 12.0),
            (Initializer::truncated_normal(), 0.0025 * 0.8796 * 0.8796),
        ] {
            let (mean, variance) = moments(&initializer.values(&dims, 3));
            assert!(mean.abs() < 0.02 * expected.sqrt(), "{initializer:?}: mean {mean}");
            assert!((variance / expected - 1.0).abs() < 0.03, "{initializer:?}: {variance}, expected {expected}");
        }
    }

    #[test]
    fn an_orthogonal_matrix_has_orthogonal_columns_or_rows() {
        for (rows, columns) in [(7, 4), (4, 7)] {
            let q = Initializer::Orthogonal { gain: 2.0 }.values(&[rows, columns], 1);
            let at = |i: usize, k: usize| if rows > columns { q[k * columns + i] } else { q[i * columns + k] };
            for i in 0..4 {
                for j in 0..4 {
                    let product: f32 = (0..7).map(|k| at(i, k) * at(j, k)).sum();
                    assert!((product - if i == j { 4.0 } else { 0.0 }).abs() < 1e-5, "{i} {j}: {product}");
                }
            }
        }
    }
}
