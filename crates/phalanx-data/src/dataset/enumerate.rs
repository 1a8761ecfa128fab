//! `enumerate`: counts the elements.

use super::node::{Context, ElementKind, Node, Op, Shardability, Stage, open_counted};
use crate::position::{Loader, Saver};
use crate::{Batch, Column, Dataset};
use phalanx_base::{Code, Error, Result};

struct EnumerateOp {
    start: i64,
}

impl Op for EnumerateOp {
    fn describe(&self) -> String {
        format!("enumerate({})", self.start)
    }

    fn open(&self, inputs: &[Node], cx: Context, from: Option<&mut Loader<'_>>) -> Result<Box<dyn Stage>> {
        let (count, upstream) = open_counted(inputs, cx, from, 0)?;
        Ok(Box::new(EnumerateStage { upstream, start: self.start, count }))
    }

    fn shardability(&self) -> Shardability {
        Shardability::ByOrder
    }
}

struct EnumerateStage {
    upstream: Box<dyn Stage>,
    start: i64,
    count: u64,
}

impl Stage for EnumerateStage {
    fn next(&mut self, max: usize) -> Result<Option<Batch>> {
        let Some(chunk) = self.upstream.next(max)? else { return Ok(None) };
        let first = self.start.wrapping_add(self.count as i64);
        let index = Column::i64((0..chunk.rows() as i64).map(|row| first.wrapping_add(row)).collect());
        self.count += chunk.rows() as u64;
        let index = Batch::new([("index", index)])?;
        index.beside(&chunk).map(Some).map_err(|error| error.at("enumerate"))
    }

    fn save(&self, out: &mut Saver) {
        out.u64(self.count);
        self.upstream.save(out);
    }
}

impl Dataset {
    /// Puts a column `index` before the others: the number of the element, from `start`.
    ///
    /// The dataset must not be batched, since all columns of a batch have one value per row.
    ///
    /// ```
    /// use phalanx_data::Dataset;
    /// let all = Dataset::range(5, 8, 1).enumerate(1).batch(9).iter()?.next().unwrap()?;
    /// assert_eq!((all.i64("index")?, all.i64("value")?), ([1, 2, 3].as_slice(), [5, 6, 7].as_slice()));
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn enumerate(self, start: i64) -> Self {
        if self.node().kind() == ElementKind::Batches {
            return Self::broken(
                Error::new(Code::BadSetting, "enumerate counts rows, not batches")
                    .at("enumerate after batch")
                    .help("place enumerate before batch, or count the batches with Iterator::enumerate"),
            );
        }
        self.then(EnumerateOp { start })
    }
}
