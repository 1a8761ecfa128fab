//! The construction of plans for dense features, linear models and sequences.

use super::output::Output;
use super::plan::Planner;
use super::{PlannedColumn, Slot, Transform};
use crate::columns::kind::{Categorical, ColumnKind, Embedding, Numeric};
use crate::columns::{Combiner, EmbeddingTable, FeatureColumn};
use phalanx_base::{Code, Error, Result};

/// The most numbers of a one-hot column that are counted without overflow.
const WIDEST: usize = 1 << 40;

impl Transform {
    /// Returns the plan of TensorFlow's `DenseFeatures`, the input of a deep model: numeric columns, one-hot buckets,
    /// indicators, and ids for embeddings.
    ///
    /// # Errors
    /// If the settings of a column are not valid, two columns have the same name, or one is categorical and not dense.
    pub fn dense_features(columns: &[FeatureColumn]) -> Result<Self> {
        Builder::build(columns, Layer::Dense)
    }

    /// Returns the plan of a linear model: categorical columns, including bucketized ones, as ids, and dense columns as
    /// numbers. The weights of a row's ids are summed.
    ///
    /// # Errors
    /// As [`Transform::dense_features`], except that categorical columns are accepted.
    pub fn linear_model(columns: &[FeatureColumn]) -> Result<Self> {
        Self::linear_model_with(columns, Combiner::Sum)
    }

    /// Like [`Transform::linear_model`], with TensorFlow's `sparse_combiner`.
    ///
    /// # Errors
    /// As [`Transform::linear_model`].
    pub fn linear_model_with(columns: &[FeatureColumn], sparse_combiner: Combiner) -> Result<Self> {
        Builder::build(columns, Layer::Linear(sparse_combiner))
    }

    /// Returns the plan of TensorFlow's `SequenceFeatures`: sequence columns, padded to the longest row of a batch.
    ///
    /// # Errors
    /// As [`Transform::dense_features`], or if a column has no time axis.
    pub fn sequence_features(columns: &[FeatureColumn]) -> Result<Self> {
        Builder::build(columns, Layer::Sequence)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Layer {
    Dense,
    Linear(Combiner),
    Sequence,
}

struct Builder {
    layer: Layer,
    planner: Planner,
    outputs: Vec<Output>,
    columns: Vec<PlannedColumn>,
    tables: Vec<EmbeddingTable>,
    /// The column that each table was created for.
    owners: Vec<Categorical>,
    dense_width: usize,
    input_width: usize,
    sparse: usize,
}

impl Builder {
    fn build(columns: &[FeatureColumn], layer: Layer) -> Result<Transform> {
        if columns.is_empty() {
            return Err(Error::new(Code::BadSetting, "there are no feature columns").help("give at least one"));
        }
        let mut sorted: Vec<(String, &FeatureColumn)> = columns.iter().map(|c| (c.name(), c)).collect();
        sorted.sort_by(|a, b| a.0.cmp(&b.0));
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(Error::new(Code::BadSetting, format!("two feature columns are named {:?}", pair[0].0))
                .help("leave one of them out, or read its input under another name"));
        }
        let mut builder = Self {
            layer,
            planner: Planner::default(),
            outputs: Vec::new(),
            columns: Vec::new(),
            tables: Vec::new(),
            owners: Vec::new(),
            dense_width: 0,
            input_width: 0,
            sparse: 0,
        };
        for (name, column) in sorted {
            builder.add(name, column)?;
        }
        Ok(builder.finish())
    }

    fn finish(self) -> Transform {
        Transform {
            raws: self.planner.raws,
            steps: self.planner.steps,
            names: self.planner.names,
            outputs: self.outputs,
            columns: self.columns,
            tables: self.tables,
            dense_width: self.dense_width,
            input_width: self.input_width,
            is_sequence: self.layer == Layer::Sequence,
        }
    }

    fn add(&mut self, name: String, column: &FeatureColumn) -> Result<()> {
        let kind = column.checked()?;
        self.check_time_axis(&name, kind)?;
        let before = self.input_width;
        let slot = match (kind, self.layer) {
            (ColumnKind::Numeric(numeric) | ColumnKind::SequenceNumeric(numeric), _) => {
                numeric.check_adapted()?;
                self.numeric(numeric)
            }
            (ColumnKind::Categorical(categorical), Layer::Linear(combiner)) => self.ids(categorical, combiner)?,
            (ColumnKind::Categorical(categorical @ Categorical::Bucketized { .. }), _) => self.scatter(categorical)?,
            (ColumnKind::Categorical(_), _) => {
                return Err(Error::new(Code::BadSetting, format!("feature column {name:?} is not dense"))
                    .because("a deep model takes numbers, a categorical column yields ids")
                    .help("wrap it in embedding_column or indicator_column"));
            }
            (ColumnKind::Indicator(categorical), _) => self.scatter(categorical)?,
            (ColumnKind::Embedding(embedding), _) => self.embedding(embedding)?,
        };
        let input = before..self.input_width;
        self.columns.push(PlannedColumn { name, scope: column.scope_name(), slot, input });
        Ok(())
    }

    fn check_time_axis(&self, name: &str, kind: &ColumnKind) -> Result<()> {
        let has = match kind {
            ColumnKind::Numeric(_) => false,
            ColumnKind::SequenceNumeric(_) => true,
            ColumnKind::Categorical(column) | ColumnKind::Indicator(column) => column.is_sequence(),
            ColumnKind::Embedding(embedding) => embedding.column.is_sequence(),
        };
        match (has, self.layer == Layer::Sequence) {
            (true, false) => Err(Error::new(Code::BadSetting, format!("feature column {name:?} is a sequence"))
                .help("use Transform::sequence_features, or the function without sequence_ in its name")),
            (false, true) => Err(Error::new(Code::BadSetting, format!("feature column {name:?} is not a sequence"))
                .help("use a function with sequence_ in its name, or Transform::dense_features")),
            _ => Ok(()),
        }
    }

    fn dense_slot(&mut self, width: usize) -> Slot {
        let start = self.dense_width;
        self.dense_width += width;
        self.input_width += width;
        Slot::Dense { start, width }
    }

    fn numeric(&mut self, numeric: &Numeric) -> Slot {
        let raw = self.planner.numbers(numeric);
        self.outputs.push(Output::Numeric { raw, numeric: numeric.clone(), start: self.dense_width });
        self.dense_slot(numeric.width())
    }

    fn scatter(&mut self, column: &Categorical) -> Result<Slot> {
        let (step, width) = (self.planner.step(column)?, column.num_buckets()?);
        if width > WIDEST {
            return Err(Error::new(
                Code::BadSetting,
                format!("column {:?} has too many ids to be one-hot", column.name()),
            )
            .because(format!("each example would have {width} numbers, and at most {WIDEST} are allowed"))
            .help("use an embedding_column"));
        }
        self.outputs.push(Output::Scatter { step, start: self.dense_width, width });
        Ok(self.dense_slot(width))
    }

    fn ids(&mut self, column: &Categorical, combiner: Combiner) -> Result<Slot> {
        let (index, buckets) = self.sparse(column, combiner)?;
        Ok(Slot::Ids { index, buckets, combiner })
    }

    fn sparse(&mut self, column: &Categorical, combiner: Combiner) -> Result<(usize, usize)> {
        let (step, buckets) = (self.planner.step(column)?, column.num_buckets()?);
        self.outputs.push(Output::Sparse { step, buckets, combiner });
        self.sparse += 1;
        Ok((self.sparse - 1, buckets))
    }

    fn embedding(&mut self, embedding: &Embedding) -> Result<Slot> {
        let Embedding { column, combiner, max_norm, .. } = embedding;
        let (index, rows) = self.sparse(column, *combiner)?;
        let table = self.table(EmbeddingTable { rows, ..embedding.table.clone() }, column)?;
        self.input_width += embedding.table.dimension;
        Ok(Slot::Table { index, table, combiner: *combiner, max_norm: *max_norm })
    }

    /// The index of a table. Columns that share it must have the same settings.
    fn table(&mut self, wanted: EmbeddingTable, column: &Categorical) -> Result<usize> {
        let Some(place) = self.tables.iter().position(|known| known.name == wanted.name) else {
            self.tables.push(wanted);
            self.owners.push(column.clone());
            return Ok(self.tables.len() - 1);
        };
        let (known, owner) = (&self.tables[place], &self.owners[place]);
        let (ours, theirs) = (column.base().function(), owner.base().function());
        if *known != wanted || ours != theirs {
            return Err(Error::new(
                Code::BadSetting,
                format!("columns share the table {:?} with different settings", wanted.name),
            )
            .because(format!("one is a {theirs} of {} rows, another a {ours} of {} rows", known.rows, wanted.rows))
            .help("share a table among columns of the same kind, with the same buckets and settings"));
        }
        Ok(place)
    }
}
