//! The Huber loss.

use super::Terms;
use serde::{Deserialize, Serialize};

/// The mean of `error² / 2` up to `delta`, then of its tangent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Huber {
    /// Where the tangent begins.
    pub delta: f32,
}

impl Terms for Huber {
    fn term(&self, prediction: f32, label: f32) -> f32 {
        let error = (prediction - label).abs();
        let inside = error.min(self.delta);
        0.5 * inside * inside + self.delta * (error - inside)
    }

    fn slope(&self, prediction: f32, label: f32) -> f32 {
        (prediction - label).clamp(-self.delta, self.delta)
    }
}
