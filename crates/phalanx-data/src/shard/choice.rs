//! How an input is shared, as a value that can be said.

/// How workers should share an input; TensorFlow's `tf.data.experimental.AutoShardPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AutoShardPolicy {
    /// By file where every worker gets at least one, by element otherwise. Unlike TensorFlow's, it never fails for
    /// want of files.
    #[default]
    Auto,
    /// By file; too few files are an error.
    File,
    /// By element: every worker reads all and keeps its share.
    Data,
    /// Not at all: every worker sees everything.
    Off,
}

/// The choice made for one worker. Its text is one sentence, meant to be logged once.
///
/// ```
/// use phalanx_data::{Dataset, InputContext};
/// let cx = InputContext { num_input_pipelines: 2, input_pipeline_id: 1, num_replicas_in_sync: 2 };
/// let (_, sharding) = Dataset::range(0, 10, 1).batch(5).shard_for(&cx)?;
/// assert_eq!(
///     sharding.to_string(),
///     "worker 1 of 2 takes every 2nd element from number 1: the input is not made of files, so by element",
/// );
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sharding {
    /// This worker reads everything: it is alone, or sharding is off, or the input function shards by itself.
    Whole {
        /// Which worker, from 0.
        worker: usize,
        /// How many workers.
        workers: usize,
        /// Why.
        why: &'static str,
    },
    /// This worker reads some of the files.
    Files {
        /// Which worker, from 0.
        worker: usize,
        /// How many workers.
        workers: usize,
        /// How many files it reads.
        own: usize,
        /// How many files there are.
        files: usize,
    },
    /// This worker reads everything and takes its part of every batch.
    Batches {
        /// Which worker, from 0.
        worker: usize,
        /// How many workers.
        workers: usize,
        /// How many files there are; `None` when the input is not made of files.
        files: Option<usize>,
        /// Why.
        why: &'static str,
    },
    /// This worker takes every n-th element.
    Elements {
        /// Which worker, from 0.
        worker: usize,
        /// How many workers.
        workers: usize,
        /// How many files there are; `None` when the input is not made of files.
        files: Option<usize>,
        /// Why.
        why: &'static str,
    },
}

impl Sharding {
    /// Which worker, from 0, of how many.
    #[must_use]
    pub fn worker(&self) -> (usize, usize) {
        match *self {
            Self::Whole { worker, workers, .. }
            | Self::Files { worker, workers, .. }
            | Self::Batches { worker, workers, .. }
            | Self::Elements { worker, workers, .. } => (worker, workers),
        }
    }

    /// Whether the worker reads everything.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        matches!(self, Self::Whole { .. })
    }
}

impl std::fmt::Display for Sharding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Whole { worker, workers, why } => {
                write!(f, "worker {worker} of {workers} reads the whole input: {why}")
            }
            Self::Files { worker, workers, own, files } => write!(
                f,
                "worker {worker} of {workers} reads {own} of {files} files, from number {worker} every {}: {files} files \
                 for {workers} workers, so by file",
                ordinal(*workers),
            ),
            Self::Elements { worker, workers, files, why } => {
                let every = ordinal(*workers);
                write!(f, "worker {worker} of {workers} takes every {every} element from number {worker}: ")?;
                reason(f, *workers, *files, why)?;
                f.write_str(", so by element")
            }
            Self::Batches { worker, workers, files, why } => {
                write!(f, "worker {worker} of {workers} takes its part of every batch: ")?;
                reason(f, *workers, *files, why)?;
                f.write_str(", and all workers have one order, so by batch")
            }
        }
    }
}

fn reason(f: &mut std::fmt::Formatter<'_>, workers: usize, files: Option<usize>, why: &str) -> std::fmt::Result {
    match files {
        Some(1) => write!(f, "1 file for {workers} workers{why}"),
        Some(files) => write!(f, "{files} files for {workers} workers{why}"),
        None => f.write_str(why),
    }
}

fn ordinal(number: usize) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}
