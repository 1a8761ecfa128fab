//! The model plan of a canned model: its columns, variables and tables.

use super::l2::L2;
use super::lookup::Lookup;
use crate::Table;
use crate::variables::{VariablePlan, seed_of};
use phalanx_feature::{EmbeddingInitializer, EmbeddingTable, FeatureColumn, Slot, Transform};
use phalanx_nn::model::Initializer;
use phalanx_optim::Optimizer;
use phalanx_ps::TableSpec;
use phalanx_ps::plan::RowInitializer;
use std::ops::Range;

/// Columns, and the lookups of their ids.
pub(crate) struct Columns {
    pub(crate) transform: Transform,
    pub(crate) lookups: Vec<Lookup>,
    /// The columns, in the order of the transform.
    pub(crate) source: Vec<FeatureColumn>,
}

impl Columns {
    pub(crate) fn new(columns: &[FeatureColumn], transform: Transform, lookups: Vec<Lookup>) -> Self {
        let mut source = columns.to_vec();
        source.sort_by_key(FeatureColumn::name);
        Self { transform, lookups, source }
    }
}

/// The variables and tables of a model, with their optimizers.
#[derive(Clone, Default)]
pub(crate) struct ModelPlan {
    pub(crate) variables: Vec<VariablePlan>,
    pub(crate) optimizers: Vec<Optimizer>,
    pub(crate) tables: Vec<Table>,
    pub(crate) l2: L2,
    /// The number of stored rows of each table, for the graph of a checkpoint.
    pub(crate) stored_rows: Vec<usize>,
    pub(crate) seed: u64,
}

impl ModelPlan {
    pub(crate) fn new(seed: u64, l2: L2) -> Self {
        Self { seed, l2, ..Self::default() }
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
}

/// Plans the tables of embeddings as `SCOPE/COLUMN/embedding_weights`, and returns the lookups of their columns. Columns
/// without an initializer use `start`. `at` maps the number of a lookup and its column's range in the input layer to the
/// range in a row of the matrix.
pub(crate) fn plan_lookups(
    transform: &Transform,
    scope: &str,
    start: Option<EmbeddingInitializer>,
    optimizer: Optimizer,
    plan: &mut ModelPlan,
    at: impl Fn(usize, Range<usize>) -> Range<usize>,
) -> Vec<Lookup> {
    let planned = |table: &EmbeddingTable| {
        // TensorFlow's name of a shared table has no scope.
        let name = if table.shared { table.name.clone() } else { format!("{scope}/{}/embedding_weights", table.name) };
        let mut table = table.clone();
        if let Some(start) = start.filter(|_| table.initializer == EmbeddingInitializer::of_dimension(table.dimension))
        {
            table.initializer = start;
        }
        let rows = row_initializer(&table, seed_of(&name, plan.seed));
        plan.table(name, table.dimension, table.rows, rows, optimizer)
    };
    let tables: Vec<usize> = transform.tables().iter().map(planned).collect();
    let mut lookups = Vec::new();
    for column in transform.columns() {
        if let Slot::Table { index, table, combiner, max_norm } = column.slot {
            let (trainable, at) = (transform.tables()[table].trainable, at(lookups.len(), column.input.clone()));
            lookups.push(Lookup { sparse: index, table: tables[table], combiner, max_norm, trainable, at });
        }
    }
    lookups
}

/// Returns the row initializer of a column's table.
fn row_initializer(table: &EmbeddingTable, seed: u64) -> RowInitializer {
    match table.initializer {
        EmbeddingInitializer::TruncatedNormal { mean, stddev } => RowInitializer::truncated_normal(mean, stddev, seed),
        EmbeddingInitializer::RandomNormal { mean, stddev } => RowInitializer::normal(mean, stddev, seed),
        EmbeddingInitializer::RandomUniform { min, max } => RowInitializer::uniform(min, max, seed),
        EmbeddingInitializer::GlorotUniform => {
            let bound = (6.0 / (table.rows + table.dimension) as f32).sqrt();
            RowInitializer::uniform(-bound, bound, seed)
        }
        EmbeddingInitializer::Constant(value) => RowInitializer::constant(value),
    }
}
