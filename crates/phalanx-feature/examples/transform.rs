//! Prints the features of the census's wide-and-deep columns as JSON lines.
//!
//!     cargo run -p phalanx-feature --example transform -- adult.data 1000
//!
//! The first line describes the columns. One line per row follows: `dense`, the numbers of the deep part, and `ids`, the
//! ids of every column with ids, by name. `tests/fixtures/census.py` compares them with `tf.feature_column`.

#[path = "../tests/it/common/census.rs"]
mod census;

use phalanx_base::{Code, Context, Error, Result};
use phalanx_data::SourceExt;
use phalanx_feature::{Features, Slot, Transform};
use serde_json::{Map, Value, json};
use std::io::Write;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or_else(|| {
        Error::new(Code::Flags, "no file was given")
            .help("usage: transform CENSUS_FILE [ROWS], for example adult.data 1000")
    })?;
    let rows = match arguments.next() {
        None => 1000,
        Some(text) => text.parse().context(Code::Flags, format!("{text:?} is not a number of rows"))?,
    };
    let plans = [Transform::linear_model(&census::wide())?, Transform::dense_features(&census::deep())?];
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    put(&mut out, json!({"wide": described(&plans[0]), "deep": described(&plans[1])}))?;
    for batch in census::census(path).dataset().take(rows).batch(128).iter()? {
        let batch = batch?;
        let features: Vec<Features> = plans.iter().map(|plan| plan.apply(&batch)).collect::<Result<_>>()?;
        for row in 0..batch.rows() {
            let mut ids = Map::new();
            for (plan, features) in plans.iter().zip(&features) {
                for column in plan.columns() {
                    if let Slot::Ids { index, .. } | Slot::Table { index, .. } = column.slot {
                        ids.insert(column.name.clone(), json!(features.sparse[index].row(row)));
                    }
                }
            }
            let width = plans[1].dense_width();
            let dense = &features[1].dense[row * width..(row + 1) * width];
            put(&mut out, json!({"dense": dense, "ids": ids}))?;
        }
    }
    out.flush().context(Code::StorageWrite, "the output cannot be written")
}

/// The columns in order: name, kind and width.
fn described(plan: &Transform) -> Value {
    let columns = plan.columns().iter().map(|column| {
        let width = match &column.slot {
            Slot::Dense { width, .. } => *width,
            Slot::Ids { buckets, .. } => *buckets,
            Slot::Table { table, .. } => plan.tables()[*table].rows,
        };
        json!({"name": column.name, "dense": matches!(column.slot, Slot::Dense { .. }), "width": width})
    });
    columns.collect()
}

fn put(out: &mut impl Write, line: Value) -> Result<()> {
    writeln!(out, "{line}").context(Code::StorageWrite, "the output cannot be written")
}
