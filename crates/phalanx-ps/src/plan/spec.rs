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
///
/// ```
/// use phalanx_optim::Adagrad;
/// use phalanx_ps::{TableSpec, plan::Initializer};
/// let words = TableSpec {
///     name: "words".into(),
///     dim: 16,
///     initializer: Initializer::uniform(-0.05, 0.05, 7),
///     optimizer: Adagrad::new(0.1).into(),
/// };
/// # let _ = words;
/// ```
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
