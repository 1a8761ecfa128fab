//! How many threads a step computes with.

use phalanx_base::{Code, Context, Result};

/// Runs `work` with `threads` threads for its arithmetic. Several tasks on one machine share its cores, so each is told
/// how many are its own.
///
/// ```
/// assert_eq!(phalanx_nn::with_threads(2, || 40 + 2).unwrap(), 42);
/// ```
///
/// # Errors
/// When the operating system gives us no threads.
pub fn with_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> Result<T> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(|i| format!("phalanx-compute-{i}"));
    Ok(pool.build().context(Code::Internal, "the compute threads cannot be started")?.install(work))
}
