//! The census of 1994, which tests of this crate and of `phalanx-feature` read.

use std::path::PathBuf;

/// Its files have no header.
pub(crate) const COLUMNS: [&str; 15] = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education_num",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "gender",
    "capital_gain",
    "capital_loss",
    "hours_per_week",
    "native_country",
    "income_bracket",
];

/// The folder with the data of tests, where somebody gives it.
pub(crate) fn data() -> Option<PathBuf> {
    let folder = std::env::var_os("PHALANX_DATA_DIR").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("skipped: needs data (PHALANX_DATA_DIR)");
    }
    folder
}
