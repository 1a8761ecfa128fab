//! CSV files beside what TensorFlow made of them (`fixtures/make_csv.py` wrote that down).

use phalanx_data::{Batch, Csv, DType, NonFiniteValues, PartPosition, Source, csv};
use serde_json::Value;

/// Cases in which we do not do what TensorFlow does, and why.
const ON_PURPOSE: [(&str, &str); 10] = [
    ("only spaces as float", "a field of spaces is no number; TensorFlow reads 0.0"),
    ("plus sign", "+1 is a number; TensorFlow takes the sign for floats only"),
    ("special floats", "infinity is a float, as inf is"),
    ("float underflow", "denormal numbers are kept; TensorFlow's threads flush them to zero"),
    ("hard floats", "as above"),
    ("blank line", "blank lines are left out"),
    ("blank line at the end", "as above"),
    ("only a newline", "as above"),
    ("selected, uneven", "a row has as many fields as there are names; TensorFlow ignores what follows"),
    ("exponent", "+6 is a number, as TensorFlow's own search for types says"),
];

fn fixture() -> Value {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/csv.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn on_purpose(case: &Value) -> bool {
    ON_PURPOSE.iter().any(|(name, _)| case["name"] == *name)
}

/// Text that stands for bytes, one character each.
fn bytes(value: &Value) -> Vec<u8> {
    value.as_str().unwrap().chars().map(|c| c as u8).collect()
}

fn file(case: &Value) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file.csv");
    std::fs::write(&path, bytes(&case["text"])).unwrap();
    (folder, path)
}

fn with_options(mut source: Csv, options: &Value) -> Csv {
    if let Some(na) = options["na_value"].as_str() {
        source = source.na_value(na);
    }
    if let Some(delimiter) = options["field_delim"].as_str() {
        source = source.delimiter(delimiter.as_bytes()[0]);
    }
    if let Some(quotes) = options["use_quote_delim"].as_bool() {
        source = source.quotes(quotes);
    }
    // TensorFlow keeps what is not finite.
    source.non_finite(NonFiniteValues::keep())
}

/// All rows before the first error, and whether there was one.
fn read(source: &Csv) -> (Vec<Batch>, Option<phalanx_base::Error>) {
    let mut batches = Vec::new();
    let mut reader = match source.open(0, PartPosition::START) {
        Ok(reader) => reader,
        Err(error) => return (batches, Some(error)),
    };
    loop {
        match reader.read(1000) {
            Ok(Some(batch)) => batches.push(batch),
            Ok(None) => return (batches, None),
            Err(error) => return (batches, Some(error)),
        }
    }
}

/// A column's values in the fixture's form.
fn shown(batches: &[Batch], name: &str) -> Vec<Value> {
    let mut values = Vec::new();
    for batch in batches {
        let column = batch.column(name).unwrap();
        match column.dtype() {
            DType::F32 => values.extend(column.as_f32().unwrap().iter().map(|value| Value::from(value.to_bits()))),
            DType::I64 => values.extend(column.as_i64().unwrap().iter().map(|&value| Value::from(value))),
            _ => {
                let text = |value: &[u8]| Value::from(value.iter().map(|&byte| byte as char).collect::<String>());
                values.extend(column.as_bytes().unwrap().iter().map(text));
            }
        }
    }
    values
}

fn given(case: &Value) -> (Csv, Vec<String>, tempfile::TempDir) {
    let (folder, path) = file(case);
    let options = &case["options"];
    let types = case["types"].as_array().unwrap();
    let picked: Vec<usize> = match options["select_cols"].as_array() {
        Some(picked) => picked.iter().map(|at| at.as_u64().unwrap() as usize).collect(),
        None => (0..types.len()).collect(),
    };
    // Where columns are selected, all fields of the first row have names.
    let text = bytes(&case["text"]);
    let fields = text.split(|&byte| byte == b'\n').next().map_or(0, |row| row.split(|&byte| byte == b',').count());
    let count = if options["select_cols"].is_array() { fields.max(picked[picked.len() - 1] + 1) } else { types.len() };
    let names: Vec<String> = (0..count).map(|at| format!("c{at}")).collect();
    let header = options["header"].as_bool().unwrap_or(false);
    let mut source = with_options(csv(path).names(names.clone()).header(header), options);
    let picked: Vec<String> = picked.iter().map(|&at| names[at].clone()).collect();
    for ((name, dtype), default) in picked.iter().zip(types).zip(case["defaults"].as_array().unwrap()) {
        let dtype = match dtype.as_str().unwrap() {
            "int64" => DType::I64,
            "float32" => DType::F32,
            _ => DType::Bytes,
        };
        source = source.column(name, dtype);
        source = match default {
            Value::Null => source,
            Value::String(text) if text == "required" => source.required(name),
            Value::String(text) => source.default_value(name, text.as_str()),
            number if dtype == DType::F32 => source.default_value(name, number.as_f64().unwrap()),
            number => source.default_value(name, number.as_i64().unwrap()),
        };
    }
    if options["select_cols"].is_array() {
        source = source.select(picked.clone());
    }
    (source, picked, folder)
}

#[test]
fn rows_with_types_given() {
    let fixture = fixture();
    let mut same = 0;
    for case in fixture["cases"].as_array().unwrap() {
        let (source, names, _folder) = given(case);
        let (batches, error) = read(&source);
        let columns: Vec<Value> = names.iter().map(|name| Value::from(shown(&batches, name))).collect();
        let equal = Value::from(columns) == case["columns"] && error.is_some() != case["error"].is_null();
        assert_eq!(equal, !on_purpose(case), "{case}: {batches:?} {error:?}");
        same += usize::from(equal);
    }
    assert!(same >= 50, "{same}");
}

#[test]
fn names_and_types_that_are_found() {
    let fixture = fixture();
    for case in fixture["inferred"].as_array().unwrap() {
        let (_folder, path) = file(case);
        let options = &case["options"];
        let mut source = with_options(csv(path), options);
        if let Some(names) = options["column_names"].as_array() {
            source = source.names(names.iter().map(|name| name.as_str().unwrap()));
        }
        source = source.header(options["header"].as_bool().unwrap_or(true));
        if let Some(select) = options["select_columns"].as_array() {
            let header = ["a", "b", "c"];
            let name = |at: &Value| at.as_str().unwrap_or_else(|| header[at.as_u64().unwrap() as usize]).to_owned();
            source = source.select(select.iter().map(name));
        }
        let (batches, error) = read(&source);
        if on_purpose(case) {
            assert!(error.is_none(), "{case}: {error:?}");
            continue;
        }
        // TensorFlow takes 1_000 for a number and then fails to read it; here it is a text.
        if case["name"] == "underscore" {
            assert_eq!(source.columns().unwrap()[0].1, DType::Bytes);
            continue;
        }
        assert_eq!(error.is_some(), !case["error"].is_null(), "{case}: {error:?}");
        let Some(types) = case["types"].as_object() else { continue };
        let found = source.columns().unwrap();
        assert_eq!(found.iter().map(|(name, _)| name).collect::<Vec<_>>(), types.keys().collect::<Vec<_>>(), "{case}");
        for (name, dtype) in found {
            let (wanted, float64) = match types[&name].as_str().unwrap() {
                "int32" | "int64" => (DType::I64, false),
                "float32" => (DType::F32, false),
                // There is no such column; its values become the nearest float32.
                "float64" => (DType::F32, true),
                _ => (DType::Bytes, false),
            };
            assert_eq!(dtype, wanted, "{case}: {name}");
            if !float64 {
                assert_eq!(Value::from(shown(&batches, &name)), case["columns"][&name], "{case}: {name}");
            }
        }
    }
}
