//! Keras' layers.

mod conv;
mod dense;
mod dot;
mod dropout;
mod embedding;
mod merge;
mod norm;
mod pool;
mod shape;

pub use conv::Conv2D;
pub use dense::{Activation, Dense};
pub use dot::Dot;
pub use dropout::Dropout;
pub use embedding::Embedding;
pub use merge::{Add, Average, Concatenate, Maximum, Minimum, Multiply, Subtract};
pub use norm::{BatchNormalization, LayerNormalization};
pub use pool::{AveragePooling2D, GlobalAveragePooling2D, MaxPooling2D};
pub use shape::{Flatten, Reshape};
