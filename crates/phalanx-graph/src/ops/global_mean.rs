//! The mean of every channel of an image.

use super::exactly;
use crate::image::image;
use crate::op::{Operation, Out, Rows};
use crate::pass::Context;
use crate::shape::ValueShape;
use phalanx_base::Result;
use phalanx_matmul::{global_mean, global_mean_gradient};
use serde::{Deserialize, Serialize};

/// The mean of each channel over an image: Keras' `GlobalAveragePooling2D`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GlobalMean {
    /// Whether the axes of height and width stay, with size 1.
    pub keep_dims: bool,
}

impl Operation for GlobalMean {
    fn shape(&self, inputs: &[&ValueShape]) -> Result<ValueShape> {
        let [x] = exactly(inputs)?;
        let channels = image(x, 1)?.channels;
        Ok(ValueShape::batch(if self.keep_dims { vec![1, 1, channels] } else { vec![channels] }))
    }

    fn forward(&self, cx: &Context<'_>, out: Out<'_>, _: &mut [f32]) {
        if let Ok(image) = image(cx.shape(0), cx.rows()) {
            global_mean(cx.level(), image, cx.input(0), out.contiguous());
        }
    }

    fn backward(&self, _: usize, cx: &Context<'_>, gradient: Rows<'_>, to: &mut [f32]) {
        if let Ok(image) = image(cx.shape(0), cx.rows()) {
            global_mean_gradient(cx.level(), image, gradient.contiguous(), to);
        }
    }
}
