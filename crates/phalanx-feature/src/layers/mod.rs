//! Keras' preprocessing layers, except lookups.

mod category_encoding;
mod crossing;
mod discretization;
mod hashing;
mod normalization;
mod quantiles;

pub use category_encoding::CategoryEncoding;
pub use crossing::{CategoryCrossing, HashedCrossing};
pub use discretization::Discretization;
pub use hashing::{Hashing, Salt};
pub use normalization::Normalization;

use phalanx_base::{Code, Error};

/// An error about a setting that a layer does not accept.
fn setting(layer: &str, why: impl std::fmt::Display) -> Error {
    Error::new(Code::BadSetting, format!("the settings of a {layer} do not fit")).because(why)
}
