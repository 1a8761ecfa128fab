//! The bridge between models on Burn and named flat slices.
//!
//! The only room that names the tensor library. A [`Book`] lists a module's trainable parameters by name; values go
//! into the module and gradients come out of it as raw numbers. [`Rows`] does the same for the rows of a table that a
//! batch needs.

mod blank;
mod book;
mod device;
mod finite;
mod layer;
mod lookup;
pub mod losses;
pub mod metrics;
pub mod model;
mod network;
mod numbers;
mod product;
mod rows;
mod threads;

pub use book::{Book, Parameter};
pub use device::{default_device, device};
pub use finite::all_finite;
pub use layer::layer;
pub use network::Network;
pub use numbers::{Flat, scalar};
pub use phalanx_matmul::Precision;
pub use product::matmul;
pub use rows::Rows;
pub use threads::{Slots, with_threads};

/// The tensor library, for who writes models.
pub use burn;
