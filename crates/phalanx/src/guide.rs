//! The Rust blocks of README and guide as doc-tests.
//!
//! `xtask/tests/it/guide.rs` checks that no page with such a block is missing here.

#[doc = include_str!("../../../README.md")]
struct Readme;

#[doc = include_str!("../../../docs/how-to/tf-config-job.md")]
struct TfConfigJob;

#[doc = include_str!("../../../docs/how-to/estimators.md")]
struct Estimators;

#[doc = include_str!("../../../docs/how-to/add-a-column.md")]
struct AddAColumn;

#[doc = include_str!("../../../docs/how-to/input.md")]
struct InputPage;

#[doc = include_str!("../../../docs/how-to/fit.md")]
struct Fit;

#[doc = include_str!("../../../docs/how-to/custom-step.md")]
struct CustomStep;

#[doc = include_str!("../../../docs/how-to/gpu.md")]
struct Gpu;
