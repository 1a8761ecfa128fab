//! `repeat`: the elements again and again.

use super::node::{Context, ElementKind, Node, Op, Stage, open_input};
use crate::position::{Loader, Saver};
use crate::{Batch, Dataset};
use phalanx_base::Result;

struct RepeatOp {
    /// `None` for ever.
    count: Option<u64>,
}

impl Op for RepeatOp {
    fn describe(&self) -> String {
        self.count.map_or("repeat".to_string(), |count| format!("repeat({count})"))
    }

    fn open(&self, inputs: &[Node], cx: Context, from: Option<&mut Loader<'_>>) -> Result<Box<dyn Stage>> {
        let (mut round, mut any, mut stage) = (0, false, None);
        if let Some(from) = from {
            (round, any) = (from.u64()?, from.flag()?);
            if from.flag()? {
                stage = Some(open_input(inputs, cx.round(round), Some(from))?);
            }
        } else if self.count != Some(0) {
            // At once, so that a missing file is reported by `iter`.
            stage = Some(open_input(inputs, cx.round(0), None)?);
        }
        Ok(Box::new(RepeatStage { count: self.count, inputs: inputs.to_vec(), cx, round, any, stage }))
    }
}

struct RepeatStage {
    count: Option<u64>,
    inputs: Vec<Node>,
    cx: Context,
    round: u64,
    /// Whether this round gave anything: an endless repetition of nothing ends.
    any: bool,
    /// `None` at the end.
    stage: Option<Box<dyn Stage>>,
}

impl Stage for RepeatStage {
    fn next(&mut self, max: usize) -> Result<Option<Batch>> {
        while let Some(stage) = &mut self.stage {
            if let Some(chunk) = stage.next(max)? {
                self.any = true;
                return Ok(Some(chunk));
            }
            self.next_round()?;
        }
        Ok(None)
    }

    fn save(&self, out: &mut Saver) {
        out.u64(self.round);
        out.flag(self.any);
        out.flag(self.stage.is_some());
        if let Some(stage) = &self.stage {
            stage.save(out);
        }
    }

    fn skip(&mut self, count: u64, kind: ElementKind) -> Result<u64> {
        let mut skipped = 0;
        while skipped < count {
            let Some(stage) = &mut self.stage else { break };
            let here = stage.skip(count - skipped, kind)?;
            self.any |= here > 0;
            skipped += here;
            if skipped < count {
                self.next_round()?;
            }
        }
        Ok(skipped)
    }
}

impl RepeatStage {
    /// Starts the next round, if there is one.
    fn next_round(&mut self) -> Result<()> {
        // The threads of the old round end before those of the new one start.
        self.stage = None;
        let more = self.count.is_none_or(|count| self.round + 1 < count);
        if more && self.any {
            self.round += 1;
            self.any = false;
            self.stage = Some(open_input(&self.inputs, self.cx.round(self.round), None)?);
        }
        Ok(())
    }
}

impl Dataset {
    /// Repeats the elements endlessly; a dataset without elements stays empty.
    ///
    /// `shuffle` before `repeat` keeps the rounds apart, each in its own order; after it, rounds run into each other.
    ///
    /// ```
    /// use phalanx_data::Dataset;
    /// let first = Dataset::range(0, 2, 1).repeat().batch(5).iter()?.next().unwrap()?;
    /// assert_eq!(first.i64("value")?, [0, 1, 0, 1, 0]);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn repeat(self) -> Self {
        self.then(RepeatOp { count: None })
    }

    /// Repeats the elements `count` times.
    ///
    /// ```
    /// use phalanx_data::Dataset;
    /// let all = Dataset::range(0, 2, 1).repeat_times(2).batch(9).iter()?.next().unwrap()?;
    /// assert_eq!(all.i64("value")?, [0, 1, 0, 1]);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn repeat_times(self, count: u64) -> Self {
        self.then(RepeatOp { count: Some(count) })
    }
}
