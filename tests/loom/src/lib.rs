//! Model checks of the concurrent cores of the product's crates: every interleaving of a few threads, and every value that
//! the memory model allows a load to see.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test --release -p phalanx-loom
//! ```
//!
//! Without `--cfg loom` the package is empty. Tokio and hyper do not build with that flag, so no crate of the product that
//! names them is a dependency. Instead a concurrent core lives in a small file of its own that takes atomics, locks
//! and `Arc` from `crate::sync`. In the product's crate that is the standard library (`use std::sync;` in its `lib.rs`).
//! `tests/it/main.rs` includes the same files and gives them the `sync` of this package.
//!
//! Every model has a twin with a planted bug, which is expected to panic. The twin proves that the model can fail.

#[cfg(loom)]
pub mod sync;

#[cfg(loom)]
pub use loom::{cell, thread};

/// How often a thread may be preempted in one execution. Nearly all known concurrency bugs need two preemptions or fewer.
/// `LOOM_MAX_PREEMPTIONS` overrides it.
#[cfg(loom)]
const PREEMPTIONS: usize = 3;

/// Runs `model` once for each possible execution.
///
/// # Panics
/// When an execution panics, deadlocks, leaks, or has a data race.
#[cfg(loom)]
pub fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(PREEMPTIONS));
    builder.check(model);
}

/// Runs `model` with a planted bug.
///
/// # Panics
/// When the checker finds the bug. That is what a test should expect.
#[cfg(loom)]
pub fn explore_with(fault: sync::Fault, model: impl Fn() + Sync + Send + 'static) {
    sync::plant(fault);
    explore(model);
}
