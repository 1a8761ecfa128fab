//! The bridge between Burn models and named buffers of numbers, and Keras' layers, losses and metrics.
//!
//! A [`ParameterRegistry`] lists the trainable parameters of a module by name, loads values into the module and takes
//! gradients out of it as raw numbers. [`Rows`] does the same for the embedding rows that a batch needs.

/// Generates builder methods that set a field.
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $value:ty => $($field:ident).+;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, $name: $value) -> Self {
            self.$($field).+ = $name.into();
            self
        }
    )*};
}

mod device;
mod finite;
mod fused_dense;
mod host_buffer;
mod lookup;
pub mod losses;
mod matmul;
pub mod metrics;
pub mod model;
mod network;
mod parameter_values;
mod registry;
mod rows;
mod threads;
mod uninit;

pub use device::{default_device, device};
pub use finite::all_finite;
pub use fused_dense::fused_dense;
pub use host_buffer::{HostBuffer, scalar};
pub use matmul::matmul;
pub use network::Network;
pub use parameter_values::ParameterValues;
pub use phalanx_matmul::Precision;
pub use registry::{Parameter, ParameterKey, ParameterRegistry, Parameters};
pub use rows::Rows;
pub use threads::{Slots, with_threads};

/// The tensor library that models are written with.
pub use burn;
