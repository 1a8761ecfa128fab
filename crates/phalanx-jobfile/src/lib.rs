//! Jobs described by a file: data, columns, model, training, evaluation and export without writing Rust.
//!
//! | item | purpose |
//! | --- | --- |
//! | [`Job`] | a parsed file: `train`, `dry_run`, `evaluate`, `predict`, `importances`, `export` |
//! | [`Overrides`] | command-line values that override the file |
//! | [`PredictionWriter`] | predictions as text, JSON lines, CSV or Parquet |
//! | [`DataStatistics`] | statistics of files, and of a job's inputs |
//! | [`TrainedJob`] | a run directory or an export, with the job that produced it |
//! | [`schema`], [`reference()`], [`EXAMPLE`] | documentation of every key |
//!
//! The `schema` module declares every key once. Its lists decide which keys are accepted and suggested, and generate the
//! JSON Schema and the reference page. Values keep their position in the text, so later errors, such as a missing column
//! or a label out of range, point at their cause in the file.
//!
//! Training leaves a copy of the job (`job.toml`) in the run directory and in `assets.extra/` of its exports. Either one is
//! enough for predictions.

/// Calls a builder's setters for the values that are given, which leaves the builder's defaults for the others.
macro_rules! set {
    ($builder:expr, $($setter:ident: $value:expr),* $(,)?) => {{
        let mut builder = $builder;
        $(if let Some(value) = $value {
            builder = builder.$setter(value);
        })*
        builder
    }};
}

mod check;
mod columns;
mod copy;
mod data;
mod data_statistics;
mod dry_run;
mod explain;
mod head;
mod importance;
mod input;
mod job;
mod json;
mod label;
mod locate;
mod model;
mod optimizer;
mod paths;
mod predictions;
mod row_source;
mod run;
mod schema;
mod section;
mod selection;
mod set;
mod settings;
mod source;
mod statistics;
mod trained;
mod tree;

pub use copy::TrainedJob;
pub use data_statistics::{ColumnReport, ColumnRole, DataPart, DataStatistics, FileFormat, FileStatistics};
pub use job::{Job, Overrides};
pub use json::{done_json, error_json, evaluation_json, number_json, rows_json};
pub use predictions::{PredictionFormat, PredictionWriter};
pub use run::Done;
pub use schema::{reference, schema};
pub use trained::PredictOptions;

/// A commented example of a job.
pub const EXAMPLE: &str = include_str!("example.toml");
