//! `StringLookup` and `IntegerLookup` against Keras (results recorded by `fixtures/make.py`).

use crate::common::{agree, column, fixture, integers, plain, splits, texts};
use phalanx_base::Result;
use phalanx_data::{Batch, Column, Dataset, Parallel};
use phalanx_feature::{IntegerLookup, OutputMode, PreprocessingLayer, StringLookup};
use serde_json::{Value, json};

macro_rules! with_settings {
    ($layer:ident, $settings:expr, $token:expr) => {{
        let mut layer = $layer::new();
        for (name, value) in $settings.as_object().unwrap() {
            let number = || value.as_u64().unwrap() as usize;
            layer = match name.as_str() {
                "max_tokens" => layer.max_tokens(number()),
                "num_oov_indices" => layer.num_oov_indices(number()),
                "mask_token" => layer.mask_token($token(value)),
                "oov_token" => layer.oov_token($token(value)),
                "invert" => layer.invert(value.as_bool().unwrap()),
                "pad_to_max_tokens" => layer.pad_to_max_tokens(value.as_bool().unwrap()),
                "output_mode" => layer.output_mode(mode(value.as_str().unwrap())),
                other => panic!("no setting {other}"),
            };
        }
        layer
    }};
}

fn mode(name: &str) -> OutputMode {
    match name {
        "int" => OutputMode::Int,
        "one_hot" => OutputMode::OneHot,
        "multi_hot" => OutputMode::MultiHot,
        "count" => OutputMode::Count,
        other => panic!("no mode {other}"),
    }
}

fn vocabulary_file(case: &Value) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), case["file"].as_str().unwrap()).unwrap();
    file
}

/// Gives a layer the vocabulary of the case.
macro_rules! with_vocabulary {
    ($layer:expr, $case:expr, $tokens:ident) => {
        match ($case["adapt"].as_array(), $case["file"].is_string()) {
            (Some(parts), _) => $layer.adapt_columns(&parts.iter().map(column).collect::<Vec<_>>())?,
            (None, true) => $layer.vocabulary_file(vocabulary_file($case).path())?,
            (None, false) => $layer.vocabulary($tokens(&$case["vocabulary"]))?,
        }
    };
}

/// Returns the layer's output for the case's input, and its vocabulary.
fn run_strings(case: &Value) -> Result<(Column, Value)> {
    let layer = with_settings!(StringLookup, case["settings"], |value: &Value| value.as_str().unwrap().to_owned());
    let layer = with_vocabulary!(layer, case, texts);
    let words = layer.get_vocabulary(true);
    assert_eq!(words.len(), layer.vocabulary_size());
    let words = words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    Ok((layer.call(&column(&case["input"]))?, words))
}

fn run_integers(case: &Value) -> Result<(Column, Value)> {
    let layer = with_settings!(IntegerLookup, case["settings"], |value: &Value| value.as_i64().unwrap());
    let layer = with_vocabulary!(layer, case, integers);
    Ok((layer.call(&column(&case["input"]))?, json!(layer.get_vocabulary(true))))
}

#[test]
fn lookups_do_what_keras_does() {
    let cases = fixture("lookups.json");
    assert!(cases.len() > 70, "{}", cases.len());
    for case in &cases {
        let strings = case["layer"] == "StringLookup";
        let result = if strings { run_strings(case) } else { run_integers(case) };
        let expected = &case["expected"];
        if expected["error"].is_string() {
            assert!(result.is_err(), "{case}");
            continue;
        }
        let (output, vocabulary) = result.unwrap_or_else(|error| panic!("{error}\n{case}"));
        assert!(agree(&plain(&output), &expected["values"]), "{case}\nours: {}", plain(&output));
        if expected["vocabulary"].is_array() {
            assert_eq!(vocabulary, expected["vocabulary"], "{case}");
        }
        match expected["splits"].is_array() {
            true => assert_eq!(output.splits().unwrap(), splits(&expected["splits"])),
            false => assert_eq!(output.rows() as i64, expected["shape"][0].as_i64().unwrap(), "{case}"),
        }
    }
}

#[test]
fn a_lookup_runs_inside_a_pipeline_on_several_threads() {
    let words: Vec<String> = (0..5000).map(|row| format!("w{}", row % 7)).collect();
    let rows = Batch::new([("word", Column::text(&words))]).unwrap();
    let data = Dataset::from_tensor_slices(rows);
    let layer = StringLookup::new().adapt(&data, "word").unwrap();
    // 5000 = 714 × 7 + 2: w0 and w1 are the most frequent, and w1 is the greater of them.
    let vocabulary = layer.get_vocabulary(false);
    assert_eq!(vocabulary.iter().collect::<Vec<_>>(), ["w1", "w0", "w6", "w5", "w4", "w3", "w2"].map(str::as_bytes));
    let ids = data.map_batches(Parallel::calls(2), move |chunk| layer.apply(&chunk, "word")).batch(5000);
    let batch = ids.iter().unwrap().next().unwrap().unwrap();
    let ids = batch.i64("word").unwrap();
    assert_eq!((&ids[..4], ids.len()), ([2, 1, 7, 6].as_slice(), 5000));
}

#[test]
fn slices_of_columns_are_looked_up_in_place() {
    let layer = StringLookup::new().vocabulary(["a", "b"]).unwrap();
    let column = Column::text(["x", "a", "b", "b"]).with_splits(vec![0, 1, 3, 4]).unwrap();
    let output = layer.call(&column.slice(1..3)).unwrap();
    assert_eq!((output.as_i64().unwrap(), output.splits().unwrap()), ([1, 2, 2].as_slice(), [0, 2, 3].as_slice()));
}

#[test]
fn errors_tell_what_to_do() {
    let error =
        StringLookup::new().num_oov_indices(0).vocabulary(["a"]).unwrap().call(&Column::text(["b"])).unwrap_err();
    assert_eq!(error.what(), "StringLookup met \"b\", which is not in its vocabulary");
    assert!(error.next().unwrap().contains("num_oov_indices"));
    let error = StringLookup::new().vocabulary(["a"]).unwrap().call(&Column::i64(vec![1])).unwrap_err();
    assert!(error.to_string().contains("int64"), "{error}");
    let batch = Batch::new([("job", Column::text(["b"]))]).unwrap();
    let error = StringLookup::new().apply(&batch, "job").unwrap_err();
    assert_eq!(error.place(), Some("column \"job\""));
    assert!(error.why().unwrap().contains("none yet"));
    let error = StringLookup::new().vocabulary_file("no/such/file.txt").unwrap_err();
    assert_eq!(error.place(), Some("no/such/file.txt"));
    assert!(IntegerLookup::new().vocabulary([1]).unwrap().call(&Column::text(["1"])).is_err());
}
