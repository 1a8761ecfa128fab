//! How types of other crates are stored.

use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
#[serde(remote = "phalanx_matmul::Precision")]
pub(crate) enum Precision {
    F32,
    Bf16,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "phalanx_base::Combiner")]
pub(crate) enum Combiner {
    Mean,
    Sum,
    Sqrtn,
}
