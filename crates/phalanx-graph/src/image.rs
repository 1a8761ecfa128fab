//! Images and the windows that move over them.

use crate::shape::{Leading, ValueShape};
use phalanx_base::{Code, Error, Result};
use phalanx_matmul::{Image, Window};
use serde::{Deserialize, Serialize};

/// What lies beyond the border of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Border {
    /// Nothing: windows stay inside.
    #[default]
    Valid,
    /// Zeros, so that there is a window for every stride.
    Same,
}

/// Returns the images of a value `[batch, height, width, channels]`.
pub(crate) fn image(shape: &ValueShape, batch: usize) -> Result<Image> {
    match (shape.leading, shape.dims.as_slice()) {
        (Leading::Batch, &[height, width, channels]) => Ok(Image { batch, height, width, channels }),
        _ => Err(Error::new(Code::ShapeMismatch, format!("an input has shape {shape}"))
            .because("this operation takes images, channels last")),
    }
}

/// Returns a window over an image; `None` if a size is 0 or too large.
pub(crate) fn window(
    size: [usize; 2],
    stride: [usize; 2],
    dilation: [usize; 2],
    border: Border,
    image: Image,
) -> Option<Window> {
    let window = Window { dilation, ..Window::new(size, stride) };
    match border {
        Border::Valid => Some(window),
        Border::Same => window.same([image.height, image.width]),
    }
}
