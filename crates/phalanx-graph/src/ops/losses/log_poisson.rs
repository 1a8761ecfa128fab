//! The Poisson loss of counts.

use super::Terms;
use serde::{Deserialize, Serialize};

/// The mean of `tf.nn.log_poisson_loss` with its full loss: a prediction is the logarithm of the expected count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogPoisson;

impl Terms for LogPoisson {
    fn term(&self, logit: f32, count: f32) -> f32 {
        // Stirling's approximation of the constant term, which is 0 for counts up to 1.
        let constant =
            if count > 1.0 { count * count.ln() - count + 0.5 * (count * std::f32::consts::TAU).ln() } else { 0.0 };
        logit.exp() - count * logit + constant
    }

    fn slope(&self, logit: f32, count: f32) -> f32 {
        logit.exp() - count
    }
}
