//! Prints the rows of a file as JSON, for comparison with other readers: `read_rows '{"format": "csv", "path": "a.csv", …}'`.
//!
//! `columns` are pairs of a name and a type, `label` is one of them; `delimiter`, `defaults`, `na_values`, `non_finite` and
//! `skip` are settings of the readers. The error that ended the reading is printed beside the rows before it.

use phalanx_data::{
    BadRows, Batch, DType, FeatureKind, FeatureSpec, FillValue, NonFiniteValues, PartPosition, Source, ValuesView, csv,
    parquet, tfrecord,
};
use serde_json::{Map, Value, json};
use std::io::Write;

fn main() {
    let wanted: Value =
        std::env::args().nth(1).and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_else(|| {
            eprintln!("usage: read_rows JSON");
            std::process::exit(2)
        });
    let bad_rows = BadRows::skip_at_most(wanted["skip"].as_u64().unwrap_or(0));
    let non_finite = match wanted["non_finite"].as_str() {
        Some("skip") => NonFiniteValues::skip_rows(),
        Some("zero") => NonFiniteValues::zero(),
        Some("keep") => NonFiniteValues::keep(),
        _ => NonFiniteValues::fail(),
    };
    let (rows, error) = read(&*source(&wanted, &bad_rows, &non_finite));
    let error = error.map(|error| json!({ "what": error.what(), "place": error.place(), "help": error.next() }));
    let answer = json!({ "rows": rows, "error": error, "skipped": bad_rows.skipped() + non_finite.rows() });
    if let Err(error) = writeln!(std::io::stdout(), "{answer}") {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn fill(value: &Value) -> FillValue {
    match value {
        Value::String(text) => text.as_str().into(),
        value if value.is_i64() => value.as_i64().unwrap_or_default().into(),
        value => value.as_f64().unwrap_or_default().into(),
    }
}

fn source(wanted: &Value, bad_rows: &BadRows, non_finite: &NonFiniteValues) -> Box<dyn Source> {
    let columns = wanted["columns"].as_array().cloned().unwrap_or_default();
    let columns: Vec<(String, DType)> = columns
        .iter()
        .map(|pair| {
            let dtype = match pair[1].as_str() {
                Some("float32") => DType::F32,
                Some("int64") => DType::I64,
                _ => DType::Bytes,
            };
            (pair[0].as_str().unwrap_or_default().to_owned(), dtype)
        })
        .collect();
    let defaults = wanted["defaults"].as_object().cloned().unwrap_or_default();
    macro_rules! set {
        ($source:expr) => {{
            let mut source = $source.bad_rows(bad_rows.clone()).non_finite(non_finite.clone());
            if let Some(label) = wanted["label"].as_str() {
                source = source.label(label);
            }
            for (name, value) in &defaults {
                source = source.default_value(name, fill(value));
            }
            Box::new(source)
        }};
    }
    let names = || columns.iter().map(|(name, _)| name.clone());
    match text(wanted, "format") {
        "parquet" => set!(parquet(text(wanted, "path")).select(names())),
        "tfrecord" => {
            let spec = |(name, dtype): &(String, DType)| {
                let kind = match dtype {
                    DType::F32 => FeatureKind::F32,
                    DType::Bytes => FeatureKind::Bytes,
                    DType::I64 | DType::U8 => FeatureKind::I64,
                };
                FeatureSpec::fixed(name, kind, 1)
            };
            set!(tfrecord(text(wanted, "path")).parse(columns.iter().map(spec)))
        }
        _ => {
            let mut rows = csv(text(wanted, "path"));
            for (name, dtype) in &columns {
                rows = rows.column(name, *dtype);
            }
            if let Some(&delimiter) = text(wanted, "delimiter").as_bytes().first() {
                rows = rows.delimiter(delimiter);
            }
            let na = wanted["na_values"].as_array().cloned().unwrap_or_default();
            let na: Vec<String> = na.iter().filter_map(|text| text.as_str().map(str::to_owned)).collect();
            set!(rows.na_values(na).select(names()))
        }
    }
}

fn read(source: &dyn Source) -> (Vec<Value>, Option<phalanx_base::Error>) {
    let mut rows = Vec::new();
    let mut reader = match source.open(0, PartPosition::START) {
        Ok(reader) => reader,
        Err(error) => return (rows, Some(error)),
    };
    loop {
        match reader.read(1000) {
            Ok(Some(batch)) => rows.extend((0..batch.rows()).map(|row| object(&batch, row))),
            Ok(None) => return (rows, None),
            Err(error) => return (rows, Some(error)),
        }
    }
}

/// A row; numbers that JSON does not have are texts.
fn object(batch: &Batch, row: usize) -> Value {
    let mut object = Map::new();
    for (name, column) in batch.iter() {
        let value = match column.row(row) {
            ValuesView::F32([value]) if value.is_finite() => json!(value),
            ValuesView::F32([value]) => json!(value.to_string().to_lowercase()),
            ValuesView::I64([value]) => json!(value),
            ValuesView::Bytes(texts) if texts.len() == 1 => json!(String::from_utf8_lossy(texts.get(0))),
            _ => Value::Null,
        };
        object.insert(name.to_string(), value);
    }
    Value::Object(object)
}
