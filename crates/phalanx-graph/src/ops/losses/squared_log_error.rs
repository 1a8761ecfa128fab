//! The squared error of logarithms.

use super::EPSILON;
use super::Terms;
use serde::{Deserialize, Serialize};

/// The mean of `(ln(prediction + 1) - ln(label + 1))²`; negative numbers count as 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SquaredLogError;

impl Terms for SquaredLogError {
    fn term(&self, prediction: f32, label: f32) -> f32 {
        (prediction.max(EPSILON).ln_1p() - label.max(EPSILON).ln_1p()).powi(2)
    }

    fn slope(&self, prediction: f32, label: f32) -> f32 {
        if prediction < EPSILON {
            return 0.0;
        }
        2.0 * (prediction.ln_1p() - label.max(EPSILON).ln_1p()) / (prediction + 1.0)
    }
}
