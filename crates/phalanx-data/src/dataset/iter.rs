//! One pass over a dataset.

use super::Dataset;
use super::node::{ElementKind, Stage};
use crate::position::Saver;
use crate::{Batch, Position};
use phalanx_base::Result;

/// An iterator over the elements of a dataset; made by [`Dataset::iter`].
///
/// An element of a batched dataset is a batch; of others, a batch of one row. After an error it ends.
pub struct DatasetIter {
    stage: Box<dyn Stage>,
    kind: ElementKind,
    fingerprint: u64,
    iteration: u64,
    seed: u64,
    elements: u64,
    ended: bool,
    failed: bool,
    /// The position of the stages before the last call, which counts if that call fails.
    before: Saver,
}

impl DatasetIter {
    pub(super) fn new(stage: Box<dyn Stage>, dataset: &Dataset, iteration: u64, seed: u64) -> Self {
        let (kind, fingerprint) = (dataset.node().kind(), dataset.fingerprint());
        Self {
            stage,
            kind,
            fingerprint,
            iteration,
            seed,
            elements: 0,
            ended: false,
            failed: false,
            before: Saver::default(),
        }
    }

    pub(super) fn resumed(self, position: &Position) -> Self {
        Self { elements: position.elements, ended: position.ended, ..self }
    }

    /// The next elements: of an un-batched dataset up to `max` rows in one batch, of a batched one its next batch.
    /// `None` at the end.
    ///
    /// ```
    /// use phalanx_data::Dataset;
    /// let mut iter = Dataset::range(0, 5, 1).iter()?;
    /// assert_eq!(iter.next_chunk(3)?.unwrap().i64("value")?, [0, 1, 2]);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// The first error of the pipeline, with the location where it occurred. The iterator then ends.
    pub fn next_chunk(&mut self, max: usize) -> Result<Option<Batch>> {
        if self.ended || self.failed || max == 0 {
            return Ok(None);
        }
        self.before.clear();
        self.stage.save(&mut self.before);
        match self.stage.next(max) {
            Ok(Some(chunk)) => {
                self.elements += self.kind.elements(&chunk) as u64;
                Ok(Some(chunk))
            }
            Ok(None) => {
                self.ended = true;
                Ok(None)
            }
            Err(error) => {
                self.failed = true;
                // A reader knows file and line; otherwise the number of elements is the location.
                let place = format!("after element {} of the input", self.elements);
                Err(if error.place().is_none() { error.at(place) } else { error })
            }
        }
    }

    /// Returns the position after the elements returned so far, also if the next one failed.
    #[must_use]
    pub fn position(&self) -> Position {
        let mut stages = Saver::default();
        if self.failed {
            stages.raw(self.before.as_slice());
        } else if !self.ended {
            self.stage.save(&mut stages);
        }
        Position {
            fingerprint: self.fingerprint,
            iteration: self.iteration,
            seed: self.seed,
            elements: self.elements,
            ended: self.ended,
            stages: stages.into_vec(),
        }
    }

    /// Returns how many elements this pass has returned.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.elements
    }
}

impl Iterator for DatasetIter {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_chunk(1).transpose()
    }
}

impl std::iter::FusedIterator for DatasetIter {}

impl std::fmt::Debug for DatasetIter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DatasetIter").field("elements", &self.elements).field("ended", &self.ended).finish()
    }
}
