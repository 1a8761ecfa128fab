//! What a model keeps on the servers.

use super::{Partitioner, RowInitializer, initializer};
use crate::proto;
use phalanx_base::{Code, Error, Result, Shape};
use phalanx_optim::Optimizer;
use std::ops::Range;

/// A named dense tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct VariableSpec {
    /// The name, as in checkpoints.
    pub name: String,
    /// The shape.
    pub shape: Shape,
    /// How gradients change the values.
    pub optimizer: Optimizer,
    /// How the variable is split over servers.
    pub partitioner: Partitioner,
}

/// An embedding table: named rows by id. A row is created when it is first touched.
///
/// ```
/// use phalanx_optim::Adagrad;
/// use phalanx_ps::{TableSpec, plan::RowInitializer};
/// let words = TableSpec {
///     name: "words".into(),
///     dim: 16,
///     initializer: RowInitializer::uniform(-0.05, 0.05, 7),
///     optimizer: Adagrad::new(0.1).into(),
/// };
/// # let _ = words;
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TableSpec {
    /// The name.
    pub name: String,
    /// How many numbers a row has.
    pub dim: usize,
    /// The first value of a row.
    pub initializer: RowInitializer,
    /// How gradients change a row.
    pub optimizer: Optimizer,
}

/// What one server creates: a shard of a variable, or its part of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct ItemSpec {
    /// The name of the variable or table.
    pub name: String,
    /// How gradients change the values.
    pub optimizer: Optimizer,
    /// Whether it is a shard or a table.
    pub kind: ItemKind,
}

/// The part of an [`ItemSpec`] that differs between shards and tables.
#[derive(Clone, Debug, PartialEq)]
pub enum ItemKind {
    /// A shard of a dense variable.
    Dense {
        /// The shape of the whole variable.
        shape: Shape,
        /// The rows of the shard.
        rows: Range<usize>,
    },
    /// A table of rows by id.
    Table {
        /// How many numbers a row has.
        dim: usize,
        /// The first value of a row.
        initializer: RowInitializer,
        /// The server that holds all rows; `None` where they are spread by id.
        pinned: Option<usize>,
    },
}

impl ItemSpec {
    /// Returns the first row of a shard; 0 for a table.
    pub(crate) fn first_row(&self) -> usize {
        match &self.kind {
            ItemKind::Dense { rows, .. } => rows.start,
            ItemKind::Table { .. } => 0,
        }
    }

    pub(crate) fn to_wire(&self) -> proto::Spec {
        let (shape, rows, initializer, pinned) = match &self.kind {
            ItemKind::Dense { shape, rows } => {
                (shape.dims().iter().map(|&extent| extent as u64).collect(), rows.len() as u64, None, None)
            }
            ItemKind::Table { dim, initializer, pinned } => {
                let pinned = pinned.map(|server| server as u32);
                (vec![*dim as u64], 0, Some(initializer::to_wire(*initializer)), pinned)
            }
        };
        let (name, optimizer) = (self.name.clone(), self.optimizer.to_words());
        proto::Spec { name, shape, first_row: self.first_row() as u64, rows, initializer, optimizer, pinned }
    }

    pub(crate) fn from_wire(spec: &proto::Spec) -> Result<Self> {
        let (name, optimizer) = (spec.name.clone(), Optimizer::from_words(&spec.optimizer)?);
        let dims: Result<Vec<usize>, _> = spec.shape.iter().map(|&extent| usize::try_from(extent)).collect();
        let shape = Shape::new(dims.map_err(|_| Error::new(Code::ShapeMismatch, "an extent is too large"))?)?;
        if let Some(wire) = &spec.initializer {
            if shape.dims().len() != 1 || shape.elements() == 0 || shape.elements() > 1 << 20 {
                return Err(Error::new(Code::ShapeMismatch, format!("{shape} is not the width of a table")));
            }
            let initializer = initializer::from_wire(wire)?;
            let pinned = spec.pinned.map(|server| server as usize);
            return Ok(Self { name, optimizer, kind: ItemKind::Table { dim: shape.elements(), initializer, pinned } });
        }
        let end = spec.first_row.checked_add(spec.rows).filter(|&end| end <= shape.rows() as u64);
        let end = end.ok_or_else(|| {
            let rows = format!("{}+{}", spec.first_row, spec.rows);
            Error::new(Code::ShapeMismatch, format!("{name:?} of shape {shape} has no rows {rows}"))
        })?;
        let rows = spec.first_row as usize..end as usize;
        Ok(Self { name, optimizer, kind: ItemKind::Dense { shape, rows } })
    }
}
