//! A part of a dataset, for evaluations.

use serde::{Deserialize, Serialize};

/// One of several parts of a dataset: the argument of a step that evaluates it. All parts together are the dataset,
/// whichever workers read them, so that every example counts once even if workers are lost.
///
/// ```
/// use phalanx_train::DatasetPart;
/// assert_eq!(DatasetPart::all(3).map(|part| part.index).collect::<Vec<_>>(), [0, 1, 2]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatasetPart {
    /// The index of this part.
    pub index: usize,
    /// The number of parts.
    pub of: usize,
}

impl DatasetPart {
    /// Returns all of `parts` parts.
    pub fn all(parts: usize) -> impl Iterator<Item = Self> {
        (0..parts).map(move |index| Self { index, of: parts })
    }
}
