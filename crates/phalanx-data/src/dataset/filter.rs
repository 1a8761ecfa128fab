//! `filter`: leaves elements out.

use super::node::{Context, ElementKind, Node, Op, Stage};
use super::transform::{ChunkFn, Outcome, TransformStage};
use crate::position::Loader;
use crate::{Batch, Dataset};
use phalanx_base::{Code, Error, Result};
use std::sync::Arc;

struct FilterOp {
    function: ChunkFn,
}

impl Op for FilterOp {
    fn describe(&self) -> String {
        "filter".to_string()
    }

    fn open(&self, inputs: &[Node], cx: Context, from: Option<&mut Loader<'_>>) -> Result<Box<dyn Stage>> {
        TransformStage::open(self.function.clone(), inputs, cx, from)
    }
}

/// The rows to keep, as far as the function did not fail.
fn keep_rows(chunk: &Batch, keep: &[bool], error: Option<Error>) -> Outcome {
    let kept = chunk.slice(0..keep.len()).retain(keep);
    Outcome { pieces: (!kept.is_empty()).then_some(kept).into_iter().collect(), error }
}

impl Dataset {
    /// Keeps the elements for which the function says yes.
    ///
    /// ```
    /// use phalanx_data::Dataset;
    /// let data = Dataset::range(0, 6, 1).filter(|row| Ok(row.i64("value")?[0] % 2 == 0));
    /// assert_eq!(data.batch(6).iter()?.next().unwrap()?.i64("value")?, [0, 2, 4]);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn filter(self, keep: impl Fn(&Batch) -> Result<bool> + Send + Sync + 'static) -> Self {
        let function: ChunkFn = match self.node().kind() {
            ElementKind::Batches => Arc::new(move |batch| match keep(&batch) {
                Ok(true) => Ok(batch).into(),
                Ok(false) => Outcome::default(),
                Err(error) => Err(error).into(),
            }),
            ElementKind::Rows => Arc::new(move |chunk| {
                let mut flags = Vec::with_capacity(chunk.rows());
                for row in 0..chunk.rows() {
                    match keep(&chunk.slice(row..row + 1)) {
                        Ok(flag) => flags.push(flag),
                        Err(error) => return keep_rows(&chunk, &flags, Some(error)),
                    }
                }
                keep_rows(&chunk, &flags, None)
            }),
        };
        self.then(FilterOp { function })
    }

    /// Keeps the rows for which the function says yes; it sees chunks of rows and answers for each row.
    ///
    /// On a batched dataset it thins out the rows of every batch.
    ///
    /// ```
    /// use phalanx_data::Dataset;
    /// let data = Dataset::range(0, 6, 1)
    ///     .filter_rows(|chunk| Ok(chunk.i64("value")?.iter().map(|value| value % 2 == 0).collect()));
    /// assert_eq!(data.batch(6).iter()?.next().unwrap()?.i64("value")?, [0, 2, 4]);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn filter_rows(self, keep: impl Fn(&Batch) -> Result<Vec<bool>> + Send + Sync + 'static) -> Self {
        let function: ChunkFn = Arc::new(move |chunk| match keep(&chunk) {
            Ok(flags) if flags.len() == chunk.rows() => keep_rows(&chunk, &flags, None),
            Ok(flags) => {
                let what = format!("the function of a filter answered for {} of {} rows", flags.len(), chunk.rows());
                Err(Error::new(Code::ShapeMismatch, what)).into()
            }
            Err(error) => Err(error).into(),
        });
        self.then(FilterOp { function })
    }
}
