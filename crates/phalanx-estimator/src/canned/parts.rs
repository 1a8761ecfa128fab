//! What the parts of canned models have in common: columns, and what they ask to be kept.

use super::lookup::Lookup;
use crate::Table;
use crate::variables::{VariablePlan, seed_of};
use phalanx_base::{Code, Error};
use phalanx_feature::{FeatureColumn, Initializer as ColumnInitializer, TableSpec as ColumnTable, Transform};
use phalanx_nn::model::Initializer;
use phalanx_optim::Optimizer;
use phalanx_ps::TableSpec;
use phalanx_ps::plan::Initializer as RowInitializer;

/// Columns, and the ways of their ids into a matrix.
pub(crate) struct Columns {
    pub(crate) transform: Transform,
    pub(crate) lookups: Vec<Lookup>,
    /// The columns themselves, in the order of the transform.
    pub(crate) source: Vec<FeatureColumn>,
}

impl Columns {
    pub(crate) fn new(columns: &[FeatureColumn], transform: Transform, lookups: Vec<Lookup>) -> Self {
        let mut source = columns.to_vec();
        source.sort_by_key(FeatureColumn::name);
        Self { transform, lookups, source }
    }
}

/// Collects what a model wants to keep.
#[derive(Default)]
pub(crate) struct Builder {
    pub(crate) variables: Vec<VariablePlan>,
    pub(crate) optimizers: Vec<Optimizer>,
    pub(crate) tables: Vec<Table>,
    pub(crate) seed: u64,
}

impl Builder {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    pub(crate) fn variable(
        &mut self,
        name: String,
        dims: Vec<usize>,
        initializer: Initializer,
        optimizer: Optimizer,
    ) -> usize {
        self.variables.push(VariablePlan { name, dims, initializer });
        self.optimizers.push(optimizer);
        self.variables.len() - 1
    }

    pub(crate) fn table(
        &mut self,
        name: String,
        dim: usize,
        rows: usize,
        initializer: RowInitializer,
        optimizer: Optimizer,
    ) -> usize {
        self.tables.push(Table { spec: TableSpec { name, dim, initializer, optimizer }, rows });
        self.tables.len() - 1
    }

    /// Where the rows of a table begin to be random.
    pub(crate) fn seed_of(&self, table: &str) -> u64 {
        seed_of(table, self.seed)
    }
}

/// The tables of embeddings, as `SCOPE/COLUMN/embedding_weights`; where a column says nothing about how rows begin, they
/// begin as `start` says.
pub(crate) fn plan_tables(
    transform: &Transform,
    scope: &str,
    start: Option<ColumnInitializer>,
    optimizer: Optimizer,
    builder: &mut Builder,
) -> Vec<usize> {
    let plan = |table: &ColumnTable| {
        // TensorFlow's name of a shared table has no scope.
        let name = if table.shared { table.name.clone() } else { format!("{scope}/{}/embedding_weights", table.name) };
        let mut table = table.clone();
        if let Some(start) = start.filter(|_| table.initializer == ColumnInitializer::of_dimension(table.dimension)) {
            table.initializer = start;
        }
        let rows = row_initializer(&table, builder.seed_of(&name));
        builder.table(name, table.dimension, table.rows, rows, optimizer)
    };
    transform.tables().iter().map(plan).collect()
}

/// How a column wants its rows to begin.
fn row_initializer(table: &ColumnTable, seed: u64) -> RowInitializer {
    match table.initializer {
        ColumnInitializer::TruncatedNormal { mean, stddev } => RowInitializer::truncated_normal(mean, stddev, seed),
        ColumnInitializer::RandomNormal { mean, stddev } => RowInitializer::normal(mean, stddev, seed),
        ColumnInitializer::RandomUniform { min, max } => RowInitializer::uniform(min, max, seed),
        ColumnInitializer::GlorotUniform => {
            let bound = (6.0 / (table.rows + table.dimension) as f32).sqrt();
            RowInitializer::uniform(-bound, bound, seed)
        }
        ColumnInitializer::Constant(value) => RowInitializer::constant(value),
    }
}

pub(crate) fn embedding_in_linear(column: &str) -> Error {
    Error::new(Code::BadSetting, format!("the linear part has an embedding, {column:?}"))
        .because("a linear model has a weight of its own for every id")
        .help("give it the categorical column itself; embeddings belong to the deep part")
}
