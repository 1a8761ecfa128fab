//! Batches prepared ahead of the training step.

use crate::Trainable;
use crate::head::Targets;
use phalanx_base::{Code, Error, Result};
use phalanx_data::{Batch, Dataset};
use std::sync::mpsc::{Receiver, SyncSender};

/// The part of a batch that one replica computes on, prepared for the model.
pub(crate) struct PreparedPart<I> {
    pub(crate) input: I,
    pub(crate) targets: Targets,
    pub(crate) rows: usize,
}

/// The parts of a batch, one for each replica that has rows.
pub(crate) type PreparedBatch<I> = Vec<PreparedPart<I>>;

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

/// Reads batches and prepares them for this many replicas, until the input ends or the receiver is dropped.
pub(crate) fn read<M: Trainable>(
    model: &M,
    data: &Dataset,
    replicas: usize,
    out: &SyncSender<Result<PreparedBatch<M::Input>>>,
) -> Result<()> {
    let prepare = |batch: &Batch| {
        let (input, targets) = (model.input(batch)?, model.head().targets(batch)?);
        Ok(PreparedPart { input, targets, rows: batch.rows() })
    };
    let prepare = |batch: &Batch| prepare(batch).map_err(|error| located(error, model, data));
    for batch in data.iter()? {
        let batch = batch?;
        let rows = batch.rows();
        if rows == 0 {
            continue;
        }
        let ready = if replicas == 1 {
            vec![prepare(&batch)?]
        } else {
            let each = rows.div_ceil(replicas);
            let starts = (0..rows).step_by(each);
            starts.map(|start| prepare(&batch.slice(start..rows.min(start + each)))).collect::<Result<_>>()?
        };
        if out.send(Ok(ready)).is_err() {
            break;
        }
    }
    Ok(())
}

/// Names file and line (record, row) in an error about a row of a batch. The files are read again up to that row. An error
/// that their rows do not have, because a stage of the dataset has changed them, stays as it is.
pub(crate) fn located<M: Trainable>(error: Error, model: &M, data: &Dataset) -> Error {
    if error.code() != Code::DataRow {
        return error;
    }
    let check = |rows: &Batch| model.input(rows).map(drop).and_then(|()| model.head().check_labels(rows));
    let is_it = |rows: &Batch| check(rows).is_err_and(|found| found.what() == error.what());
    // The first wrong row of a chunk may be another one.
    let fails = |rows: &Batch| check(rows).is_err() && (0..rows.rows()).any(|row| is_it(&rows.slice(row..row + 1)));
    match data.find_row(fails) {
        Ok(Some(place)) => error.at(place),
        _ => error,
    }
}
