//! The squared error.

use super::Terms;
use serde::{Deserialize, Serialize};

/// The mean of `(prediction - label)²`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SquaredError;

impl Terms for SquaredError {
    fn term(&self, prediction: f32, label: f32) -> f32 {
        (prediction - label) * (prediction - label)
    }

    fn slope(&self, prediction: f32, label: f32) -> f32 {
        2.0 * (prediction - label)
    }
}
