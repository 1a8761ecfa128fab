//! The bridge between models on Burn and named flat slices.
//!
//! The only room that names the tensor library. A [`Book`] lists a module's trainable parameters by name; values go
//! into the module and gradients come out of it as raw numbers. [`Rows`] does the same for the rows of a table that a
//! batch needs.

mod book;
mod finite;
pub mod losses;
pub mod metrics;
pub mod model;
mod numbers;
mod rows;
mod threads;

pub use book::{Book, Parameter};
pub use finite::all_finite;
pub use numbers::{scalar, to_bytes};
pub use rows::Rows;
pub use threads::with_threads;

/// The tensor library, for who writes models.
pub use burn;

/// Where models are computed unless somebody says otherwise: this machine's processor, with gradients.
#[must_use]
pub fn default_device() -> burn::tensor::Device {
    burn::tensor::Device::flex().autodiff()
}
