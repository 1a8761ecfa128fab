//! The absolute error.

use super::Terms;
use super::sign;
use serde::{Deserialize, Serialize};

/// The mean of `|prediction - label|`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbsoluteError;

impl Terms for AbsoluteError {
    fn term(&self, prediction: f32, label: f32) -> f32 {
        (prediction - label).abs()
    }

    fn slope(&self, prediction: f32, label: f32) -> f32 {
        sign(prediction - label)
    }
}
