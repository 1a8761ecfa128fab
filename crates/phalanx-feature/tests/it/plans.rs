//! Plans in use: split and empty batches, examples from files, mistakes.

use crate::common::columns::{column_of, input_layer};
use crate::common::{column, document};
use phalanx_base::Code;
use phalanx_data::{Batch, Column, Dataset, SourceExt, tfrecord};
use phalanx_feature::*;
use phalanx_formats::example::ExampleWriter;
use phalanx_formats::record::{Compression, RecordWriter};

/// All valid plans of the fixtures.
fn plans() -> (Batch, Vec<Transform>) {
    let document = document("columns.json");
    let rows = document["rows"].as_object().unwrap();
    let batch = Batch::new(rows.iter().map(|(key, given)| (key.as_str(), column(given)))).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut plans = Vec::new();
    for case in document["cases"].as_array().unwrap() {
        if case["expected"]["error"].is_string() {
            continue;
        }
        let columns: Vec<FeatureColumn> =
            case["columns"].as_array().unwrap().iter().map(|spec| column_of(spec, folder.path())).collect();
        match case["layer"].as_str().unwrap() {
            "dense" => plans.push(Transform::dense_features(&columns).unwrap()),
            "linear" => plans.push(Transform::linear_model(&columns).unwrap()),
            _ => {}
        }
    }
    (batch, plans)
}

/// The ids of every column and row, as nested lists.
fn rows(features: &Features) -> Vec<Vec<Vec<i64>>> {
    features.sparse.iter().map(|ids| (0..ids.rows()).map(|row| ids.row(row).to_vec()).collect()).collect()
}

#[test]
fn a_batch_may_be_split_anywhere() {
    let (batch, plans) = plans();
    assert!(plans.len() > 70, "{}", plans.len());
    for plan in &plans {
        let whole = plan.apply(&batch).unwrap();
        for cut in 0..=batch.rows() {
            let (first, second) = (batch.slice(0..cut), batch.slice(cut..batch.rows()));
            let parts = [plan.apply(&first).unwrap(), plan.apply(&second).unwrap()];
            let dense: Vec<f32> = parts.iter().flat_map(|part| part.dense.clone()).collect();
            assert_eq!(dense, whole.dense, "{plan:?} cut at {cut}");
            let mut ids = rows(&parts[0]);
            ids.iter_mut().zip(rows(&parts[1])).for_each(|(first, second)| first.extend(second));
            assert_eq!(ids, rows(&whole), "{plan:?} cut at {cut}");
        }
    }
}

#[test]
fn a_batch_without_rows_has_features_without_rows() {
    let (batch, plans) = plans();
    for plan in &plans {
        let features = plan.apply(&batch.empty_like()).unwrap();
        assert!(features.dense.is_empty() && features.sparse.iter().all(|ids| ids.rows() == 0 && ids.ids.is_empty()));
    }
}

#[test]
fn examples_are_parsed_by_the_spec_of_the_columns() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("people.tfrecord");
    let mut writer = RecordWriter::new(std::fs::File::create(&path).unwrap());
    for (age, tags) in [(30.0, &["a", "b"][..]), (70.0, &[])] {
        let mut example = ExampleWriter::new();
        example.f32s("age", &[age]);
        if !tags.is_empty() {
            example.bytes("tags", tags);
        }
        writer.write_record(&example.encode()).unwrap();
    }
    writer.finish().unwrap();

    let columns = [
        bucketized_column("age", [18, 65]),
        indicator_column(categorical_column_with_vocabulary_list("tags", ["b", "a", "c"])),
        numeric_column("height").default_value(1.75),
    ];
    let plan = Transform::dense_features(&columns).unwrap();
    let specs = make_parse_example_spec(&columns).unwrap();
    let batch = tfrecord(&path).parse(specs).batch(2).iter().unwrap().next().unwrap().unwrap();
    let features = plan.apply(&batch).unwrap();
    assert_eq!(plan.inputs().collect::<Vec<_>>(), ["age", "height", "tags"]);
    let expected = [[0.0, 1.0, 0.0, 1.75, 1.0, 1.0, 0.0], [0.0, 0.0, 1.0, 1.75, 0.0, 0.0, 0.0]];
    assert_eq!(input_layer(&plan, &features), expected.concat());
}

#[test]
fn a_vocabulary_may_be_a_compressed_record_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("words.tfrecord.gz");
    let mut writer = RecordWriter::with_compression(std::fs::File::create(&path).unwrap(), Compression::Gzip);
    ["kiev", "rome", "oslo"].iter().for_each(|word| writer.write_record(word.as_bytes()).unwrap());
    writer.finish().unwrap();
    let column = categorical_column_with_vocabulary_file("city", &path);
    assert_eq!(column.num_buckets().unwrap(), Some(3));
    let plan = Transform::linear_model(&[column.vocabulary_size(2)]).unwrap();
    let batch = Batch::new([("city", Column::text(["rome", "oslo", "kiev"]))]).unwrap();
    assert_eq!(rows(&plan.apply(&batch).unwrap()), [[vec![1], vec![], vec![0]]]);
}

#[test]
fn a_plan_runs_on_many_threads_and_inside_a_pipeline() {
    fn shared<T: Send + Sync + Clone + 'static>(_: &T) {}
    let plan = Transform::linear_model(&[crossed_column(["a", "b"], 100)]).unwrap();
    shared(&plan);
    let words = |word: &str| Column::text((0..100).map(|row| format!("{word}{}", row % 7)));
    let data = Dataset::from_tensor_slices(Batch::new([("a", words("x")), ("b", words("y"))]).unwrap());
    let crossed = data.batch(100).map_parallel(phalanx_data::Parallel::calls(2), move |batch| {
        let ids = plan.apply(&batch)?.sparse.remove(0);
        batch.with_column("a_X_b", Column::i64(ids.ids).with_splits(ids.splits)?)
    });
    let batch = crossed.iter().unwrap().next().unwrap().unwrap();
    let ids = batch.column("a_X_b").unwrap().as_i64().unwrap();
    assert_eq!((ids.len(), ids[0], ids[1]), (100, ids[7], ids[8]));
}

#[test]
fn wrong_settings_are_reported_where_columns_are_used() {
    let refusal = |column: FeatureColumn| {
        let error = Transform::linear_model(&[column]).unwrap_err();
        assert_eq!(error.code(), Code::BadSetting, "{error}");
        error.report()
    };
    assert!(
        refusal(numeric_column("x").num_oov_buckets(3)).contains("a numeric_column has no setting num_oov_buckets")
    );
    assert!(refusal(numeric_column("x").shape([2, 0])).contains("must be greater than 0"));
    assert!(refusal(numeric_column("x").shape([2]).default_value(vec![1.0; 3])).contains("its default has 3"));
    assert!(refusal(bucketized_column("x", [1.0; 0])).contains("must not be empty"));
    assert!(refusal(bucketized_column(numeric_column("x").shape([2, 2]), [1.0])).contains("one dimension"));
    assert!(refusal(bucketized_column(categorical_column_with_identity("x", 2), [1.0])).contains("numeric_column"));
    assert!(refusal(categorical_column_with_identity("x", 0)).contains("at least 1"));
    assert!(refusal(categorical_column_with_identity("x", 3).default_value(3)).contains("not in the range"));
    assert!(refusal(categorical_column_with_identity("x", 3).default_value(1.0)).contains("not with such a value"));
    assert!(refusal(embedding_column(numeric_column("x"), 3)).contains("needs a categorical column"));
    assert!(refusal(embedding_column(categorical_column_with_identity("x", 3), 0)).contains("dimension"));
    assert!(refusal(indicator_column(categorical_column_with_hash_bucket("x", 0))).contains("at least 1"));
    assert!(
        refusal(crossed_column([weighted_categorical_column(categorical_column_with_identity("x", 3), "w")], 3))
            .contains("takes no weights")
    );
    let steps = sequence_categorical_column_with_identity("x", 3);
    assert!(refusal(crossed_column([CrossKey::from(steps), "y".into()], 3)).contains("takes no sequences"));
    let missing = categorical_column_with_vocabulary_file("x", "no/such/words.txt");
    assert_eq!(Transform::linear_model(&[missing]).unwrap_err().place(), Some("no/such/words.txt"));
    assert_eq!(Transform::linear_model(&[]).unwrap_err().code(), Code::BadSetting);
}

#[test]
fn a_mismatch_with_a_batch_names_the_column() {
    let batch = Batch::new([
        ("age", Column::f32(vec![1.0, 2.0])),
        ("id", Column::i64(vec![1, 9])),
        ("tags", Column::text(["a", "b", "c"]).with_splits(vec![0, 1, 3]).unwrap()),
        ("weights", Column::f32(vec![1.0, 1.0]).with_splits(vec![0, 1, 2]).unwrap()),
    ])
    .unwrap();
    let apply = |column: FeatureColumn| Transform::linear_model(&[column]).unwrap().apply(&batch).unwrap_err();
    let error = apply(categorical_column_with_identity("id", 9));
    assert_eq!(
        (error.what(), error.place()),
        ("id 9 is beyond the 9 ids of its column", Some("feature column \"id\""))
    );
    let error = apply(weighted_categorical_column(categorical_column_with_hash_bucket("tags", 9), "weights"));
    assert_eq!(error.what(), "row 1 has 2 ids but 1 weights in \"weights\"");
    assert!(apply(numeric_column("ages")).next().unwrap().contains("did you mean \"age\""));
    assert!(apply(numeric_column("tags")).what().contains("differing length"));
    assert!(apply(categorical_column_with_hash_bucket("age", 9)).what().contains("holds float32"));
    assert!(apply(categorical_column_with_hash_bucket("id", 9)).what().contains("wants string"));
    assert!(apply(numeric_column("age").shape([3])).what().contains("wants 3"));
}

#[test]
fn a_cross_with_too_many_combinations_fails_before_it_allocates() {
    let many = Column::i64(vec![0; 100_000]).with_splits(vec![0, 100_000]).unwrap();
    let batch = Batch::new([("a", many.clone()), ("b", many)]).unwrap();
    let error = Transform::linear_model(&[crossed_column(["a", "b"], 10)]).unwrap().apply(&batch).unwrap_err();
    assert!(error.what().contains("combinations"), "{error}");
}

#[test]
fn one_long_sequence_does_not_pad_every_row() {
    let mut splits = vec![0, 1_000_000];
    splits.extend([1_000_000; 999]);
    let batch = Batch::new([("a", Column::i64(vec![0; 1_000_000]).with_splits(splits).unwrap())]).unwrap();
    let column = embedding_column(sequence_categorical_column_with_identity("a", 10), 4);
    let error = Transform::sequence_features(&[column]).unwrap().apply(&batch).unwrap_err();
    assert!(error.what().contains("1000 rows padded to 1000000 steps"), "{error}");
}
