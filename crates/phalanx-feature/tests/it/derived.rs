//! Functions of numbers, statistics of the data, bags from a delimited text, and parts of timestamps.

use phalanx_base::Code;
use phalanx_data::{Batch, Column, DType, Dataset};
use phalanx_feature::*;

fn batch(columns: Vec<(&'static str, Column)>) -> Batch {
    Batch::new(columns).unwrap()
}

fn dense(column: FeatureColumn, batch: &Batch) -> Vec<f32> {
    Transform::dense_features(&[column]).unwrap().apply(batch).unwrap().dense
}

fn ids(column: FeatureColumn, batch: &Batch) -> (Vec<i64>, Vec<usize>) {
    let mut features = Transform::linear_model(&[column]).unwrap().apply(batch).unwrap();
    let ids = features.sparse.remove(0);
    (ids.ids, ids.splits)
}

#[test]
fn functions_of_numbers_apply_in_the_order_of_their_calls() {
    let rows = batch(vec![("x", Column::f32(vec![-4.0, 0.0, 9.0, 400.0]))]);
    assert_eq!(dense(numeric_column("x").clip(0.0, 100.0).sqrt(), &rows), [0.0, 0.0, 3.0, 10.0]);
    assert_eq!(dense(numeric_column("x").clip(0.0, 9.0).sqrt().scale(1.0, 2.0), &rows), [-0.5, -0.5, 1.0, 1.0]);
    let log = dense(numeric_column("x").clip(0.0, 9.0).log1p(), &rows);
    assert_eq!(log, [0.0, 0.0, 10_f32.ln(), 10_f32.ln()]);
    let buckets = bucketized_column(numeric_column("x").clip(0.0, 9.0).sqrt(), [1.0, 3.0]);
    assert_eq!(ids(buckets, &rows).0, [0, 0, 2, 2]);
}

#[test]
fn a_number_without_a_result_is_an_error_that_names_value_and_function() {
    let rows = batch(vec![("price", Column::f32(vec![1.0, -2.0]))]);
    let columns = [
        numeric_column("price").log1p(),
        indicator_column(bucketized_column(numeric_column("price").sqrt(), [1.0, 2.0])),
    ];
    for column in columns {
        let error = Transform::dense_features(&[column]).unwrap().apply(&rows).unwrap_err();
        assert_eq!(error.code(), Code::DataRow);
        let text = error.to_string();
        assert!(text.contains("\"price\" has the value -2"), "{text}");
        assert!(error.next().unwrap().contains("clip"));
    }
}

#[test]
fn statistics_are_those_of_the_data_and_become_part_of_the_column() {
    let values: Vec<f32> = (0..1000).map(|row| (row % 100) as f32).collect();
    let rows = Dataset::from_tensor_slices(batch(vec![("x", Column::f32(values.clone())), ("y", Column::f32(values))]));
    let standard = numeric_column("x").standardize();
    let buckets = quantile_column("y", 4);
    let scaled = quantile_column(numeric_column("x").standardize(), 4);
    let unadapted = Transform::dense_features(std::slice::from_ref(&standard)).unwrap_err();
    assert!(unadapted.to_string().contains("statistics"), "{unadapted}");

    let all = [standard.clone(), buckets.clone(), indicator_column(scaled.clone())];
    let statistics = FeatureStatistics::of(&all, &rows).unwrap();
    let FeatureStatistic::Moments { mean, deviation } = statistics.get("x | moments").unwrap() else { panic!() };
    assert!((mean - 49.5).abs() < 1e-9 && (deviation - 28.866_07).abs() < 1e-4, "{mean} {deviation}");
    assert_eq!(statistics.get("y | 4 quantiles"), Some(&FeatureStatistic::Quantiles(vec![24.0, 49.0, 74.0])));

    let some = batch(vec![("x", Column::f32(vec![49.5, 0.0])), ("y", Column::f32(vec![24.0, 23.9]))]);
    let found = dense(standard.adapted(&statistics).unwrap(), &some);
    assert!(found[0].abs() < 1e-6 && (found[1] + 1.714_816).abs() < 1e-5, "{found:?}");
    assert_eq!(ids(buckets.adapted(&statistics).unwrap(), &some).0, [1, 0]);
    // The boundaries of the standardized column lie where those of the plain one do.
    let scaled = scaled.adapted(&statistics).unwrap();
    let places = batch(vec![("x", Column::f32(vec![23.0, 24.0, 73.0, 74.0, 99.0]))]);
    assert_eq!(ids(scaled, &places).0, [0, 1, 2, 3, 3]);
    // A column that was not there when the statistics were computed is refused.
    let other = numeric_column("x").log1p().standardize().adapted(&statistics).unwrap_err();
    assert!(other.to_string().contains("x | log1p | moments"), "{other}");
}

#[test]
fn a_value_that_is_a_quantile_is_above_it_however_its_function_rounds() {
    let exact = 3_f32.ln_1p();
    for quantile in [exact.next_down().next_down(), exact, exact.next_up().next_up()] {
        let known = [("x | log1p | 2 quantiles".to_owned(), FeatureStatistic::Quantiles(vec![quantile.into()]))];
        let column = quantile_column(numeric_column("x").log1p(), 2).adapted(&known.into_iter().collect()).unwrap();
        let rows = batch(vec![("x", Column::f32(vec![2.999, 3.0]))]);
        assert_eq!(ids(column, &rows).0, [0, 1], "{quantile}");
    }
    // A value without a function is not rounded, so its boundary is exact.
    let known = [("x | 2 quantiles".to_owned(), FeatureStatistic::Quantiles(vec![3.0]))];
    let column = quantile_column("x", 2).adapted(&known.into_iter().collect()).unwrap();
    let rows = batch(vec![("x", Column::f32(vec![3_f32.next_down(), 3.0]))]);
    assert_eq!(ids(column, &rows).0, [0, 1]);
}

#[test]
fn constant_and_tied_data_have_statistics() {
    let rows = Dataset::from_tensor_slices(batch(vec![("x", Column::f32(vec![5.0; 100]))]));
    let (standard, buckets) = (numeric_column("x").standardize(), quantile_column("x", 10));
    let statistics = FeatureStatistics::of(&[standard.clone(), buckets.clone()], &rows).unwrap();
    let same = batch(vec![("x", Column::f32(vec![5.0, 6.0]))]);
    assert_eq!(dense(standard.adapted(&statistics).unwrap(), &same), [0.0, 1.0]);
    assert_eq!(buckets.adapted(&statistics).unwrap().num_buckets().unwrap(), Some(2));
    let missing = Dataset::from_tensor_slices(batch(vec![("x", Column::f32(vec![f32::NAN; 3]))]));
    let error = FeatureStatistics::of(&[numeric_column("x").standardize()], &missing).unwrap_err();
    assert!(error.to_string().contains("3 are missing"), "{error}");
}

#[test]
fn delimited_texts_are_bags_in_every_categorical_column_of_texts() {
    let rows = batch(vec![("genres", Column::text(["Action|Comedy", "", "Drama", "|Comedy||Action|"]))]);
    let words = categorical_column_with_vocabulary_list("genres", ["Action", "Comedy"]).split("|").num_oov_buckets(1);
    assert_eq!(ids(words, &rows), (vec![0, 1, 2, 1, 0], vec![0, 2, 2, 3, 5]));
    let hashed = |key| categorical_column_with_hash_bucket(key, 50);
    let (split, _) = ids(hashed("genres").split("|"), &rows);
    let (plain, _) = ids(hashed("g"), &batch(vec![("g", Column::text(["Action", "Comedy", "Drama"]))]));
    assert_eq!(split, [plain[0], plain[1], plain[2], plain[1], plain[0]]);
    // The text as a whole can be read by another column at the same time.
    let both = [hashed("genres").split("|"), crossed_column(["genres", "genres"], 10)];
    let plan = Transform::linear_model(&both).unwrap();
    assert_eq!(plan.inputs().collect::<Vec<_>>(), ["genres"]);
    plan.apply(&rows).unwrap();
    let long = batch(vec![("t", Column::text(["a, b", "b"]))]);
    assert_eq!(ids(categorical_column_with_vocabulary_list("t", ["a", "b"]).split(", "), &long).0, [0, 1, 1]);
}

#[test]
fn delimited_integers_are_bags_in_every_categorical_column_of_integers() {
    let rows = batch(vec![("films", Column::text(["7|2", "", "|3||7|", " 2 |11"]))]);
    let plain = batch(vec![("n", Column::i64(vec![7, 2, 3, 11]))]);
    let splits = vec![0, 2, 2, 4, 6];
    let films = categorical_column_with_identity("films", 10).split("|").default_value(0);
    assert_eq!(ids(films, &rows), (vec![7, 2, 3, 7, 2, 0], splits.clone()));
    let words = |key| categorical_column_with_vocabulary_list(key, [2, 3]).num_oov_buckets(5);
    let (known, _) = ids(words("n"), &plain);
    let of = |ids: &[i64]| vec![ids[0], ids[1], ids[2], ids[0], ids[1], ids[3]];
    assert_eq!(ids(words("films").split("|"), &rows), (of(&known), splits.clone()));
    let hashed = |key| categorical_column_with_hash_bucket(key, 50).dtype(DType::I64);
    let (known, _) = ids(hashed("n"), &plain);
    assert_eq!(ids(hashed("films").split("|"), &rows), (of(&known), splits));

    let wrong = batch(vec![("films", Column::text(["7|two"]))]);
    let error = Transform::linear_model(&[hashed("films").split("|")]).unwrap().apply(&wrong).unwrap_err();
    assert_eq!(error.code(), Code::DataRow);
    assert!(error.to_string().contains("\"films\" has \"two\""), "{error}");
    let digit = Transform::linear_model(&[hashed("films").split("0")]).unwrap_err();
    assert!(digit.to_string().contains("has a digit"), "{digit}");
}

#[test]
fn a_missing_indicator_is_a_number_beside_each_value() {
    let rows = batch(vec![
        ("age", Column::f32(vec![20.0, f32::NAN])),
        ("pair", Column::f32(vec![f32::NAN, 4.0, 9.0, f32::NAN]).with_row_shape(vec![2]).unwrap()),
    ]);
    let age = || numeric_column("age").missing_indicator();
    assert_eq!(dense(age(), &rows), [20.0, 0.0, 0.0, 1.0]);
    // Functions apply to the default as they do to values, and not to the indicator.
    assert_eq!(dense(age().default_value(40.0).scale(0.0, 10.0), &rows), [2.0, 0.0, 4.0, 1.0]);
    let pair = numeric_column("pair").shape([2]).default_value(vec![1.0, 16.0]).sqrt().missing_indicator();
    assert_eq!(dense(pair, &rows), [1.0, 2.0, 1.0, 0.0, 3.0, 4.0, 0.0, 1.0]);
    let plan = Transform::dense_features(&[age()]).unwrap();
    assert_eq!((plan.dense_width(), plan.input_width()), (2, 2));
    // A bucketized column takes the default in place of a missing value.
    let buckets = bucketized_column(age().default_value(70.0), [30, 60]);
    assert_eq!(ids(buckets, &rows).0, [0, 2]);
    // Without an indicator NaN stays what it is.
    assert!(dense(numeric_column("age"), &rows)[1].is_nan());

    let data = Dataset::from_tensor_slices(batch(vec![("age", Column::f32(vec![10.0, f32::NAN, 30.0]))]));
    let scaled = age().default_value(20.0).standardize();
    let statistics = FeatureStatistics::of(std::slice::from_ref(&scaled), &data).unwrap();
    let name = "age | default [20.0] | moments";
    let Some(FeatureStatistic::Moments { mean, .. }) = statistics.get(name) else { panic!("{statistics:?}") };
    assert_eq!(*mean, 20.0);
    assert_eq!(dense(scaled.adapted(&statistics).unwrap(), &rows)[2..], [0.0, 1.0]);
}

#[test]
fn columns_of_one_input_agree_about_its_missing_values() {
    let age = || numeric_column("age");
    let spec = |columns: &[FeatureColumn]| make_parse_example_spec(columns);
    let marked =
        spec(&[age().missing_indicator(), bucketized_column(age().default_value(3.0).missing_indicator(), [1])]);
    assert_eq!(marked.unwrap().len(), 1);
    let error = spec(&[age().missing_indicator(), bucketized_column("age", [1])]).unwrap_err();
    assert!(error.why().unwrap().contains("missing ones marked"), "{error:?}");
    let integers = spec(&[age().dtype(DType::I64).missing_indicator()]).unwrap_err();
    assert!(integers.why().unwrap().contains("float32"), "{integers:?}");
    assert!(spec(&[categorical_column_with_identity("age", 9).missing_indicator()]).is_err());
}

#[test]
fn parts_of_timestamps_are_ids_and_missing_ones_have_none() {
    let seconds = 1_717_180_259; // 2024-05-31T18:30:59Z, a Friday
    let rows = batch(vec![
        ("s", Column::i64(vec![seconds, -1])),
        ("ms", Column::i64(vec![seconds * 1000 + 999, 0])),
        ("iso", Column::text(["2024-05-31T18:30:59Z", ""])),
    ]);
    let wanted = [30, 18, 4, 30, 151, 4, 1];
    for ((name, part), wanted) in TimePart::ALL.into_iter().zip(wanted) {
        let column = timestamp_column("s", part, TimeUnit::Seconds);
        assert_eq!(column.name(), format!("s_{name}"));
        assert_eq!(ids(column, &rows), (vec![wanted], vec![0, 1, 1]), "{name}");
        assert_eq!(ids(timestamp_column("iso", part, TimeUnit::Iso), &rows), (vec![wanted], vec![0, 1, 1]), "{name}");
        assert_eq!(ids(timestamp_column("ms", part, TimeUnit::Millis), &rows).0[0], wanted, "{name}");
    }
    let wrong = Transform::linear_model(&[timestamp_column("iso", TimePart::Hour, TimeUnit::Seconds)]).unwrap();
    assert_eq!(wrong.apply(&rows).unwrap_err().code(), Code::DataColumn);
}

#[test]
fn parts_of_timestamps_are_numbers_too() {
    let seconds = 1_717_180_259; // 2024-05-31T18:30:59Z, a Friday
    let rows = batch(vec![
        ("s", Column::i64(vec![seconds, -1])),
        ("iso", Column::text(["2024-05-31T18:30:59Z", ""])),
        ("some", Column::i64(vec![seconds]).with_splits(vec![0, 1, 1]).unwrap()),
        ("two", Column::i64(vec![seconds, seconds]).with_splits(vec![0, 2, 2]).unwrap()),
    ]);
    let number = |key: &str, unit| numeric_column(key).time_part(TimePart::Hour, unit);
    for (key, unit) in [("s", TimeUnit::Seconds), ("iso", TimeUnit::Iso), ("some", TimeUnit::Seconds)] {
        assert_eq!(number(key, unit).name(), format!("{key}_hour"));
        assert_eq!(dense(number(key, unit), &rows), [18.0, 0.0], "{key}");
        let column = number(key, unit).default_value(12.0).scale(0.0, 24.0).missing_indicator();
        assert_eq!(dense(column, &rows), [0.75, 0.0, 0.5, 1.0], "{key}");
        assert_eq!(ids(bucketized_column(number(key, unit), [6, 18]), &rows).0, [2, 0], "{key}");
    }
    let error = Transform::dense_features(&[number("two", TimeUnit::Seconds)]).unwrap().apply(&rows).unwrap_err();
    assert!(error.to_string().contains("2 timestamps"), "{error}");
    // The same input can have a number and a category.
    let both =
        [number("s", TimeUnit::Seconds), indicator_column(timestamp_column("s", TimePart::Weekday, TimeUnit::Seconds))];
    assert_eq!(make_parse_example_spec(&both).unwrap().len(), 1);
}
