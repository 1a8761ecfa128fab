//! The maximum or the mean of windows of images.

use super::{exactly, misfit};
use crate::image::{Border, image, window};
use crate::op::{Operation, Out, Rows};
use crate::pass::Context;
use crate::plan::Size;
use crate::shape::ValueShape;
use phalanx_base::Result;
use phalanx_matmul::Image;
use serde::{Deserialize, Serialize};

/// The maximum, or the mean, of each window of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool2d {
    /// Whether it is the mean.
    pub mean: bool,
    /// Height and width of a window.
    pub size: [usize; 2],
    /// The step between two windows.
    pub strides: [usize; 2],
    /// What lies beyond the images.
    pub border: Border,
}

impl Pool2d {
    fn kernel(self, x: Image) -> Option<phalanx_matmul::Pool2d> {
        phalanx_matmul::Pool2d::new(x, window(self.size, self.strides, [1; 2], self.border, x)?)
    }

    fn of(self, cx: &Context<'_>) -> Option<phalanx_matmul::Pool2d> {
        self.kernel(image(cx.shape(0), cx.rows()).ok()?)
    }
}

impl Operation for Pool2d {
    fn shape(&self, inputs: &[&ValueShape]) -> Result<ValueShape> {
        let [x] = exactly(inputs)?;
        match self.kernel(image(x, 1)?).map(|kernel| kernel.output()) {
            Some(output) => Ok(ValueShape::batch([output.height, output.width, output.channels])),
            None => Err(misfit(format!("images of shape {x} do not fit windows of {:?}", self.size))),
        }
    }

    fn forward(&self, cx: &Context<'_>, out: Out<'_>, kept: &mut [f32]) {
        let Some(kernel) = self.of(cx) else { return };
        match self.mean {
            true => kernel.mean(cx.level(), cx.input(0), out.contiguous()),
            false => kernel.max(cx.level(), cx.input(0), out.contiguous(), bytemuck::cast_slice_mut(kept)),
        }
    }

    fn backward(&self, _: usize, cx: &Context<'_>, gradient: Rows<'_>, to: &mut [f32]) {
        let (Some(kernel), gradient) = (self.of(cx), gradient.contiguous()) else { return };
        match self.mean {
            true => kernel.mean_gradient(cx.level(), gradient, to),
            false => kernel.max_gradient(cx.level(), gradient, bytemuck::cast_slice(cx.kept()), to),
        }
    }

    fn keeps(&self, inputs: &[&ValueShape]) -> Size {
        // The place of each maximum in its window.
        let own = if self.mean { None } else { self.shape(inputs).ok() };
        Size { each: own.map_or(0, |own| own.elements()), fixed: 0 }
    }
}
