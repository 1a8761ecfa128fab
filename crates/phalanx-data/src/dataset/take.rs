//! `take`, `skip`: the first elements, or all but those.

use super::node::{Context, Kind, Node, Op, Passage, Stage, open_counted};
use crate::position::{Loader, Saver};
use crate::{Batch, Dataset};
use phalanx_base::Result;

struct TakeOp(u64);

impl Op for TakeOp {
    fn describe(&self) -> String {
        format!("take({})", self.0)
    }

    fn open(&self, inputs: &[Node], cx: Context, from: Option<&mut Loader<'_>>) -> Result<Box<dyn Stage>> {
        let kind = inputs[0].kind();
        let (left, upstream) = open_counted(inputs, cx, from, self.0)?;
        Ok(Box::new(TakeStage { upstream, kind, left }))
    }

    fn passage(&self) -> Passage {
        Passage::ByOrder
    }
}

struct TakeStage {
    upstream: Box<dyn Stage>,
    kind: Kind,
    left: u64,
}

impl Stage for TakeStage {
    fn next(&mut self, max: usize) -> Result<Option<Batch>> {
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

struct SkipOp(u64);

impl Op for SkipOp {
    fn describe(&self) -> String {
        format!("skip({})", self.0)
    }

    fn open(&self, inputs: &[Node], cx: Context, from: Option<&mut Loader<'_>>) -> Result<Box<dyn Stage>> {
        let kind = inputs[0].kind();
        let (left, upstream) = open_counted(inputs, cx, from, self.0)?;
        Ok(Box::new(SkipStage { upstream, kind, left }))
    }

    fn passage(&self) -> Passage {
        Passage::ByOrder
    }
}

/// Skips when it is first asked, not before: opening stays quick.
struct SkipStage {
    upstream: Box<dyn Stage>,
    kind: Kind,
    left: u64,
}

impl Stage for SkipStage {
    fn next(&mut self, max: usize) -> Result<Option<Batch>> {
        if self.left > 0 {
            self.upstream.skip(self.left, self.kind)?;
            self.left = 0;
        }
        self.upstream.next(max)
    }

    fn save(&self, out: &mut Saver) {
        out.u64(self.left);
        self.upstream.save(out);
    }
}

impl Dataset {
    /// The first `count` elements, or all where there are fewer.
    ///
    /// ```
    /// use phalanx_data::Dataset;
    /// assert_eq!(Dataset::range(0, 10, 1).take(3).iter()?.count(), 3);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn take(self, count: u64) -> Self {
        self.then(TakeOp(count))
    }

    /// All but the first `count` elements.
    ///
    /// ```
    /// use phalanx_data::Dataset;
    /// assert_eq!(Dataset::range(0, 10, 1).skip(3).iter()?.next().unwrap()?.i64("value")?, [3]);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn skip(self, count: u64) -> Self {
        self.then(SkipOp(count))
    }
}
