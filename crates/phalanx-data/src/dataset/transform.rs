//! What `map` and `filter` have in common: a function over chunks that may stop in the middle of one.

use super::node::{CHUNK, Context, ElementKind, Node, Stage, open_input};
use crate::Batch;
use crate::position::{Loader, Saver};
use phalanx_base::{Error, Result};
use std::collections::VecDeque;
use std::sync::Arc;

/// The outcome of one chunk: pieces of output, none of them empty, and perhaps an error after them.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) pieces: VecDeque<Batch>,
    pub(crate) error: Option<Error>,
}

impl From<Result<Batch>> for Outcome {
    fn from(result: Result<Batch>) -> Self {
        match result {
            Ok(batch) => Self { pieces: VecDeque::from([batch]), error: None },
            Err(error) => Self { pieces: VecDeque::new(), error: Some(error) },
        }
    }
}

/// The function of a stage, over the chunks of its input.
pub(crate) type ChunkFn = Arc<dyn Fn(Batch) -> Outcome + Send + Sync>;

/// Runs a function over chunks on the consumer's own thread.
pub(crate) struct TransformStage {
    upstream: Box<dyn Stage>,
    function: ChunkFn,
    kind: ElementKind,
    outcome: Outcome,
    /// Where the input was before the chunk in work.
    before: Saver,
    /// Elements handed out of the chunk in work.
    used: u64,
}

impl TransformStage {
    pub(crate) fn open(
        function: ChunkFn,
        inputs: &[Node],
        cx: Context,
        from: Option<&mut Loader<'_>>,
    ) -> Result<Box<dyn Stage>> {
        let kind = inputs[0].kind();
        let new = |upstream| Self {
            upstream,
            function,
            kind,
            outcome: Outcome::default(),
            before: Saver::default(),
            used: 0,
        };
        let Some(from) = from else { return Ok(Box::new(new(open_input(inputs, cx, None)?))) };
        let used = from.u64()?;
        let mut stage = new(open_input(inputs, cx, Some(from))?);
        stage.skip(used, kind)?;
        Ok(Box::new(stage))
    }
}

impl Stage for TransformStage {
    fn next(&mut self, max: usize) -> Result<Option<Batch>> {
        loop {
            if let Some(piece) = self.outcome.pieces.pop_front() {
                if self.kind == ElementKind::Rows && piece.rows() > max {
                    self.outcome.pieces.push_front(piece.slice(max..piece.rows()));
                    self.used += max as u64;
                    return Ok(Some(piece.slice(0..max)));
                }
                self.used += self.kind.elements(&piece) as u64;
                return Ok(Some(piece));
            }
            if let Some(error) = self.outcome.error.take() {
                return Err(error);
            }
            self.before.clear();
            self.upstream.save(&mut self.before);
            self.used = 0;
            let Some(chunk) = self.upstream.next(max.min(CHUNK))? else { return Ok(None) };
            self.outcome = (self.function)(chunk);
        }
    }

    fn save(&self, out: &mut Saver) {
        if self.outcome.pieces.is_empty() && self.outcome.error.is_none() {
            out.u64(0);
            self.upstream.save(out);
        } else {
            out.u64(self.used);
            out.raw(self.before.as_slice());
        }
    }
}

/// Joins rows made one by one into pieces of one layout each, as long as no row fails.
pub(crate) fn join_rows(rows: impl Iterator<Item = Result<Batch>>) -> Outcome {
    let mut outcome = Outcome::default();
    let mut run: Vec<Batch> = Vec::new();
    for row in rows {
        match row {
            Ok(row) => {
                if run.first().is_some_and(|first| !first.same_layout(&row)) {
                    outcome.flush(&mut run);
                }
                run.push(row);
            }
            Err(error) => {
                outcome.flush(&mut run);
                outcome.error.get_or_insert(error);
                return outcome;
            }
        }
    }
    outcome.flush(&mut run);
    outcome
}

impl Outcome {
    fn flush(&mut self, run: &mut Vec<Batch>) {
        if run.is_empty() || self.error.is_some() {
            return;
        }
        match Batch::concat(run) {
            Ok(batch) => self.pieces.push_back(batch),
            Err(error) => self.error = Some(error),
        }
        run.clear();
    }
}
