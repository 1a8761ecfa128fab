//! Numbers to compute with, and comparisons.

use phalanx_base::SplitMix;

/// Random multiples of 1/16 between -8 and 8, which bfloat16 represents exactly: both precisions give the same sums.
pub(crate) fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut random = SplitMix::new(seed);
    (0..count).map(|_| (random.word() >> 56) as f32 / 16.0 - 8.0).collect()
}

/// Checks that a number is near one in double precision: the difference is at most `bound` times a size.
#[track_caller]
pub(crate) fn near(got: f32, expected: f64, bound: f64, size: f64, what: impl Fn() -> String) {
    let apart = (f64::from(got) - expected).abs();
    assert!(apart <= bound * size.max(1.0), "{}: {got} for {expected}", what());
}

/// Runs work with this number of threads.
pub(crate) fn with_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads").install(work)
}
