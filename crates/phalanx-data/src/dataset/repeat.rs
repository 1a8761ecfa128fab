//! `repeat`: the elements again and again.

use super::blocks::BlockRounds;
use super::node::{Context, ElementKind, Node, Op, Stage, open_input};
use crate::position::{Loader, Saver};
use crate::{Batch, Dataset};
use phalanx_base::Result;
use std::sync::Arc;

struct RepeatOp {
    /// `None` for ever.
    count: Option<u64>,
}

impl Op for RepeatOp {
    fn describe(&self) -> String {
        self.count.map_or("repeat".to_string(), |count| format!("repeat({count})"))
    }

    fn open(&self, inputs: &[Node], cx: Context, from: Option<&mut Loader<'_>>) -> Result<Box<dyn Stage>> {
        let (mut round, mut empty_rounds, mut stage) = (0, 1, None);
        if let Some(from) = from {
            (round, empty_rounds) = (from.u64()?, code_of(from.u64()?));
            if from.flag()? {
                stage = Some(open_input(inputs, cx.round(round), Some(from))?);
            }
        } else if self.count != Some(0) {
            // At once, so that a missing file is reported by `iter`.
            stage = Some(open_input(inputs, cx.round(0), None)?);
        }
        let turns = inputs.iter().map(Node::turns).max().unwrap_or(1) as u64;
        let blocks = inputs[0].block_rounds().cloned();
        let inputs = inputs.to_vec();
        Ok(Box::new(RepeatStage { count: self.count, inputs, cx, turns, blocks, round, empty_rounds, stage }))
    }
}

struct RepeatStage {
    count: Option<u64>,
    inputs: Vec<Node>,
    cx: Context,
    /// How many rounds may differ; see [`Op::turns`].
    turns: u64,
    /// The blocks that workers claim below, if they do.
    blocks: Option<Arc<BlockRounds>>,
    round: u64,
    /// How many rounds up to this one gave nothing: an endless repetition of nothing ends.
    empty_rounds: u64,
    /// `None` at the end.
    stage: Option<Box<dyn Stage>>,
}

impl Stage for RepeatStage {
    fn next(&mut self, max: usize) -> Result<Option<Batch>> {
        while let Some(stage) = &mut self.stage {
            if let Some(chunk) = stage.next(max)? {
                self.empty_rounds = 0;
                return Ok(Some(chunk));
            }
            self.next_round()?;
        }
        Ok(None)
    }

    fn save(&self, out: &mut Saver) {
        out.u64(self.round);
        out.u64(code_of(self.empty_rounds));
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
            if here > 0 {
                self.empty_rounds = 0;
            }
            skipped += here;
            if skipped < count {
                self.next_round()?;
            }
        }
        Ok(skipped)
    }
}

/// Returns the code of a number of empty rounds, and the number of a code. Before shares rotated, this was a flag that was 1 if the
/// round had given anything: 0 and 1 keep that meaning, so that older positions can be read.
fn code_of(empty_rounds: u64) -> u64 {
    match empty_rounds {
        0 => 1,
        1 => 0,
        more => more,
    }
}

impl RepeatStage {
    /// Starts the next round, if there is one.
    fn next_round(&mut self) -> Result<()> {
        // The threads of the old round end before those of the new one start.
        self.stage = None;
        let next = self.blocks.as_ref().map_or(self.round + 1, |blocks| blocks.after(self.round));
        let more = self.count.is_none_or(|count| next < count);
        if more && self.empty_rounds < self.turns {
            self.round = next;
            self.empty_rounds += u64::from(self.blocks.as_ref().is_none_or(|blocks| blocks.end_round()));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dataset;

    #[test]
    fn a_position_of_the_time_before_shares_rotated_is_continued() {
        let data = Dataset::range(0, 2, 1).repeat();
        let cx = data.context(0, 1);
        let mut stage = data.node().open(cx, None).unwrap();
        stage.next(1).unwrap().unwrap();
        stage.next(1).unwrap().unwrap();
        let mut saved = Saver::default();
        stage.save(&mut saved);
        // The first round, which has given something, at its end: 1 was the flag for that.
        assert_eq!(saved.as_slice()[..2], [0, 1]);
        let mut stage = data.node().open(cx, Some(&mut Loader::new(saved.as_slice()))).unwrap();
        let next = stage.next(1).unwrap().expect("the next round");
        assert_eq!(next.rows(), 1);
        for rounds in 0..5 {
            assert_eq!(code_of(code_of(rounds)), rounds);
        }
    }
}
