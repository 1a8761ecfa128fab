//! How an input is divided among workers.

/// How workers should share an input; TensorFlow's `tf.data.experimental.AutoShardPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AutoShardPolicy {
    /// By file where every worker gets at least one, by element otherwise. Unlike TensorFlow's, it never fails for
    /// want of files.
    #[default]
    Auto,
    /// By file, the same files in every epoch; too few files are an error.
    File,
    /// By element: every worker reads all and keeps its share.
    Data,
    /// By block: whichever worker is free takes the next block of rows, so that fast workers train on more of them. For
    /// estimators and job files with parameter servers, which hand out the blocks; see
    /// [`Dataset::with_block_claims`](crate::Dataset::with_block_claims).
    Blocks,
    /// Not at all: every worker sees everything.
    Off,
}

/// The part of the input that one worker reads first, and why; see [`Dataset::shard_for`](crate::Dataset::shard_for). Its text is one sentence, meant to be logged once.
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
pub struct Sharding {
    /// Which worker, from 0.
    pub worker: usize,
    /// How many workers share the input.
    pub workers: usize,
    /// What this worker reads.
    pub by: ShardedBy,
}

/// How a [`Sharding`] divides the input.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShardedBy {
    /// Not at all, for the reason given: the worker reads everything.
    Nothing(&'static str),
    /// The worker reads some of the files.
    Files {
        /// How many files it reads.
        own: usize,
        /// How many files there are.
        files: usize,
    },
    /// The worker reads everything and takes its part of every batch.
    Batches {
        /// How many files there are; `None` if the input is not made of files.
        files: Option<usize>,
        /// Why.
        why: &'static str,
    },
    /// The worker takes the next block of elements whenever it is free.
    Blocks,
    /// The worker takes every n-th element.
    Elements {
        /// How many files there are; `None` if the input is not made of files.
        files: Option<usize>,
        /// Why.
        why: &'static str,
    },
}

impl Sharding {
    /// Whether the worker reads everything.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        matches!(self.by, ShardedBy::Nothing(_))
    }
}

impl std::fmt::Display for Sharding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { worker, workers, by } = self;
        write!(f, "worker {worker} of {workers} ")?;
        match by {
            ShardedBy::Nothing(why) => write!(f, "reads the whole input: {why}"),
            ShardedBy::Files { own, files } => {
                let every = ordinal(*workers);
                write!(f, "reads {own} of {files} files, from number {worker} every {every}: ")?;
                write!(f, "{files} files for {workers} workers, so by file")
            }
            ShardedBy::Elements { files, why } => {
                write!(f, "takes every {} element from number {worker}: ", ordinal(*workers))?;
                reason(f, *workers, *files, why)?;
                f.write_str(", so by element")
            }
            ShardedBy::Blocks => f.write_str("takes the next block of the input whenever it is free"),
            ShardedBy::Batches { files, why } => {
                f.write_str("takes its part of every batch: ")?;
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
