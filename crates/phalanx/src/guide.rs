//! The blocks of Rust in README and guide, as doc-tests: what they show compiles, and runs where it does not say `no_run`.
//!
//! `tests/tests/guide.rs` checks that no page with such a block is missing here.

#[doc = include_str!("../../../README.md")]
struct Readme;

#[doc = include_str!("../../../docs/how-to/tf-config-job.md")]
struct TfConfigJob;

#[doc = include_str!("../../../docs/how-to/estimators.md")]
struct Estimators;

#[doc = include_str!("../../../docs/how-to/add-a-column.md")]
struct AddAColumn;

#[doc = include_str!("../../../docs/how-to/input.md")]
struct Input;

#[doc = include_str!("../../../docs/how-to/fit.md")]
struct Fit;

#[doc = include_str!("../../../docs/how-to/custom-step.md")]
struct CustomStep;

#[doc = include_str!("../../../docs/how-to/gpu.md")]
struct Gpu;
