//! Sample weights, with Keras' broadcasting.

use phalanx_base::{Code, Error, Result};

/// Sample weights that match the values they apply to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Weights<'a> {
    /// All weights are 1.
    None,
    /// One weight for everything.
    Scalar(f32),
    /// One weight per example, or per value.
    Each { weights: &'a [f32], values_per_weight: usize },
}

impl<'a> Weights<'a> {
    /// Checks weights for `examples` rows of `width` values: a single one, one per example, or one per value.
    pub(crate) fn new(weights: Option<&'a [f32]>, examples: usize, width: usize) -> Result<Self> {
        match weights {
            None => Ok(Self::None),
            Some(weights) if weights.len() == examples => Ok(Self::Each { weights, values_per_weight: width.max(1) }),
            Some(&[weight]) => Ok(Self::Scalar(weight)),
            Some(weights) if weights.len() == examples * width => Ok(Self::Each { weights, values_per_weight: 1 }),
            Some(weights) => {
                let what = format!("{} sample weights do not fit {examples} examples of {width} values", weights.len());
                Err(Error::new(Code::ShapeMismatch, what).help("give one weight for each example"))
            }
        }
    }

    /// The weighted sum of all values.
    pub(crate) fn sum(&self, values: impl Iterator<Item = f64>) -> f64 {
        values.enumerate().map(|(index, value)| value * self.of(index)).sum()
    }

    /// The weight of the value with this index.
    #[inline]
    pub(crate) fn of(&self, value: usize) -> f64 {
        match *self {
            Self::None => 1.0,
            Self::Scalar(weight) => f64::from(weight),
            Self::Each { weights, values_per_weight } => f64::from(weights[value / values_per_weight]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(weights: Option<&[f32]>, examples: usize, width: usize) -> Result<Vec<f64>> {
        let weights = Weights::new(weights, examples, width)?;
        Ok((0..examples * width).map(|value| weights.of(value)).collect())
    }

    #[test]
    fn weights_spread_over_rows_and_values() {
        assert_eq!(all(None, 2, 2).unwrap(), [1.0; 4]);
        assert_eq!(all(Some(&[0.5]), 2, 2).unwrap(), [0.5; 4]);
        assert_eq!(all(Some(&[1.0, 2.0]), 2, 2).unwrap(), [1.0, 1.0, 2.0, 2.0]);
        assert_eq!(all(Some(&[1.0, 2.0, 3.0, 4.0]), 2, 2).unwrap(), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(all(Some(&[]), 0, 2).unwrap(), [0.0; 0]);
        assert_eq!(all(Some(&[1.0; 3]), 2, 2).unwrap_err().code(), Code::ShapeMismatch);
    }
}
