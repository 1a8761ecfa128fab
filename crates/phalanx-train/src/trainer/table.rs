//! The tables of a trainer, and the columns whose ids they hold rows for.

use phalanx_base::fnv1a;
use phalanx_optim::Optimizer;
use phalanx_ps::TableSpec;
use phalanx_ps::plan::RowInitializer;

/// An embedding table of a [`Trainer`](super::Trainer): rows by id, created when an id is first seen.
///
/// ```
/// use phalanx_optim::Adam;
/// use phalanx_ps::plan::RowInitializer;
/// use phalanx_train::Table;
/// let items = Table::new(8)
///     .optimizer(Adam::new(1e-2))
///     .initializer(RowInitializer::uniform(-0.05, 0.05, 7))
///     .columns(["item", "last_item"]);
/// # let _ = items;
/// ```
#[derive(Clone, Debug)]
pub struct Table {
    dim: usize,
    initializer: Option<RowInitializer>,
    optimizer: Option<Optimizer>,
    columns: Vec<String>,
}

impl Table {
    /// Creates a table whose rows have `dim` numbers. They begin as truncated normal numbers with a deviation of
    /// `1 / √dim`, as TensorFlow's embedding columns do, and learn with the trainer's optimizer.
    #[must_use]
    pub fn new(dim: usize) -> Self {
        Self { dim, initializer: None, optimizer: None, columns: Vec::new() }
    }

    /// Sets how gradients change a row.
    #[must_use]
    pub fn optimizer(self, optimizer: impl Into<Optimizer>) -> Self {
        Self { optimizer: Some(optimizer.into()), ..self }
    }

    /// Sets the first value of a row.
    #[must_use]
    pub fn initializer(self, initializer: RowInitializer) -> Self {
        Self { initializer: Some(initializer), ..self }
    }

    /// Sets the columns whose ids are looked up in this table; by default it is the column with the name of the table.
    #[must_use]
    pub fn columns<N: Into<String>>(self, columns: impl IntoIterator<Item = N>) -> Self {
        Self { columns: columns.into_iter().map(Into::into).collect(), ..self }
    }

    /// Returns what the servers hold, and the columns.
    pub(super) fn resolve(self, name: &str, optimizer: Optimizer) -> (TableSpec, Vec<String>) {
        let deviation = 1.0 / (self.dim.max(1) as f32).sqrt();
        // Tables with different names begin with different rows.
        let seed = fnv1a(name.bytes());
        let spec = TableSpec {
            name: name.to_owned(),
            dim: self.dim,
            initializer: self.initializer.unwrap_or_else(|| RowInitializer::truncated_normal(0.0, deviation, seed)),
            optimizer: self.optimizer.unwrap_or(optimizer),
        };
        (spec, if self.columns.is_empty() { vec![name.to_owned()] } else { self.columns })
    }
}
