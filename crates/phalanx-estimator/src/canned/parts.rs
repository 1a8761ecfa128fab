//! The plan of a canned model: its columns, variables and tables, and the graph over them.

use super::l2::L2;
use crate::Table;
use crate::variables::{VariablePlan, seed_of};
use phalanx_base::Result;
use phalanx_feature::{Combiner, EmbeddingInitializer, EmbeddingTable, FeatureColumn, Slot, Transform};
use phalanx_graph::{Bag, Concat, Graph, InputValues, NodeId, Slice, SquaredNorm};
use phalanx_nn::model::Initializer;
use phalanx_optim::Optimizer;
use phalanx_ps::TableSpec;
use phalanx_ps::plan::RowInitializer;

/// The columns of one part of a model, and the inputs of the graph that they become.
pub(crate) struct Columns {
    /// `linear` or `network`.
    pub(crate) part: &'static str,
    pub(crate) transform: Transform,
    /// The columns, in the order of the transform.
    pub(crate) source: Vec<FeatureColumn>,
    /// The input of the dense columns; `None` if there are none.
    pub(crate) dense: Option<usize>,
    pub(crate) lookups: Vec<Lookup>,
}

/// The lookup of one column's ids.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lookup {
    /// The index of the transform's sparse feature.
    pub(crate) sparse: usize,
    /// The index of the model's table.
    pub(crate) table: usize,
    /// The index of the graph's input.
    pub(crate) input: usize,
}

/// A part that is being planned.
pub(crate) struct Part {
    pub(crate) columns: Columns,
    /// The values of the dense columns.
    pub(crate) dense: Option<NodeId>,
    /// The combined rows of each lookup.
    pub(crate) bags: Vec<NodeId>,
}

/// The variables and tables of a model, with their optimizers, and its graph.
#[derive(Default)]
pub(crate) struct ModelPlan {
    pub(crate) variables: Vec<VariablePlan>,
    pub(crate) optimizers: Vec<Optimizer>,
    pub(crate) tables: Vec<Table>,
    pub(crate) parts: Vec<Columns>,
    pub(crate) graph: Graph,
    /// The terms of regularization.
    pub(crate) penalties: Vec<NodeId>,
    pub(crate) seed: u64,
    l2: L2,
    /// The rows of each table, as nodes.
    rows: Vec<NodeId>,
}

impl ModelPlan {
    pub(crate) fn new(seed: u64, l2: L2) -> Result<Self> {
        l2.check()?;
        Ok(Self { seed, l2, ..Self::default() })
    }

    /// Plans a variable. Matrices are regularized, and vectors, which are biases and moving averages, are not.
    pub(crate) fn variable(
        &mut self,
        name: String,
        dims: Vec<usize>,
        initializer: Initializer,
        optimizer: Optimizer,
    ) -> Result<NodeId> {
        let node = self.graph.parameter(name.clone(), dims.clone())?;
        if dims.len() == 2 {
            self.regularize(node, self.l2.weights)?;
        }
        self.variables.push(VariablePlan { name, dims, initializer });
        self.optimizers.push(optimizer);
        Ok(node)
    }

    /// Plans a table, and returns its number.
    pub(crate) fn table(&mut self, spec: TableSpec, rows: usize, trainable: bool) -> Result<usize> {
        let node = self.graph.table(spec.name.clone(), spec.dim, trainable)?;
        self.regularize(node, self.l2.rows)?;
        self.tables.push(Table { spec, rows });
        self.rows.push(node);
        Ok(self.tables.len() - 1)
    }

    fn regularize(&mut self, node: NodeId, factor: f32) -> Result<()> {
        if factor > 0.0 {
            self.penalties.push(self.graph.add(SquaredNorm { factor }, &[node])?);
        }
        Ok(())
    }

    /// Begins a part of these columns.
    pub(crate) fn part(&mut self, part: &'static str, columns: &[FeatureColumn], transform: Transform) -> Result<Part> {
        let width = transform.dense_width();
        let dense = (width > 0).then(|| self.graph.input(part, InputValues::Numbers(vec![width]))).transpose()?;
        let mut source = columns.to_vec();
        source.sort_by_key(FeatureColumn::name);
        let index = dense.map(|_| self.graph.inputs().len() - 1);
        let columns = Columns { part, transform, source, dense: index, lookups: Vec::new() };
        Ok(Part { columns, dense, bags: Vec::new() })
    }

    /// Adds the lookup of a column's ids to a part.
    pub(crate) fn look_up(
        &mut self,
        part: &mut Part,
        column: &str,
        (sparse, table): (usize, usize),
        (combiner, max_norm): (Combiner, Option<f32>),
    ) -> Result<()> {
        let ids = self.graph.input(format!("{}/{column}", part.columns.part), InputValues::Ids)?;
        part.columns.lookups.push(Lookup { sparse, table, input: self.graph.inputs().len() - 1 });
        part.bags.push(self.graph.add(Bag { combiner, max_norm }, &[self.rows[table], ids])?);
        Ok(())
    }

    /// Begins a part of dense columns and embeddings, whose tables are `SCOPE/COLUMN/embedding_weights`. Tables without an
    /// initializer use `start`.
    pub(crate) fn embeddings(
        &mut self,
        columns: &[FeatureColumn],
        scope: &str,
        start: Option<EmbeddingInitializer>,
        optimizer: Optimizer,
    ) -> Result<Part> {
        let transform = Transform::dense_features(columns)?;
        let mut tables = Vec::with_capacity(transform.tables().len());
        for table in transform.tables() {
            tables.push(self.embedding(table, scope, start, optimizer)?);
        }
        let mut part = self.part("network", columns, transform.clone())?;
        for column in transform.columns() {
            if let Slot::Table { index, table, combiner, max_norm } = column.slot {
                self.look_up(&mut part, &column.name, (index, tables[table]), (combiner, max_norm))?;
            }
        }
        Ok(part)
    }

    fn embedding(
        &mut self,
        table: &EmbeddingTable,
        scope: &str,
        start: Option<EmbeddingInitializer>,
        optimizer: Optimizer,
    ) -> Result<usize> {
        // TensorFlow's name of a shared table has no scope.
        let name = if table.shared { table.name.clone() } else { format!("{scope}/{}/embedding_weights", table.name) };
        let mut table = table.clone();
        if let Some(start) = start.filter(|_| table.initializer == EmbeddingInitializer::of_dimension(table.dimension))
        {
            table.initializer = start;
        }
        let initializer = row_initializer(&table, seed_of(&name, self.seed));
        let spec = TableSpec { name, dim: table.dimension, initializer, optimizer };
        self.table(spec, table.rows, table.trainable)
    }

    /// Returns TensorFlow's input layer: dense columns and embeddings, concatenated in the order of the columns.
    pub(crate) fn input_layer(&mut self, part: &Part) -> Result<NodeId> {
        let (mut all, mut bags) = (Vec::new(), part.bags.iter());
        let mut run: Option<Slice> = None;
        for column in part.columns.transform.columns() {
            match column.slot {
                // Adjacent dense columns are one range.
                Slot::Dense { start, width } => {
                    let run = run.get_or_insert(Slice { start, width: 0 });
                    run.width += width;
                }
                _ => {
                    self.dense_range(part, run.take(), &mut all)?;
                    all.extend(bags.next());
                }
            }
        }
        self.dense_range(part, run, &mut all)?;
        self.side_by_side(&all)
    }

    fn dense_range(&mut self, part: &Part, run: Option<Slice>, all: &mut Vec<NodeId>) -> Result<()> {
        if let (Some(dense), Some(range)) = (part.dense, run) {
            let is_all = range.width == part.columns.transform.dense_width();
            all.push(if is_all { dense } else { self.graph.add(range, &[dense])? });
        }
        Ok(())
    }

    /// Concatenates vectors.
    pub(crate) fn side_by_side(&mut self, parts: &[NodeId]) -> Result<NodeId> {
        match parts {
            &[only] => Ok(only),
            _ => self.graph.add(Concat { axis: 0 }, parts),
        }
    }
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
