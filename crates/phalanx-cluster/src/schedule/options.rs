//! What bounds a scheduler.

use std::time::Duration;

/// How far workers may drift apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consistency {
    /// Without bound.
    #[default]
    Async,
    /// `ssp:k`: any two steps in flight are at most `k` numbers apart.
    ///
    /// A worker's steps are numbered as it takes them. A worker that had nothing in flight while the others went on is
    /// lifted to the lowest number that keeps the bound, so that one that joins late or comes back from a pause
    /// holds nobody up for longer than its first steps take.
    Bounded(u64),
}

/// What bounds a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How many steps may be unfinished.
    pub steps: usize,
    /// How many bytes of work may be unfinished.
    pub bytes: usize,
    /// How often a step may be tried before trouble of the infrastructure makes it fail.
    pub attempts: usize,
    /// After how long at one step a worker is reported as standing still.
    pub watchdog: Option<Duration>,
    /// How far workers may drift apart.
    pub consistency: Consistency,
}

impl Default for Options {
    /// TensorFlow's bound on steps, 1 GiB of work, five attempts, no watchdog, no bound on drift.
    fn default() -> Self {
        Self { steps: 262_144, bytes: 1 << 30, attempts: 5, watchdog: None, consistency: Consistency::Async }
    }
}
