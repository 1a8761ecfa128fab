//! Batches prepared ahead of the training step.

use crate::Trainable;
use crate::head::Targets;
use phalanx_base::Result;
use phalanx_data::Dataset;
use std::sync::mpsc::{Receiver, SyncSender};

/// A batch, prepared for the model.
pub(crate) struct PreparedBatch<I> {
    pub(crate) input: I,
    pub(crate) targets: Targets,
}

/// A stream of prepared batches with one batch of lookahead.
pub(crate) struct BatchStream<I> {
    batches: Receiver<Result<PreparedBatch<I>>>,
    next: Option<PreparedBatch<I>>,
}

impl<I> BatchStream<I> {
    pub(crate) fn new(batches: Receiver<Result<PreparedBatch<I>>>) -> Self {
        Self { batches, next: None }
    }

    /// Returns the next batch without taking it, or `None` at the end of the input.
    pub(crate) fn next(&mut self) -> Result<Option<&PreparedBatch<I>>> {
        if self.next.is_none() {
            self.next = self.batches.recv().ok().transpose()?;
        }
        Ok(self.next.as_ref())
    }

    /// Takes the next batch.
    pub(crate) fn take(&mut self) -> Result<Option<PreparedBatch<I>>> {
        self.next()?;
        Ok(self.next.take())
    }
}

/// Reads and prepares batches until the input ends or the receiver is dropped.
pub(crate) fn read<M: Trainable>(
    model: &M,
    data: &Dataset,
    out: &SyncSender<Result<PreparedBatch<M::Input>>>,
) -> Result<()> {
    for batch in data.iter()? {
        let batch = batch?;
        if batch.rows() == 0 {
            continue;
        }
        let ready = PreparedBatch { input: model.input(&batch)?, targets: model.head().targets(&batch)? };
        if out.send(Ok(ready)).is_err() {
            break;
        }
    }
    Ok(())
}
