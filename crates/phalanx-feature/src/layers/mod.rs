//! Keras' preprocessing layers beside the lookups.

mod category_encoding;
mod crossing;
mod discretization;
mod hashing;
mod normalization;
mod quantiles;
mod siphash;

pub use category_encoding::CategoryEncoding;
pub use crossing::{CategoryCrossing, HashedCrossing};
pub use discretization::Discretization;
pub use hashing::{Hashing, Salt};
pub use normalization::Normalization;

use phalanx_base::{Code, Error};

/// A setting that a layer does not take.
fn setting(layer: &str, why: impl std::fmt::Display) -> Error {
    Error::new(Code::BadSetting, format!("the settings of a {layer} do not fit")).because(why)
}
