//! Columns and results of the fixtures.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

pub mod census;
pub mod columns;

use phalanx_data::{Column, Strings, Values, ValuesView};
use serde_json::{Value, json};

/// The cases that `fixtures/make.py` recorded with TensorFlow.
pub fn fixture(name: &str) -> Vec<Value> {
    let Value::Array(cases) = document(name) else { panic!("{name} is not a list") };
    cases
}

pub fn document(name: &str) -> Value {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

pub fn floats(value: &Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(float).collect()
}

pub fn float(value: &Value) -> f32 {
    match value.as_str() {
        Some(text) => text.parse().unwrap(),
        None => value.as_f64().unwrap() as f32,
    }
}

pub fn texts(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

pub fn integers(value: &Value) -> Vec<i64> {
    value.as_array().unwrap().iter().map(|number| number.as_i64().unwrap()).collect()
}

fn values(column: &Value) -> Values {
    if column["series"].is_array() {
        return Values::F32(series(&integers(&column["series"])));
    }
    let list = column["values"].as_array().unwrap();
    let dtype = match (column["dtype"].as_str(), list.first()) {
        (Some(dtype), _) => dtype,
        (None, Some(first)) if first.is_string() => "string",
        (None, Some(first)) if first.is_i64() => "int64",
        _ => "float32",
    };
    match dtype {
        "string" => Values::Bytes(list.iter().map(|text| text.as_str().unwrap()).collect::<Strings>()),
        "int64" => Values::I64(integers(&column["values"])),
        _ => Values::F32(floats(&column["values"])),
    }
}

/// The numbers that `make.py` describes by count and seed.
fn series(recipe: &[i64]) -> Vec<f32> {
    let [count, seed] = recipe else { panic!("a series has a count and a seed") };
    (0..*count).map(|i| (((seed + 7919 * i) * (i % 13 + 1)) % 1009) as f32 / 16.0).collect()
}

/// A column of a fixture.
pub fn column(given: &Value) -> Column {
    let column = Column::new(values(given));
    let column = match given["width"].as_u64() {
        Some(width) => column.with_row_shape([width as usize]).unwrap(),
        None => column,
    };
    match given["splits"].as_array() {
        Some(_) => column.with_splits(splits(&given["splits"])).unwrap(),
        None => column,
    }
}

pub fn splits(value: &Value) -> Vec<usize> {
    integers(value).into_iter().map(|split| split as usize).collect()
}

/// A column's values in the format of the fixtures.
pub fn plain(column: &Column) -> Value {
    match column.values() {
        ValuesView::F32(values) => values.iter().map(|&value| Value::from(f64::from(value))).collect(),
        ValuesView::I64(values) => json!(values),
        ValuesView::U8(values) => json!(values),
        ValuesView::Bytes(values) => values.iter().map(|value| String::from_utf8_lossy(value).into_owned()).collect(),
    }
}

/// Whether two lists of results agree: integers and texts exactly, floats to a relative 1e-6.
pub fn agree(ours: &Value, theirs: &Value) -> bool {
    let (ours, theirs) = (ours.as_array().unwrap(), theirs.as_array().unwrap());
    ours.len() == theirs.len()
        && ours.iter().zip(theirs).all(|(a, b)| {
            if a.is_f64() || b.is_f64() {
                let (a, b) = (float(a), float(b));
                return a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-6 * b.abs().max(1.0);
            }
            a == b
        })
}
