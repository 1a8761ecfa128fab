//! A convolutional network for images of 28 × 28 pixels in ten classes.

use phalanx::layers::{Conv2D, Dense, Dropout, Flatten, MaxPooling2D, Reshape};
use phalanx::prelude::*;

pub(crate) fn cnn() -> Sequential {
    let relu = Function::Relu;
    Sequential::new()
        .add(Reshape::new([28, 28, 1]))
        .add(Conv2D::new(32, [3, 3]).activation(relu))
        .add(MaxPooling2D::new([2, 2]))
        .add(Conv2D::new(64, [3, 3]).activation(relu))
        .add(MaxPooling2D::new([2, 2]))
        .add(Flatten::new())
        .add(Dropout::new(0.3))
        .add(Dense::new(128).activation(relu))
        .add(Dense::new(10))
}
