//! Dirty files through whole jobs: never a wrong number in silence, and every message names the row.

use crate::common::{JOB, write_data};
use phalanx_base::{Code, Error, Result};
use phalanx_data::{Batch, Column, ParquetWriter};
use phalanx_jobfile::{Job, Overrides, PredictOptions, TrainedJob};
use std::path::PathBuf;

struct Folder(tempfile::TempDir);

impl Folder {
    /// The table of people, with one change in the training file.
    fn new(change: impl FnOnce(&mut Vec<String>)) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        write_data(folder.0.path());
        folder.change("train.csv", change);
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Vec<String>)) {
        let text = std::fs::read_to_string(self.path(name)).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        change(&mut lines);
        std::fs::write(self.path(name), lines.join("\n") + "\n").unwrap();
    }

    fn job(&self, from: &str, to: &str) -> Result<Job> {
        assert!(JOB.contains(from), "{from:?} is not in the job");
        let text = JOB.replacen(from, to, 1).replacen("seed = 3", "seed = 3\nmodel_dir = \"run\"", 1);
        std::fs::write(self.path("job.toml"), text).unwrap();
        Job::read(self.path("job.toml"), Overrides { max_steps: Some(20), ..Overrides::default() })
    }

    fn train(&self, from: &str, to: &str) -> Result<phalanx_jobfile::Done> {
        self.job(from, to)?.train()
    }

    fn error(&self, from: &str, to: &str) -> Error {
        let error = self.train(from, to).map(|done| done.report.to_string()).expect_err("the dirt was not found");
        eprintln!("{}", error.report());
        error
    }
}

/// Sets one field of a line.
fn set(line: &mut String, field: usize, value: &str) {
    let mut fields: Vec<&str> = line.split(',').collect();
    fields[field] = value;
    *line = fields.join(",");
}

fn says(error: &Error, line: usize) {
    let place = error.place().unwrap_or_default();
    assert!(place.contains(&format!("train.csv, line {line}")), "{place:?}");
    assert!(!error.report().contains(".column("), "{}", error.report());
}

const LABEL: &str = "label = \"y\"";

#[test]
fn a_row_with_too_many_fields_is_refused_or_skipped() {
    let folder = Folder::new(|lines| set(&mut lines[400], 4, "n,n"));
    let error = folder.error(LABEL, LABEL);
    assert_eq!((error.code(), error.what()), (Code::DataRow, "a row has 7 fields, not 6"));
    says(&error, 401);
    folder.train(LABEL, "label = \"y\"\nskip_bad_rows = 1").unwrap();
}

#[test]
fn a_missing_label_is_refused_skipped_or_replaced() {
    let folder = Folder::new(|lines| set(&mut lines[400], 5, ""));
    let error = folder.error(LABEL, LABEL);
    assert_eq!((error.code(), error.what()), (Code::DataRow, "a label is missing"));
    says(&error, 401);
    folder.train(LABEL, "label = \"y\"\nskip_bad_rows = 1").unwrap();
    let folder = Folder::new(|lines| set(&mut lines[400], 5, ""));
    folder.train(LABEL, "label = \"y\"\ndefaults = { y = \"no\" }").unwrap();
}

#[test]
fn a_label_out_of_range_names_its_line_wherever_the_batch_puts_it() {
    let folder = Folder::new(|lines| set(&mut lines[511], 5, "maybe"));
    let error = folder.error(LABEL, LABEL);
    assert_eq!((error.code(), error.what()), (Code::DataRow, "the label \"maybe\" is not in the vocabulary"));
    says(&error, 512);

    let folder = Folder::new(|lines| {
        for line in &mut lines[1..] {
            let label = if line.ends_with("yes") { "1" } else { "0" };
            set(line, 5, label);
        }
        set(&mut lines[511], 5, "2");
    });
    folder.change("test.csv", |lines| lines[1..].iter_mut().for_each(|line| set(line, 5, "1")));
    let error = folder.error("label_vocabulary = [\"no\", \"yes\"]\n", "");
    assert_eq!(error.what(), "label 2 is outside the 2 classes");
    says(&error, 512);
}

#[test]
fn an_id_out_of_range_names_its_line() {
    let folder = Folder::new(|lines| {
        for (at, line) in lines.iter_mut().enumerate().skip(1) {
            set(line, 3, if at == 511 { "9" } else { "1" });
        }
    });
    folder.change("test.csv", |lines| lines[1..].iter_mut().for_each(|line| set(line, 3, "1")));
    let job = "job = { kind = \"hash_bucket\", hash_bucket_size = 20 }";
    let error = folder.error(job, "job = { kind = \"identity\", num_buckets = 3 }");
    assert!(error.what().contains("id 9 is beyond the 3 ids"), "{error}");
    says(&error, 512);
}

#[test]
fn numbers_that_are_not_finite_are_refused_skipped_or_zero() {
    for value in ["nan", "inf", "1e39"] {
        let dirty = || Folder::new(|lines| set(&mut lines[400], 1, value));
        let error = dirty().error(LABEL, LABEL);
        assert!(error.code() == Code::DataRow && error.what().contains("not a finite number"), "{error}");
        says(&error, 401);
        for policy in ["skip", "zero"] {
            dirty().train(LABEL, &format!("label = \"y\"\nnon_finite = \"{policy}\"")).unwrap();
        }
    }
}

#[test]
fn skipped_rows_are_counted_and_logged() {
    let folder = Folder::new(|lines| {
        set(&mut lines[400], 5, "");
        set(&mut lines[402], 4, "n,n");
        set(&mut lines[404], 1, "nan");
    });
    let job = folder.job(LABEL, "label = \"y\"\nskip_bad_rows = 5\nnon_finite = \"skip\"").unwrap();
    job.train().unwrap();
    let lines = job.skipped_rows();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].starts_with("training data: 2 rows skipped as malformed; the first: "), "{lines:?}");
    assert!(lines[1].starts_with("training data: 1 row skipped because of NaN or infinite numbers"), "{lines:?}");
}

#[test]
fn messages_suggest_settings_of_the_file() {
    let folder = Folder::new(|lines| lines[3..6].iter_mut().for_each(|line| set(line, 0, "?")));
    let error = folder.error(LABEL, LABEL);
    assert!(error.next().unwrap().contains("set na_value to \"?\""), "{}", error.report());
    says(&error, 4);
    folder.train(LABEL, "label = \"y\"\nna_value = [\"?\", \"NA\"]").unwrap();

    let huge = Folder::new(|lines| lines[1..].iter_mut().for_each(|line| set(line, 3, "18446744073709551616")));
    huge.change("test.csv", |lines| lines[1..].iter_mut().for_each(|line| set(line, 3, "7")));
    let job = "job = { kind = \"hash_bucket\", hash_bucket_size = 20 }";
    let error = huge.error(job, "job = { kind = \"hash_bucket\", hash_bucket_size = 20, dtype = \"int64\" }");
    assert!(error.to_string().contains("int64 ends at"), "{}", error.report());
    assert!(error.next().unwrap().contains("as string"), "{}", error.report());
    says(&error, 2);
}

/// The table without a header.
fn headerless(folder: &Folder) -> (Job, TrainedJob) {
    for name in ["train.csv", "test.csv"] {
        folder.change(name, |lines| drop(lines.remove(0)));
    }
    let names = "label = \"y\"\nheader = false\nnames = [\"age\", \"pay\", \"city\", \"job\", \"name\", \"y\"]";
    let job = folder.job(LABEL, names).unwrap();
    job.train().unwrap();
    (job, TrainedJob::find(folder.path("run")).unwrap())
}

#[test]
fn a_headerless_file_to_predict_lacks_its_label_only_if_the_user_says_so() {
    let folder = Folder::new(|_| {});
    let (job, trained) = headerless(&folder);
    let predict = |name: &str, no_label: bool| {
        let mut rows = 0;
        let path = folder.path(name).to_string_lossy().into_owned();
        let options = PredictOptions { no_label, ..PredictOptions::default() };
        job.predict(&trained, &path, &options, |batch| {
            rows += batch.rows();
            Ok(())
        })
        .map(|()| rows)
    };
    let write = |name: &str, row: &str| std::fs::write(folder.path(name), format!("{row}\n{row}\n")).unwrap();
    write("whole.csv", "30,2.5,oslo,cook,n1,no");
    write("unlabelled.csv", "30,2.5,oslo,cook,n1");
    write("shifted.csv", "30,oslo,cook,n1,no");
    assert_eq!(predict("whole.csv", false).unwrap(), 2);
    assert_eq!(predict("unlabelled.csv", true).unwrap(), 2);
    for name in ["unlabelled.csv", "shifted.csv"] {
        let error = predict(name, false).unwrap_err();
        assert_eq!(error.what(), "a row has 5 fields, not 6", "{error}");
        assert!(error.next().unwrap().contains("--no-label"), "{}", error.report());
    }
    assert_eq!(predict("whole.csv", true).unwrap_err().what(), "a row has 6 fields, not 5");
    // "oslo" is no number: with --no-label, the fields have the right places.
    assert!(predict("shifted.csv", true).unwrap_err().what().contains("\"oslo\" is not a valid float32"));
}

#[test]
fn a_default_of_another_type_or_of_no_input_is_refused_in_every_format() {
    let folder = Folder::new(|_| {});
    for format in ["parquet", "tfrecord"] {
        for (default, what) in [("age = \"x\"", "is not float32"), ("nobody = 1", "nothing reads the input \"nobody\"")]
        {
            let setting = format!("label = \"y\"\nformat = \"{format}\"\ndefaults = {{ {default} }}");
            let error = folder.job(LABEL, &setting).unwrap().dry_run().unwrap_err();
            assert!(error.what().contains(what), "{error}");
        }
    }
    let error = folder.job(LABEL, "label = \"y\"\ndefaults = { age = nan }").unwrap_err();
    assert_eq!(error.code(), Code::JobValue);
}

fn write_parquet(path: &std::path::Path) {
    let rows = 0..1000_i64;
    let columns = [
        ("age", Column::f32(rows.clone().map(|row| row as f32).collect())),
        ("id", Column::i64(rows.clone().collect())),
        ("y", Column::i64(rows.map(|row| row % 2).collect())),
    ];
    let mut writer = ParquetWriter::new(std::fs::File::create(path).unwrap());
    writer.write(&Batch::new(columns).unwrap()).unwrap();
    drop(writer.finish().unwrap());
}

const PARQUET: &str = r#"[data]
format = "parquet"
train = "a.parquet"
eval = "b.parquet"
label = "y"
[columns]
age = { kind = "numeric" }
id = { kind = "identity", num_buckets = 1000 }
id_vector = { kind = "embedding", column = "id", dimension = 8 }
[model]
kind = "dnn_classifier"
columns = ["age", "id_vector"]
hidden_units = [4]
[train]
max_steps = 5
batch_size = 8
"#;

#[test]
fn an_error_points_at_the_damaged_file_and_a_large_table_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    write_parquet(&path("a.parquet"));
    let whole = std::fs::read(path("a.parquet")).unwrap();
    let dry_run = |text: &str| {
        let job = Job::parse("job.toml", text, &folder.path().to_string_lossy(), Overrides::default()).unwrap();
        job.dry_run()
    };
    std::fs::write(path("b.parquet"), &whole[..whole.len() - 20]).unwrap();
    let error = dry_run(PARQUET).unwrap_err();
    assert_eq!(error.code(), Code::DataFormat);
    assert!(error.what().contains("b.parquet\" is not a complete Parquet file"), "{error}");
    assert_eq!(error.pointed_at().as_deref(), Some("job.toml:4:8"), "{}", error.report());

    std::fs::write(path("b.parquet"), &whole).unwrap();
    // It is exported as the rows that were seen.
    let large = dry_run(&PARQUET.replace("num_buckets = 1000", "num_buckets = 9000000000000"));
    assert!(large.is_ok_and(|done| done.iter().any(|line| line.starts_with("export"))));
}

#[test]
fn spaces_around_values_suggest_trim() {
    let folder = Folder::new(|lines| set(&mut lines[400], 5, " yes"));
    let error = folder.error(LABEL, LABEL);
    says(&error, 401);
    assert_eq!(error.next(), Some("it has spaces around it: set trim = true in [data]"));
    let folder = Folder::new(|lines| set(&mut lines[400], 1, "  "));
    let error = folder.error(LABEL, LABEL);
    says(&error, 401);
    assert!(error.next().unwrap().contains("set trim"), "{}", error.report());
    folder.train(LABEL, "label = \"y\"\ntrim = true").unwrap();
    let folder = Folder::new(|lines| {
        for line in &mut lines[1..] {
            let city = format!(" {}", line.split(',').nth(2).unwrap());
            set(line, 2, &city);
        }
    });
    let lines = folder.job(LABEL, LABEL).unwrap().dry_run().unwrap();
    assert!(lines.iter().any(|line| line.contains("trim = true")), "{lines:#?}");
}
