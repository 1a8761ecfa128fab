//! Jobs described by a file: data, columns, model, training, evaluation and export without writing Rust.
//!
//! | read | for |
//! | --- | --- |
//! | [`Job`] | the file, read; `train`, `dry_run`, `evaluate`, `predict`, `export` |
//! | [`Overrides`] | what a command line says instead |
//! | [`Place`] | a run directory or an export, and the job that made it |
//! | [`schema`], [`reference()`], [`EXAMPLE`] | every key there is |
//!
//! Every key is declared once (`schema`): the lists there decide what is refused, what is suggested instead, what the
//! JSON Schema and the reference page say. Values keep their places in the text, so that whatever goes wrong later -
//! a column that the data has not, a label outside of the classes - is reported with a caret under its cause.
//!
//! A job trained into a run directory leaves a copy of itself there (`job.toml`), and in `assets.extra/` of its exports:
//! both can be predicted from without anything else.

mod check;
mod columns;
mod copy;
mod data;
mod dry_run;
mod explain;
mod head;
mod input;
mod job;
mod json;
mod model;
mod optimizer;
mod paths;
mod run;
mod schema;
mod section;
mod settings;
mod source;
mod trained;
mod tree;

pub use copy::Place;
pub use job::{Job, Overrides};
pub use json::{done_json, error_json, evaluation_json, rows_json};
pub use run::Done;
pub use schema::{reference, schema};

/// A job with a remark on every line, to begin with.
pub const EXAMPLE: &str = include_str!("example.toml");
