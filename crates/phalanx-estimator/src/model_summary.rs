//! The summary of a model before training: columns, their widths, parameters, and the servers that will hold them.

use crate::{Canned, Trainable};
use phalanx_base::{Result, Shape};
use phalanx_feature::{PlannedColumn, Slot};
use phalanx_ps::plan::{Layout, VariableSpec};
use phalanx_ps::{Partitioner, Placement, TableSpec};
use std::fmt;

/// The most lines of a list that are shown.
const SHOWN: usize = 40;

/// A table with more ids than this is only as large as the rows that are used.
const UNBOUNDED: usize = 1 << 40;

/// The columns and variables of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelSummary {
    /// The columns of every part.
    pub columns: Vec<ColumnSummary>,
    /// The variables, then the tables.
    pub variables: Vec<VariableSummary>,
    /// The number of servers; 0 if this process is the whole job.
    pub servers: usize,
}

/// A column of a part of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ColumnSummary {
    /// `linear`, or `network` for the rest of the model.
    pub part: &'static str,
    /// TensorFlow's name of the column.
    pub name: String,
    /// What the part gets for each row.
    pub width: ColumnWidth,
}

/// What a part of a model gets from a column for each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnWidth {
    /// This many numbers.
    Numbers(usize),
    /// Ids below this number, each with its own weight.
    Ids(usize),
    /// Rows of a table, combined into one of `dimension` numbers.
    Embedding {
        /// The number of ids.
        ids: usize,
        /// The numbers of a row.
        dimension: usize,
    },
}

/// A variable or a table.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VariableSummary {
    /// TensorFlow's name.
    pub name: String,
    /// The shape; of a table, the number of ids and the numbers of a row.
    pub dims: Vec<usize>,
    /// Whether it is a table, whose rows are created when they are first used and spread over all servers by id.
    pub is_table: bool,
    /// The servers that hold it; empty if this process does.
    pub servers: Vec<usize>,
}

impl VariableSummary {
    /// Returns the number of parameters; of a table, of all its rows.
    #[must_use]
    pub fn parameters(&self) -> u128 {
        self.dims.iter().map(|&dim| dim as u128).product()
    }

    /// Returns whether a table has more ids than a machine could hold.
    #[must_use]
    pub fn grows(&self) -> bool {
        self.is_table && self.dims.first().is_some_and(|&ids| ids > UNBOUNDED)
    }
}

impl Canned {
    /// Returns the summary of the model on this number of servers, or in one process with 0.
    ///
    /// # Errors
    /// Fails if the model cannot be laid out.
    pub fn summary(&self, servers: usize) -> Result<ModelSummary> {
        let mut columns = Vec::new();
        for part in &self.plan.parts {
            columns.extend(part.transform.columns().iter().map(|column| ColumnSummary {
                part: part.part,
                name: column.name.clone(),
                width: width(column, part.transform.tables()),
            }));
        }
        Ok(ModelSummary { columns, variables: self.variables(servers)?, servers })
    }

    fn variables(&self, servers: usize) -> Result<Vec<VariableSummary>> {
        let planned = &self.plan.variables;
        let specs = planned.iter().zip(&self.plan.optimizers).map(|(plan, optimizer)| {
            let shape = Shape::new(plan.dims.clone())?;
            // As a supervisor does by default.
            Ok(VariableSpec {
                name: plan.name.clone(),
                shape,
                optimizer: *optimizer,
                partitioner: Partitioner::default(),
            })
        });
        let tables: Vec<TableSpec> = self.tables().iter().map(|table| table.spec.clone()).collect();
        let layout = Layout::new(specs.collect::<Result<_>>()?, tables, servers.max(1), Placement::default())?;
        let holders = |variable: usize| {
            let shards = layout.shards().iter().filter(|shard| shard.variable == variable);
            let mut all: Vec<usize> = shards.map(|shard| shard.server).collect();
            all.sort_unstable();
            all.dedup();
            if servers == 0 { Vec::new() } else { all }
        };
        let dense = planned.iter().enumerate().map(|(at, plan)| VariableSummary {
            name: plan.name.clone(),
            dims: plan.dims.clone(),
            is_table: false,
            servers: holders(at),
        });
        let tables = self.tables().iter().map(|table| VariableSummary {
            name: table.spec.name.clone(),
            dims: vec![table.rows, table.spec.dim],
            is_table: true,
            servers: (0..servers).collect(),
        });
        Ok(dense.chain(tables).collect())
    }
}

fn width(column: &PlannedColumn, tables: &[phalanx_feature::EmbeddingTable]) -> ColumnWidth {
    match column.slot {
        Slot::Dense { width, .. } => ColumnWidth::Numbers(width),
        Slot::Ids { buckets, .. } => ColumnWidth::Ids(buckets),
        Slot::Table { table, .. } => {
            ColumnWidth::Embedding { ids: tables[table].rows, dimension: tables[table].dimension }
        }
    }
}

impl fmt::Display for ColumnWidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids = |ids: usize| if ids > UNBOUNDED { "any".to_owned() } else { ids.to_string() };
        match *self {
            Self::Numbers(1) => f.write_str("1 number"),
            Self::Numbers(width) => write!(f, "{width} numbers"),
            Self::Ids(count) => write!(f, "{} ids", ids(count)),
            Self::Embedding { ids: count, dimension } => write!(f, "{dimension} numbers for {} ids", ids(count)),
        }
    }
}

impl ModelSummary {
    /// Returns the number of parameters, and whether some tables are not counted because their rows are created as needed.
    #[must_use]
    pub fn parameters(&self) -> (u128, bool) {
        let counted = self.variables.iter().filter(|variable| !variable.grows());
        (counted.map(VariableSummary::parameters).sum(), self.variables.iter().any(VariableSummary::grows))
    }

    fn place(&self, variable: &VariableSummary) -> String {
        match (&variable.servers[..], variable.is_table) {
            ([], _) => "this process".to_owned(),
            (all, true) if all.len() > 1 => format!("rows spread over ps/0 to ps/{}", all.len() - 1),
            (all, _) => all.iter().map(|server| format!("ps/{server}")).collect::<Vec<_>>().join(", "),
        }
    }
}

/// Formats it as two lists: columns with their widths, and variables with their parameters and servers.
impl fmt::Display for ModelSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, grows) = self.parameters();
        let more = if grows { ", and tables that grow with the ids in the data" } else { "" };
        write!(f, "{count} parameters in {} variables{more}", self.variables.len())?;
        let columns = self.columns.iter().map(|column| {
            let ColumnSummary { part, name, width } = column;
            vec![(*part).to_owned(), name.clone(), width.to_string()]
        });
        list(f, ["part", "column", "gives for each row"], columns)?;
        let variables = self.variables.iter().map(|variable| {
            let dims = variable.dims.iter().map(usize::to_string).collect::<Vec<_>>().join(" x ");
            let (shape, parameters) = match variable.grows() {
                true => (format!("any x {}", variable.dims[1]), "grows".to_owned()),
                false => (dims, variable.parameters().to_string()),
            };
            vec![variable.name.clone(), shape, parameters, self.place(variable)]
        });
        list(f, ["variable", "shape", "parameters", "held by"], variables)
    }
}

fn list<const N: usize>(
    f: &mut fmt::Formatter<'_>,
    heading: [&str; N],
    rows: impl ExactSizeIterator<Item = Vec<String>>,
) -> fmt::Result {
    let hidden = rows.len().saturating_sub(SHOWN);
    if rows.len() == 0 {
        return Ok(());
    }
    let all: Vec<Vec<String>> = std::iter::once(heading.map(str::to_owned).to_vec()).chain(rows.take(SHOWN)).collect();
    let width = |at: usize| all.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    for row in &all {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}")).collect();
        write!(f, "\n  {}", cells.join("  ").trim_end())?;
    }
    if hidden > 0 { write!(f, "\n  and {hidden} more") } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use crate::{IntoModel, WideDeepClassifier};
    use phalanx_feature::{
        bucketized_column, categorical_column_with_hash_bucket, categorical_column_with_identity, embedding_column,
        numeric_column,
    };

    #[test]
    fn a_summary_has_widths_parameters_and_servers() {
        let job = categorical_column_with_hash_bucket("job", 20);
        let user = categorical_column_with_identity("user", i64::MAX as usize);
        let wide = [bucketized_column("age", [30, 60])];
        let deep = [numeric_column("pay"), embedding_column(job, 4), embedding_column(user, 2)];
        let model = WideDeepClassifier::new(wide, deep).hidden_units([8]).to_model(0).unwrap();
        let text = model.summary(2).unwrap().to_string();
        let lines: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            lines,
            [
                "157 parameters in 8 variables, and tables that grow with the ids in the data",
                "part column gives for each row",
                "linear age_bucketized 3 ids",
                "network job_embedding 4 numbers for 20 ids",
                "network pay 1 number",
                "network user_embedding 2 numbers for any ids",
                "variable shape parameters held by",
                "linear/linear_model/bias_weights 1 1 ps/0",
                "dnn/hiddenlayer_0/kernel 7 x 8 56 ps/1",
                "dnn/hiddenlayer_0/bias 8 8 ps/0",
                "dnn/logits/kernel 8 x 1 8 ps/1",
                "dnn/logits/bias 1 1 ps/0",
                "linear/linear_model/age_bucketized/weights 3 x 1 3 rows spread over ps/0 to ps/1",
                "dnn/input_from_feature_columns/input_layer/job_embedding/embedding_weights 20 x 4 80 rows spread over ps/0 to ps/1",
                "dnn/input_from_feature_columns/input_layer/user_embedding/embedding_weights any x 2 grows rows spread over ps/0 to ps/1",
            ]
        );
        assert!(model.summary(0).unwrap().to_string().contains("this process"));
    }
}
