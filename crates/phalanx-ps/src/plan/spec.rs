//! What a model wants to keep on the servers.

use super::{Initializer, Partitioner};
use phalanx_base::Shape;
use phalanx_optim::Optimizer;

/// A named dense tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct VariableSpec {
    /// Its name, as checkpoints have it.
    pub name: String,
    /// Its extents.
    pub shape: Shape,
    /// How gradients change it.
    pub optimizer: Optimizer,
    /// How it is split.
    pub partitioner: Partitioner,
}

/// Named rows by id: an embedding. Rows come into being when they are first touched.
#[derive(Clone, Debug, PartialEq)]
pub struct TableSpec {
    /// Its name.
    pub name: String,
    /// How many numbers a row has.
    pub dim: usize,
    /// Where a row starts.
    pub initializer: Initializer,
    /// How gradients change a row.
    pub optimizer: Optimizer,
}
