//! The logarithm of the hyperbolic cosine of the error.

use super::Terms;
use serde::{Deserialize, Serialize};

/// The mean of `ln(cosh(prediction - label))`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogCosh;

impl Terms for LogCosh {
    fn term(&self, prediction: f32, label: f32) -> f32 {
        // ln cosh x = |x| + ln(1 + e^(-2|x|)) - ln 2, which does not overflow.
        let error = (prediction - label).abs();
        error + (-2.0 * error).exp().ln_1p() - std::f32::consts::LN_2
    }

    fn slope(&self, prediction: f32, label: f32) -> f32 {
        (prediction - label).tanh()
    }
}
