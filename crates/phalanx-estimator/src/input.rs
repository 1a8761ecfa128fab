//! Batches on their way from the input to the step that is computed with them.

use crate::Trainable;
use crate::head::Targets;
use phalanx_base::Result;
use phalanx_data::Dataset;
use std::sync::mpsc::{Receiver, SyncSender};

/// A batch as a model computes with it.
pub(crate) struct Ready<I> {
    pub(crate) input: I,
    pub(crate) targets: Targets,
}

/// Batches that are ready, of which the next can be looked at.
pub(crate) struct Input<I> {
    batches: Receiver<Result<Ready<I>>>,
    next: Option<Ready<I>>,
}

impl<I> Input<I> {
    pub(crate) fn new(batches: Receiver<Result<Ready<I>>>) -> Self {
        Self { batches, next: None }
    }

    /// The next batch; `None` when the input has ended.
    pub(crate) fn next(&mut self) -> Result<Option<&Ready<I>>> {
        if self.next.is_none() {
            self.next = self.batches.recv().ok().transpose()?;
        }
        Ok(self.next.as_ref())
    }

    /// The same, to be computed with.
    pub(crate) fn take(&mut self) -> Result<Option<Ready<I>>> {
        self.next()?;
        Ok(self.next.take())
    }
}

/// Reads batches and makes them ready until the input ends, or nobody wants more.
pub(crate) fn read<M: Trainable>(model: &M, data: &Dataset, out: &SyncSender<Result<Ready<M::Input>>>) -> Result<()> {
    for batch in data.iter()? {
        let batch = batch?;
        if batch.rows() == 0 {
            continue;
        }
        let ready = Ready { input: model.input(&batch)?, targets: model.head().targets(&batch)? };
        if out.send(Ok(ready)).is_err() {
            break;
        }
    }
    Ok(())
}
