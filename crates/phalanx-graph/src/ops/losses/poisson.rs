//! The Poisson loss of expected counts.

use super::EPSILON;
use super::Terms;
use serde::{Deserialize, Serialize};

/// The mean of `prediction - label · ln(prediction)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Poisson;

impl Terms for Poisson {
    fn term(&self, prediction: f32, label: f32) -> f32 {
        prediction - label * (prediction + EPSILON).ln()
    }

    fn slope(&self, prediction: f32, label: f32) -> f32 {
        1.0 - label / (prediction + EPSILON)
    }
}
