//! `range`: integers.

use super::node::{Context, ElementKind, Node, Op, Shardability, Stage};
use crate::position::{Loader, Saver};
use crate::{Batch, Column, Dataset, Schema};
use phalanx_base::{Code, Error, Result};
use std::sync::Arc;

#[derive(Clone)]
struct RangeOp {
    start: i64,
    step: i64,
    count: u64,
    schema: Arc<Schema>,
}

impl Op for RangeOp {
    fn describe(&self) -> String {
        format!("range({} by {} × {})", self.start, self.step, self.count)
    }

    fn open(&self, _: &[Node], _: Context, from: Option<&mut Loader<'_>>) -> Result<Box<dyn Stage>> {
        let next = from.map_or(Ok(0), Loader::u64)?.min(self.count);
        Ok(Box::new(RangeStage { op: self.clone(), next }))
    }

    fn shardability(&self) -> Shardability {
        Shardability::Source
    }
}

struct RangeStage {
    op: RangeOp,
    next: u64,
}

impl Stage for RangeStage {
    fn next(&mut self, max: usize) -> Result<Option<Batch>> {
        let end = self.op.count.min(self.next.saturating_add(max.min(super::node::CHUNK) as u64));
        if self.next == end {
            return Ok(None);
        }
        // Wrapping: every value lies between start and stop, so the exact result always fits.
        let value = |index: u64| self.op.start.wrapping_add(self.op.step.wrapping_mul(index as i64));
        let values = Column::i64((self.next..end).map(value).collect());
        self.next = end;
        Batch::with_schema(self.op.schema.clone(), vec![values]).map(Some)
    }

    fn save(&self, out: &mut Saver) {
        out.u64(self.next);
    }

    fn skip(&mut self, count: u64, _: ElementKind) -> Result<u64> {
        let here = count.min(self.op.count - self.next);
        self.next += here;
        Ok(here)
    }
}

impl Dataset {
    /// The integers from `start` up to, not including, `stop`, by `step`, as a column `value`.
    ///
    /// A `step` of 0 is an error, as in TensorFlow; it arrives when the dataset is iterated.
    ///
    /// ```
    /// use phalanx_data::Dataset;
    /// let batch = Dataset::range(5, 1, -2).batch(10).iter()?.next().unwrap()?;
    /// assert_eq!(batch.i64("value")?, [5, 3]);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn range(start: i64, stop: i64, step: i64) -> Self {
        let (distance, step_size) = (i128::from(stop) - i128::from(start), i128::from(step));
        let whole = |step: i128| u64::try_from((distance + step - step.signum()) / step).unwrap_or(0);
        let count = if step == 0 { 0 } else { whole(step_size) };
        let names = Schema::new(["value"]);
        match names {
            Ok(schema) if step != 0 => Self::from_op(RangeOp { start, step, count, schema: Arc::new(schema) }),
            _ => Self::broken(
                Error::new(Code::BadSetting, "step must be a non-zero integer")
                    .at(format!("range({start}, {stop}, {step})")),
            ),
        }
    }
}
