//! Statistics of a job's inputs and of files.

use crate::common::{JOB, write_data};
use crate::jobs::{job, rows, train, well, write_parquet, write_records};
use phalanx_jobfile::{ColumnReport, DataPart, DataStatistics, FileFormat, FileStatistics};
use std::path::Path;

fn column<'a>(found: &'a DataStatistics, name: &str) -> &'a ColumnReport {
    found.columns.iter().find(|column| column.name == name).unwrap()
}

fn of_file(path: &Path, format: FileFormat, most: Option<u64>) -> DataStatistics {
    let files = path.to_string_lossy().into_owned();
    well(FileStatistics { files, format, delimiter: b',', label: Some("y".to_owned()), most }.read())
}

/// The job with columns of films: a bag that is written as one text, and a vocabulary with another spelling.
fn films(folder: &Path) -> String {
    write_data(folder);
    let mut text = String::from("age,pay,city,job,y\n");
    for row in 0..300 {
        let (age, genre) = (["", "40", "50"][row % 3], ["War|Drama", "Drama|Action", "War"][row % 3]);
        text += &format!("{age},1.5,{genre},cook,{}\n", if row % 4 == 0 { "yes" } else { "no" });
    }
    std::fs::write(folder.join("train.csv"), text).unwrap();
    JOB.replace(r#"["berlin", "oslo", "rome"]"#, r#"["Action", "Drama", "War"]"#)
}

#[test]
fn a_dry_run_reports_every_column_and_warns_of_values_that_are_mostly_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let text = films(folder.path());
    let done = well(job(folder.path(), &text, "run").dry_run()).join("\n");
    let lines: Vec<String> = done.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let has = |line: &str| assert!(lines.iter().any(|known| known == line), "{line}\n{done}");
    has("stats all 300 rows of the training files");
    has("column kind missing unknown distinct min mean 1 % 25 % median 75 % 99 % max");
    has("age number 33.3 % - 2 40 45 40 40 40 50 50 50");
    has("city text - 66.7 % 3 - - - - - - - -");
    has("label \"y\": no 75.0 %, yes 25.0 %");
    has(
        "warning column \"city\": 67 % of 300 values are unknown, such as \"War|Drama\"; it is a bag written as one text: \
         add split = \"|\" to the column",
    );
    // The summary of the model.
    has("linear city 3 ids");
    has("network job_embedding 4 numbers for 20 ids");
    has("dnn/hiddenlayer_0/kernel 9 x 16 144 this process");
    assert_eq!(lines.iter().filter(|line| line.starts_with("warning")).count(), 1, "{done}");
}

#[test]
fn known_values_give_no_warning() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path());
    let found = well(job(folder.path(), JOB, "run").statistics(DataPart::Train, None));
    assert_eq!(found.warnings(), Vec::<String>::new());
    assert_eq!((found.rows, found.complete), (600, true));
    let city = column(&found, "city");
    assert_eq!((city.unknown().map(|count| count.unknown), city.distinct()), (Some(0), (3, true)));
    assert_eq!(column(&found, "job").unknown(), None, "every text has a hash");
    let names: Vec<&str> = found.columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names.last(), Some(&"y"));
    assert_eq!(
        found.columns.iter().find(|column| column.name == "name").map(|_| ()),
        None,
        "the model does not read it"
    );
}

#[test]
fn a_vocabulary_of_another_spelling_and_labels_of_one_class_are_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path());
    let rows = std::fs::read_to_string(folder.path().join("train.csv")).unwrap();
    std::fs::write(folder.path().join("train.csv"), rows.replace(",no\n", ",yes\n")).unwrap();
    let text = JOB.replace(r#"["berlin", "oslo", "rome"]"#, r#"["Berlin", "Oslo", "Rome"]"#);
    let found = well(job(folder.path(), &text, "run").statistics(DataPart::Train, None));
    let warnings = found.warnings();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(
        warnings[0].contains("100 % of 600 values are unknown") && warnings[0].contains("spelling"),
        "{warnings:?}"
    );
    assert_eq!(warnings[1], "every label in column \"y\" is \"yes\"");
}

#[test]
fn a_training_leaves_the_statistics_of_its_first_batches() {
    let folder = tempfile::tempdir().unwrap();
    let text = films(folder.path()).replace("max_steps = 200", "max_steps = 20");
    train(folder.path(), &text, "run");
    let json = std::fs::read_to_string(folder.path().join("run/statistics.json")).unwrap();
    let found: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(found["rows"].as_u64().is_some_and(|rows| rows <= 300), "{found}");
    assert!(found["columns"].as_array().unwrap().iter().any(|column| column["name"] == "city"), "{found}");
}

#[test]
fn csv_parquet_and_tfrecord_have_the_same_statistics() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path());
    let path = |end: &str| folder.path().join(format!("train.{end}"));
    let read = rows(&path("csv"));
    write_records(&read, &path("tfrecord"));
    write_parquet(&read, &path("parquet"));
    let expected = of_file(&path("csv"), FileFormat::Csv, None);
    assert_eq!(expected.rows, 600);
    let age = column(&expected, "age");
    assert_eq!((age.kind().as_str(), age.missing()), ("number", 0));
    assert!(age.min() >= Some(18.0) && age.max() < Some(78.0) && age.quantile(0.5) > age.quantile(0.25));
    for (end, format) in [("parquet", FileFormat::Parquet), ("tfrecord", FileFormat::TfRecord)] {
        assert_eq!(FileFormat::of_file(&path(end).to_string_lossy()), Some(format));
        let found = of_file(&path(end), format, None);
        for name in ["age", "pay", "city", "job", "y"] {
            let (ours, theirs) = (column(&found, name), column(&expected, name));
            let of = |column: &ColumnReport| {
                (column.missing(), column.distinct(), column.min(), column.mean(), column.max(), column.quantile(0.9))
            };
            assert_eq!(of(ours), of(theirs), "{end}: {name}");
            assert_eq!(ours.classes(), theirs.classes());
        }
    }
    let first = of_file(&path("csv"), FileFormat::Csv, Some(7));
    assert_eq!((first.rows, first.complete), (7, false));
}

#[test]
fn dirt_in_a_csv_file_is_counted_and_not_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dirty.csv");
    std::fs::write(&path, "x,y\n1,a\n,b\nNA,a\n2.5,\nnan,a\ninf,a\n").unwrap();
    let found = of_file(&path, FileFormat::Csv, None);
    let x = column(&found, "x");
    assert_eq!((x.rows(), x.missing(), x.infinite(), x.kind().as_str()), (6, 2, 1, "number and text"));
    assert_eq!((x.min(), x.mean(), x.max()), (Some(1.0), Some(1.75), Some(2.5)));
    assert_eq!(column(&found, "y").classes().unwrap(), [("a", 4), ("", 1), ("b", 1)]);
}

#[test]
fn nulls_of_a_parquet_file_are_missing_whatever_their_type() {
    use arrow_array::{ArrayRef, Float32Array, Int64Array, RecordBatch, StringArray};
    use std::sync::Arc;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nulls.parquet");
    let columns = [
        ("a", Arc::new(Float32Array::from(vec![Some(1.0), None, Some(f32::INFINITY), Some(2.0)])) as ArrayRef),
        ("b", Arc::new(Int64Array::from(vec![None, Some(7), None, Some(-1)])) as ArrayRef),
        ("y", Arc::new(StringArray::from(vec![Some("x"), None, Some("x"), Some("z")])) as ArrayRef),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap();
    let file = std::fs::File::create(&path).unwrap();
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let found = of_file(&path, FileFormat::Parquet, None);
    let missing = ["a", "b", "y"].map(|name| (column(&found, name).rows(), column(&found, name).missing()));
    assert_eq!(missing, [(4, 1), (4, 2), (4, 1)]);
    let b = column(&found, "b");
    assert_eq!((b.min(), b.max(), b.distinct()), (Some(-1.0), Some(7.0), (2, true)));
    assert_eq!(column(&found, "a").infinite(), 1);
}

#[test]
fn rows_that_statistics_skip_are_not_taken_from_those_that_the_training_may_skip() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path());
    let rows = std::fs::read_to_string(folder.path().join("train.csv")).unwrap();
    let bad = rows.replacen("\n", "\ntwo,fields\n", 2);
    std::fs::write(folder.path().join("train.csv"), bad).unwrap();
    let text = JOB.replace("[data]", "[data]\nskip_bad_rows = 2").replace("max_steps = 200", "max_steps = 20");
    let job = job(folder.path(), &text, "run");
    for _ in 0..3 {
        assert_eq!(well(job.statistics(DataPart::Train, None)).rows, 600);
    }
    assert_eq!(job.skipped_rows(), Vec::<String>::new(), "only the training reports what it skipped");
    well(job.train());
}
