//! `take`, `skip`: the first elements, or all but those.

use super::node::{Context, ElementKind, Node, Op, Shardability, Stage, open_counted};
use crate::position::{Loader, Saver};
use crate::{Batch, Dataset};
use phalanx_base::Result;

/// `take` or `skip`.
struct LimitOp {
    count: u64,
    skip: bool,
}

impl Op for LimitOp {
    fn describe(&self) -> String {
        format!("{}({})", if self.skip { "skip" } else { "take" }, self.count)
    }

    fn open(&self, inputs: &[Node], cx: Context, from: Option<&mut Loader<'_>>) -> Result<Box<dyn Stage>> {
        let kind = inputs[0].kind();
        let (left, upstream) = open_counted(inputs, cx, from, self.count)?;
        Ok(Box::new(LimitStage { upstream, kind, left, skip: self.skip }))
    }

    fn shardability(&self) -> Shardability {
        Shardability::ByOrder
    }
}

struct LimitStage {
    upstream: Box<dyn Stage>,
    kind: ElementKind,
    /// Elements still to take or to skip.
    left: u64,
    skip: bool,
}

impl Stage for LimitStage {
    fn next(&mut self, max: usize) -> Result<Option<Batch>> {
        if self.skip {
            // Skips at the first call, so that opening stays quick.
            if self.left > 0 {
                self.upstream.skip(self.left, self.kind)?;
                self.left = 0;
            }
            return self.upstream.next(max);
        }
        let max = usize::try_from(self.left).unwrap_or(max).min(max);
        if max == 0 {
            return Ok(None);
        }
        let chunk = self.upstream.next(max)?;
        self.left -= chunk.as_ref().map_or(0, |chunk| self.kind.elements(chunk) as u64);
        Ok(chunk)
    }

    fn save(&self, out: &mut Saver) {
        out.u64(self.left);
        self.upstream.save(out);
    }
}

impl Dataset {
    /// Returns the first `count` elements, or all if there are fewer.
    ///
    /// ```
    /// use phalanx_data::Dataset;
    /// assert_eq!(Dataset::range(0, 10, 1).take(3).iter()?.count(), 3);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn take(self, count: u64) -> Self {
        self.then(LimitOp { count, skip: false })
    }

    /// Returns all but the first `count` elements.
    ///
    /// ```
    /// use phalanx_data::Dataset;
    /// assert_eq!(Dataset::range(0, 10, 1).skip(3).iter()?.next().unwrap()?.i64("value")?, [3]);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn skip(self, count: u64) -> Self {
        self.then(LimitOp { count, skip: true })
    }
}
