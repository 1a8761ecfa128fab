//! Errors about vocabularies.

use phalanx_base::{Code, Error};

/// An error about an unknown value in a layer without indices for unknown values.
pub(super) fn unknown(layer: &str, value: &str) -> Error {
    Error::new(Code::DataRow, format!("{layer} met {value:?}, which is not in its vocabulary"))
        .because("it has no indices for unknown values (num_oov_indices is 0)")
        .help("add the value to the vocabulary, or set num_oov_indices to 1 or more")
}

pub(super) fn setting(layer: &str, why: impl std::fmt::Display) -> Error {
    Error::new(Code::BadSetting, format!("the settings of a {layer} do not fit")).because(why)
}

pub(super) fn vocabulary(layer: &str, why: impl std::fmt::Display) -> Error {
    Error::new(Code::BadSetting, format!("a vocabulary does not fit its {layer}")).because(why)
}
