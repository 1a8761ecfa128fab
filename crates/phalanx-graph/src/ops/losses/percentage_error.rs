//! The absolute error in percent of the label.

use super::Terms;
use super::{EPSILON, sign};
use serde::{Deserialize, Serialize};

/// The mean of `100 |prediction - label| / |label|`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PercentageError;

impl Terms for PercentageError {
    fn term(&self, prediction: f32, label: f32) -> f32 {
        100.0 * ((prediction - label) / label.abs().max(EPSILON)).abs()
    }

    fn slope(&self, prediction: f32, label: f32) -> f32 {
        100.0 * sign(prediction - label) / label.abs().max(EPSILON)
    }
}
