//! A trainer's share of the input, with the position after every batch.

use phalanx_base::{Code, Result};
use phalanx_data::{Batch, Dataset, DatasetIter, Position};

/// Batches and the position after each of them, with one batch of lookahead.
pub(super) struct Input {
    batches: DatasetIter,
    next: Option<(Batch, Vec<u8>)>,
}

impl Input {
    /// Begins a pass over `data`, or continues with what comes after `position`. A position of another pipeline, such as one with
    /// another batch size or another number of trainers, is not used.
    pub(super) fn open(data: &Dataset, position: Option<&[u8]>) -> Result<Self> {
        let resumed = position.map(|position| data.iter_from(&Position::from_bytes(position)?));
        let batches = match resumed {
            Some(Err(error)) if error.code() == Code::CheckpointMismatch => {
                tracing::warn!(code = %error.code(), "the input begins at its start: {error}");
                data.iter()?
            }
            Some(resumed) => {
                let batches = resumed?;
                tracing::info!("the input continues after batch {}", batches.elements());
                batches
            }
            None => data.iter()?,
        };
        Ok(Self { batches, next: None })
    }

    /// Returns the next batch without taking it.
    pub(super) fn peek(&mut self) -> Result<Option<&Batch>> {
        while self.next.is_none() {
            let Some(batch) = self.batches.next().transpose()? else { return Ok(None) };
            if !batch.is_empty() {
                self.next = Some((batch, self.batches.position().to_bytes()));
            }
        }
        Ok(self.next.as_ref().map(|(batch, _)| batch))
    }

    /// Takes the next batch, and the position after it.
    pub(super) fn take(&mut self) -> Result<Option<(Batch, Vec<u8>)>> {
        self.peek()?;
        Ok(self.next.take())
    }
}
