//! Convolution of images.

use super::{exactly, misfit};
use crate::image::{Border, image, window};
use crate::op::{Operation, Out, Reads, Rows};
use crate::pass::Context;
use crate::plan::Size;
use crate::shape::ValueShape;
use phalanx_base::Result;
use phalanx_matmul::{Activation, Image, column_sums, relu_gradient_sums};
use serde::{Deserialize, Serialize};

/// A convolution of images, channels last, with ReLU if `relu` is set. The inputs are the images, the kernel
/// `[height, width, channels / groups, filters]` and, if it has one, the bias. Nothing is transposed or copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conv2d {
    /// The step between two places of the kernel.
    pub strides: [usize; 2],
    /// The step between two numbers of the kernel.
    pub dilations: [usize; 2],
    /// What lies beyond the images.
    pub border: Border,
    /// The groups that channels and filters are divided into.
    pub groups: usize,
    /// Whether negative sums become 0.
    pub relu: bool,
}

impl Conv2d {
    fn kernel(self, x: Image, kernel: &[usize]) -> Option<phalanx_matmul::Conv2d> {
        let &[height, width, channels, filters] = kernel else { return None };
        if channels.checked_mul(self.groups) != Some(x.channels) {
            return None;
        }
        let window = window([height, width], self.strides, self.dilations, self.border, x)?;
        phalanx_matmul::Conv2d::new(x, window, filters, self.groups)
    }

    fn of(self, cx: &Context<'_>) -> Option<phalanx_matmul::Conv2d> {
        self.kernel(image(cx.shape(0), cx.rows()).ok()?, &cx.shape(1).dims)
    }
}

impl Operation for Conv2d {
    fn shape(&self, inputs: &[&ValueShape]) -> Result<ValueShape> {
        let (x, kernel, bias) = match *inputs {
            [x, kernel] => (x, kernel, None),
            _ => exactly::<3, _>(inputs).map(|[x, kernel, bias]| (x, kernel, Some(bias)))?,
        };
        let found = self.kernel(image(x, 1)?, &kernel.dims).map(|kernel| kernel.output());
        match found.filter(|output| bias.is_none_or(|bias| bias.dims == [output.channels])) {
            Some(output) => Ok(ValueShape::batch([output.height, output.width, output.channels])),
            None => Err(misfit(format!("images of shape {x} do not fit a kernel of shape {kernel}"))),
        }
    }

    fn forward(&self, cx: &Context<'_>, out: Out<'_>, _: &mut [f32]) {
        let Some(kernel) = self.of(cx) else { return };
        let bias = (cx.count() > 2).then(|| cx.input(2));
        let activation = if self.relu { Activation::Relu } else { Activation::Linear };
        let out = out.contiguous();
        cx.with_scratch(kernel.scratch(cx.level()), |scratch| {
            kernel.forward(cx.level(), cx.input(0), cx.input(1), bias, activation, out, scratch);
        });
    }

    fn prepare_backward(&self, cx: &Context<'_>, gradient: &mut [f32], kept: &mut [f32]) {
        match self.relu {
            true => relu_gradient_sums(cx.level(), cx.output(), gradient, kept),
            false => column_sums(cx.level(), gradient, kept),
        }
    }

    fn backward(&self, input: usize, cx: &Context<'_>, gradient: Rows<'_>, to: &mut [f32]) {
        let (Some(kernel), gradient) = (self.of(cx), gradient.contiguous()) else { return };
        cx.with_scratch(kernel.scratch(cx.level()), |scratch| match input {
            0 => kernel.input_gradient(cx.level(), gradient, cx.input(1), to, scratch),
            1 => kernel.kernel_gradient(cx.level(), cx.input(0), gradient, to, scratch),
            _ => to.copy_from_slice(cx.kept()),
        });
    }

    fn reads(&self) -> Reads {
        Reads { inputs: true, output: self.relu }
    }

    fn keeps(&self, inputs: &[&ValueShape]) -> Size {
        // The gradient of the bias, which is summed up in the pass through ReLU.
        Size { each: 0, fixed: inputs.get(1).map_or(0, |kernel| kernel.width()) }
    }
}
