//! The shape of a value: its dimensions, and what runs along its first axis.

use phalanx_base::{Code, Error, Result, Shape};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What the first axis of a value counts, where its length is known only in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Leading {
    /// There is no such axis: a parameter, or a loss.
    None,
    /// The examples of a batch.
    Batch,
    /// The unique rows of a table that a batch looks up.
    Rows,
}

/// The shape of a value in a [`Graph`](crate::Graph).
///
/// ```
/// use phalanx_graph::ValueShape;
/// assert_eq!(ValueShape::batch([3, 4]).to_string(), "[batch, 3, 4]");
/// assert_eq!(ValueShape::fixed([]).to_string(), "[]");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueShape {
    /// What the first axis counts.
    pub leading: Leading,
    /// The other axes.
    pub dims: Vec<usize>,
}

impl ValueShape {
    /// A value with one entry of these dimensions for each example.
    #[must_use]
    pub fn batch(dims: impl Into<Vec<usize>>) -> Self {
        Self { leading: Leading::Batch, dims: dims.into() }
    }

    /// A value of these dimensions, whatever the batch.
    #[must_use]
    pub fn fixed(dims: impl Into<Vec<usize>>) -> Self {
        Self { leading: Leading::None, dims: dims.into() }
    }

    /// Returns the number of elements of one entry along the first axis.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.dims.iter().product()
    }

    /// Returns the size of the last axis; 1 if there is none.
    #[must_use]
    pub fn width(&self) -> usize {
        self.dims.last().copied().unwrap_or(1)
    }

    /// Refuses sizes that overflow, which a stored graph may have.
    pub(crate) fn check(&self) -> Result<()> {
        Shape::new(self.dims.clone()).map(drop)
    }

    /// Returns an error unless the value has one vector for each example.
    pub(crate) fn vector(&self) -> Result<usize> {
        match (self.leading, self.dims.as_slice()) {
            (Leading::Batch, &[width]) => Ok(width),
            _ => Err(Error::new(Code::ShapeMismatch, format!("an input has shape {self}"))
                .because("this operation takes one vector for each example")),
        }
    }
}

impl fmt::Display for ValueShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let leading = match self.leading {
            Leading::None => None,
            Leading::Batch => Some("batch".to_owned()),
            Leading::Rows => Some("rows".to_owned()),
        };
        let axes: Vec<String> = leading.into_iter().chain(self.dims.iter().map(ToString::to_string)).collect();
        write!(f, "[{}]", axes.join(", "))
    }
}
