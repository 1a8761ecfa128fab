//! Feature columns against `tf.feature_column` (results recorded by `fixtures/make.py`).

use crate::common::columns::{column_of, combiner, input_layer};
use crate::common::{agree, column, document, integers, splits, texts};
use phalanx_base::Result;
use phalanx_data::{Batch, FeatureKind, FeatureSpec, FeatureValues};
use phalanx_feature::*;
use serde_json::{Value, json};

struct Case<'a> {
    case: &'a Value,
    batch: &'a Batch,
    columns: Vec<FeatureColumn>,
    _files: tempfile::TempDir,
}

/// Runs the cases of one layer; a case that TensorFlow rejects must fail.
fn run(layer: &str, f: impl Fn(&Case<'_>) -> Result<()>) -> usize {
    let document = document("columns.json");
    let rows = document["rows"].as_object().unwrap();
    let columns = |keep: &dyn Fn(&str) -> bool| {
        let columns = rows.iter().filter(|(key, _)| keep(key));
        Batch::new(columns.map(|(key, given)| (key.as_str(), column(given)))).unwrap()
    };
    let batch = columns(&|_| true);
    let mut count = 0;
    for case in document["cases"].as_array().unwrap().iter().filter(|case| case["layer"] == layer) {
        let files = tempfile::tempdir().unwrap();
        let columns = case["columns"].as_array().unwrap().iter().map(|spec| column_of(spec, files.path())).collect();
        let result = f(&Case { case, batch: &batch, columns, _files: files });
        match case["expected"]["error"].is_string() {
            true => assert!(result.is_err(), "TensorFlow rejects this: {case}"),
            false => result.unwrap_or_else(|error| panic!("{}\n{case}", error.report())),
        }
        count += 1;
    }
    count
}

/// Compares with TensorFlow's result, if there is one.
fn check(case: &Case<'_>, ours: &Value, key: &str) {
    let expected = &case.case["expected"][key];
    if !case.case["expected"]["error"].is_string() {
        assert!(agree(ours, expected), "{key} of {}\nours: {ours}", case.case);
    }
}

fn numbers(values: &[f32]) -> Value {
    // As in the fixtures, numbers that JSON cannot represent are texts.
    let number = |&value: &f32| if value.is_finite() { json!(f64::from(value)) } else { json!(value.to_string()) };
    values.iter().map(number).collect()
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_token() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cities.txt");
    std::fs::write(&path, b"\xef\xbb\xbfoslo\r\nrome\r\n").unwrap();
    let cities = categorical_column_with_vocabulary_file("city", &path);
    let batch = Batch::new([("city", phalanx_data::Column::text(["oslo", "rome", "bern"]))]).unwrap();
    let features = Transform::linear_model(&[cities]).unwrap().apply(&batch).unwrap();
    assert_eq!(features.sparse[0].ids, [0, 1]);
}

#[test]
fn dense_features_equal_tensorflows_input_layer() {
    let cases = run("dense", |case| {
        let plan = Transform::dense_features(&case.columns)?;
        let features = plan.apply(case.batch)?;
        let names: Value = plan.columns().iter().map(|column| column.name.clone()).collect();
        check(case, &names, "names");
        check(case, &numbers(&input_layer(&plan, &features)), "values");
        check_parse(case)
    });
    assert!(cases > 35, "{cases}");
}

#[test]
fn linear_ids_equal_tensorflow_to_the_bit() {
    let cases = run("linear", |case| {
        let plan = Transform::linear_model_with(&case.columns, combiner(&case.case["combiner"]))?;
        let features = plan.apply(case.batch)?;
        let Slot::Ids { index, buckets, .. } = plan.columns()[0].slot else { panic!("no ids: {plan:?}") };
        let ids = &features.sparse[index];
        check(case, &json!(ids.ids), "ids");
        check(case, &json!(ids.splits), "splits");
        if let Some(weights) = &ids.weights {
            check(case, &numbers(weights), "weights");
        }
        if case.case["expected"]["name"].is_string() {
            assert_eq!(case.case["expected"]["weights"].is_array(), ids.weights.is_some());
            assert_eq!(case.columns[0].name(), case.case["expected"]["name"]);
            assert_eq!(json!(buckets), case.case["expected"]["buckets"]);
        }
        check_parse(case)
    });
    assert!(cases > 60, "{cases}");
}

#[test]
fn sequences_keep_their_time_axis() {
    let cases = run("sequence", |case| {
        let plan = Transform::sequence_features(&case.columns)?;
        let features = plan.apply(case.batch)?;
        check(case, &numbers(&input_layer(&plan, &features)), "values");
        check(case, &json!(features.lengths), "lengths");
        check(case, &json!([features.rows, features.steps, plan.input_width()]), "shape");
        Ok(())
    });
    assert!(cases > 7, "{cases}");
}

#[test]
fn examples_are_parsed_as_in_tensorflow() {
    assert_eq!(run("parse", check_parse), 4);
}

fn check_parse(case: &Case<'_>) -> Result<()> {
    let mut specs = make_parse_example_spec(&case.columns)?;
    specs.sort_by(|a, b| a.name.cmp(&b.name));
    let ours: Value = specs.iter().map(described).collect();
    if case.case["expected"]["parse"].is_array() {
        assert_eq!(ours, case.case["expected"]["parse"], "{}", case.case);
    }
    Ok(())
}

fn described(spec: &FeatureSpec) -> Value {
    let dtype = match spec.kind {
        FeatureKind::F32 => "float32",
        FeatureKind::I64 => "int64",
        FeatureKind::Bytes => "string",
    };
    let default = spec.default.as_ref().map(|default| match default {
        FeatureValues::F32(values) => values.iter().map(|&value| f64::from(value)).collect(),
        FeatureValues::I64(values) => values.iter().map(|&value| value as f64).collect::<Vec<f64>>(),
        FeatureValues::Bytes { .. } => panic!("no numeric default"),
    });
    // The type of the layout is not exported, so the length comes from its debug text.
    let layout = format!("{:?}", spec.layout);
    let length =
        layout.strip_prefix("Fixed(").and_then(|rest| rest.strip_suffix(')')).map(|n| n.parse::<u64>().unwrap());
    // TensorFlow repeats a default of one value for all elements.
    let default = default.map(|values| match (values.as_slice(), length) {
        ([one], Some(length)) => vec![*one; length as usize],
        _ => values,
    });
    json!({"key": spec.name, "dtype": dtype, "length": length, "default": default})
}

#[test]
fn shared_embeddings_have_one_table() {
    let expected = &document("columns.json")["shared"];
    let columns = ["watched", "liked"].map(|key| categorical_column_with_identity(key, 10));
    let columns = shared_embeddings(columns, 4);
    let names: Vec<String> = columns.iter().map(FeatureColumn::name).collect();
    assert_eq!(names, texts(&expected["names"]));
    let plan = Transform::dense_features(&columns).unwrap();
    assert_eq!(plan.tables().len(), 1);
    assert_eq!((plan.tables()[0].name.as_str(), plan.tables()[0].rows), (expected["table"].as_str().unwrap(), 10));
    let batch = |key: &str, ids: &[i64]| (key.to_owned(), phalanx_data::Column::i64(ids.to_vec()));
    let features = plan.apply(&Batch::new([batch("watched", &[1, 2]), batch("liked", &[3, -1])]).unwrap()).unwrap();
    // In the order of names: liked, watched.
    assert_eq!(features.sparse[0].splits, splits(&json!([0, 1, 1])));
    assert_eq!(features.sparse[1].ids, integers(&json!([1, 2])));

    let unequal = shared_embeddings(
        [categorical_column_with_identity("watched", 10), categorical_column_with_identity("liked", 11)],
        4,
    );
    assert!(Transform::dense_features(&unequal).unwrap_err().why().unwrap().contains("10 rows"));
    let unlike = shared_embeddings(
        [categorical_column_with_identity("watched", 10), categorical_column_with_hash_bucket("liked", 10)],
        4,
    );
    assert!(Transform::dense_features(&unlike).is_err());
}
