//! `map`, `map_batches`: a function over every element.

use super::node::{Context, ElementKind, Node, Op, Stage};
use super::parallel::ParallelStage;
use super::transform::{ChunkFn, Outcome, TransformStage, join_rows};
use crate::position::Loader;
use crate::{Batch, Dataset};
use phalanx_base::{Code, Error, Result};
use std::sync::Arc;

/// How many threads run a function, and whether the order of elements is kept.
///
/// ```
/// use phalanx_data::{AUTOTUNE, Parallel};
/// let any_order = Parallel { calls: AUTOTUNE, deterministic: Some(false) };
/// assert_eq!(Parallel::calls(2), Parallel { calls: 2, deterministic: None });
/// # let _ = any_order;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parallel {
    /// How many threads; 0 for the consumer's own, [`AUTOTUNE`](crate::AUTOTUNE) for as many as there are cores.
    pub calls: usize,
    /// Whether order is kept; `None` for what the dataset's options say, which is yes by default.
    pub deterministic: Option<bool>,
}

impl Parallel {
    /// Runs on `calls` threads and keeps the order.
    #[must_use]
    pub fn calls(calls: usize) -> Self {
        Self { calls, deterministic: None }
    }
}

#[derive(Clone)]
struct MapOp {
    name: &'static str,
    function: ChunkFn,
    parallel: Parallel,
    /// Rows in one call of `function`.
    grain: usize,
}

impl Op for MapOp {
    fn describe(&self) -> String {
        if self.parallel.calls == 0 { self.name.to_string() } else { format!("{} (parallel)", self.name) }
    }

    fn open(&self, inputs: &[Node], cx: Context, from: Option<&mut Loader<'_>>) -> Result<Box<dyn Stage>> {
        if self.parallel.calls == 0 {
            return TransformStage::open(self.function.clone(), inputs, cx, from);
        }
        let ordered = self.parallel.deterministic.or(cx.options.deterministic).unwrap_or(true);
        let threads = cx.options.threads_for(self.parallel.calls);
        ParallelStage::open(self.function.clone(), threads, ordered, self.grain, inputs, cx, from)
    }

    /// A function may change the number of rows of a batch.
    fn batch_size(&self, inputs: &[Node]) -> Option<usize> {
        inputs[0].batch_size()
    }

    fn ordered(&self) -> Option<Arc<dyn Op>> {
        let parallel = Parallel { deterministic: Some(true), ..self.parallel };
        (self.parallel.calls > 0).then(|| Arc::new(Self { parallel, ..self.clone() }) as Arc<dyn Op>)
    }
}

impl Dataset {
    /// Calls a function with every element: a batch of one row, or the whole batch of a batched dataset.
    ///
    /// Per row this costs some tens of nanoseconds for every column beside the function: where the work is columnar,
    /// use [`Dataset::map_batches`], or `map` after `batch`.
    ///
    /// ```
    /// use phalanx_data::{Column, Dataset};
    /// let data = Dataset::range(0, 3, 1).map(|row| {
    ///     let value = row.i64("value")?[0];
    ///     row.with_column("square", Column::i64(vec![value * value]))
    /// });
    /// assert_eq!(data.batch(3).iter()?.next().unwrap()?.i64("square")?, [0, 1, 4]);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn map(self, function: impl Fn(Batch) -> Result<Batch> + Send + Sync + 'static) -> Self {
        self.map_parallel(Parallel::default(), function)
    }

    /// [`Dataset::map`] on several threads.
    ///
    /// With `deterministic: Some(false)` elements come as they are done; each comes once all the same, and a position
    /// remembers which have come.
    ///
    /// ```
    /// use phalanx_data::{Dataset, Parallel};
    /// let data = Dataset::range(0, 100, 1).batch(10).map_parallel(Parallel::calls(2), |batch| batch.select(&["value"]));
    /// assert_eq!(data.iter()?.next().unwrap()?.i64("value")?[9], 9);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn map_parallel(
        self,
        parallel: Parallel,
        function: impl Fn(Batch) -> Result<Batch> + Send + Sync + 'static,
    ) -> Self {
        let function: ChunkFn = match self.node().kind() {
            ElementKind::Batches => Arc::new(move |batch| function(batch).into()),
            ElementKind::Rows => Arc::new(move |chunk| {
                join_rows((0..chunk.rows()).map(|row| one_row(function(chunk.slice(row..row + 1))?)))
            }),
        };
        // A function per row may be slow (decoding an image): few rows per call keep all threads busy.
        self.then(MapOp { name: "map", function, parallel, grain: 16 })
    }

    /// Calls a function with chunks of rows, however many happen to travel together (at most 1024); it returns as
    /// many rows. On a batched dataset the same as [`Dataset::map_parallel`].
    ///
    /// ```
    /// use phalanx_data::{Column, Dataset, Parallel};
    /// let data = Dataset::range(0, 5000, 1).map_batches(Parallel::default(), |chunk| {
    ///     let halves = chunk.i64("value")?.iter().map(|&value| value as f32 / 2.0).collect();
    ///     chunk.with_column("half", Column::f32(halves))
    /// });
    /// assert_eq!(data.batch(3).iter()?.next().unwrap()?.f32("half")?, [0.0, 0.5, 1.0]);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn map_batches(
        self,
        parallel: Parallel,
        function: impl Fn(Batch) -> Result<Batch> + Send + Sync + 'static,
    ) -> Self {
        let function: ChunkFn = match self.node().kind() {
            ElementKind::Batches => Arc::new(move |batch| function(batch).into()),
            ElementKind::Rows => Arc::new(move |chunk| {
                let rows = chunk.rows();
                Outcome::from(function(chunk).and_then(|out| same_rows(out, rows)))
            }),
        };
        self.then(MapOp { name: "map_batches", function, parallel, grain: super::node::CHUNK / 4 })
    }
}

fn one_row(row: Batch) -> Result<Batch> {
    same_rows(row, 1)
}

fn same_rows(out: Batch, rows: usize) -> Result<Batch> {
    if out.rows() == rows {
        return Ok(out);
    }
    Err(Error::new(Code::ShapeMismatch, format!("the function of a map made {} rows of {rows}", out.rows()))
        .help("use filter to leave rows out, flat_map to make more of them, or batch before map"))
}
