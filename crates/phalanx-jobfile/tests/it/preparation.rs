//! Jobs that prepare their data themselves: functions of numbers, bags, timestamps, filters, splits and float labels.

use crate::common::{export, job, predictions, train, well};
use phalanx_base::Code;
use phalanx_data::{Batch, Column, HashSplit, SplitPart};
use phalanx_formats::{example::ExampleWriter, record::RecordWriter};
use phalanx_jobfile::{Job, Overrides, PredictOptions, TrainedJob};
use std::fmt::Write as _;
use std::path::Path;

/// A row of the films: user, price (missing in some), genres, time, label.
struct Film {
    user: u64,
    price: Option<f64>,
    genres: String,
    seen: u64,
    liked: bool,
}

fn films(rows: u64) -> Vec<Film> {
    let film = |i: u64| {
        let draw = |salt: u64, of: u64| {
            (i.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(salt.wrapping_mul(1_442_695_040_888_963_407)) >> 33)
                % of
        };
        let genres: Vec<&str> = ["Action", "Comedy", "Drama"]
            .into_iter()
            .zip(0..)
            .filter(|(_, at)| draw(7 + at, 2) == 0)
            .map(|pair| pair.0)
            .collect();
        let seen = 1_700_000_000 + draw(5, 10_000_000);
        let night = seen / 3600 % 24 < 8;
        Film {
            user: draw(1, 300),
            price: (draw(2, 10) > 0).then(|| (draw(3, 1000) as f64 / 100.0).exp()),
            liked: genres.contains(&"Comedy") != night,
            genres: genres.join("|"),
            seen,
        }
    };
    (0..rows).map(film).collect()
}

fn write_csv(films: &[Film], label: impl Fn(&Film) -> String, path: &Path) {
    let mut text = "user,price,genres,seen,liked\n".to_owned();
    for film in films {
        let price = film.price.map(|price| format!("{price:.2}")).unwrap_or_default();
        writeln!(text, "{},{price},{},{},{}", film.user, film.genres, film.seen, label(film)).unwrap();
    }
    std::fs::write(path, text).unwrap();
}

/// The price as a CSV file has it.
fn rounded(film: &Film) -> Option<f32> {
    film.price.map(|price| ((price * 100.0).round() / 100.0) as f32)
}

fn write_records(films: &[Film], path: &Path) {
    let mut writer = RecordWriter::new(Vec::new());
    for film in films {
        let mut example = ExampleWriter::new();
        example.i64s("user", &[film.user as i64]).i64s("seen", &[film.seen as i64]);
        if let Some(price) = rounded(film) {
            example.f32s("price", &[price]);
        }
        example.bytes("genres", &[film.genres.as_bytes()]).f32s("liked", &[f32::from(u8::from(film.liked))]);
        writer.write_record(example.encode().as_slice()).unwrap();
    }
    std::fs::write(path, writer.finish().unwrap()).unwrap();
}

fn write_parquet(films: &[Film], path: &Path) {
    use arrow_array::{ArrayRef, Float32Array, Int64Array, RecordBatch, StringArray};
    use std::sync::Arc;
    let price: Float32Array = films.iter().map(rounded).collect();
    let columns = [
        ("user", Arc::new(Int64Array::from_iter_values(films.iter().map(|film| film.user as i64))) as ArrayRef),
        ("price", Arc::new(price) as ArrayRef),
        ("genres", Arc::new(StringArray::from_iter_values(films.iter().map(|film| &film.genres))) as ArrayRef),
        ("seen", Arc::new(Int64Array::from_iter_values(films.iter().map(|film| film.seen as i64))) as ArrayRef),
        ("liked", Arc::new(Float32Array::from_iter_values(films.iter().map(|film| f32::from(u8::from(film.liked)))))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let file = std::fs::File::create(path).unwrap();
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

fn class(film: &Film) -> String {
    u8::from(film.liked).to_string()
}

const JOB: &str = r#"
seed = 1
[data]
train = "films.csv"
split = { by = "user", eval = 0.2 }
filter = "seen >= 1700000000"
label = "liked"
[columns]
price = { kind = "numeric", default_value = 0, functions = [{ clip = [0, 1000] }, "log1p", "standardize"] }
price_group = { kind = "bucketized", column = "price", quantiles = 5 }
genres = { kind = "vocabulary_list", vocabulary_list = ["Action", "Comedy"], num_oov_buckets = 1, split = "|" }
genres_hot = { kind = "indicator", column = "genres" }
tags = { kind = "hash_bucket", key = "genres", hash_bucket_size = 50, split = "|" }
hour = { kind = "timestamp", key = "seen", part = "hour" }
hour_hot = { kind = "indicator", column = "hour" }
weekday = { kind = "timestamp", key = "seen", part = "weekday" }
[model]
kind = "dnn_linear_combined_classifier"
linear_columns = ["price_group", "tags", "weekday"]
dnn_columns = ["price", "genres_hot", "hour_hot"]
hidden_units = [16]
dnn_optimizer = { name = "adagrad", learning_rate = 0.1 }
[train]
max_steps = 300
batch_size = 64
log_step_count_steps = 0
[eval]
steps = "all"
start_delay_secs = 0
throttle_secs = 0
[[export]]
name = "final"
"#;

#[test]
fn a_job_prepares_its_own_data_and_its_export_carries_what_it_learned() {
    let folder = tempfile::tempdir().unwrap();
    write_csv(&films(2000), class, &folder.path().join("films.csv"));
    let done = train(folder.path(), JOB, "run");
    let evaluation = done.report.evaluation.unwrap();
    assert!(evaluation.get("auc").unwrap() > 0.9, "{evaluation}");

    let (run, input) = (folder.path().join("run"), folder.path().join("new.csv"));
    write_csv(&films(50), class, &input);
    let ours = predictions(&run, &input);
    assert_eq!(ours.len(), 50);
    let moved = folder.path().join("model");
    std::fs::rename(export(&run.join("export/final")), &moved).unwrap();
    assert_eq!(predictions(&moved, &input), ours);

    // A restart on other data continues with the statistics of the run.
    let before = std::fs::read_to_string(run.join("column_statistics.toml")).unwrap();
    let mut other = films(1000);
    other.iter_mut().for_each(|film| film.price = film.price.map(|price| price * 50.0));
    write_csv(&other, class, &folder.path().join("films.csv"));
    train(folder.path(), &JOB.replace("max_steps = 300", "max_steps = 320"), "run");
    assert_eq!(std::fs::read_to_string(run.join("column_statistics.toml")).unwrap(), before);
    // A new run has its own.
    train(folder.path(), &JOB.replace("max_steps = 300", "max_steps = 20"), "other");
    assert_ne!(std::fs::read_to_string(folder.path().join("other/column_statistics.toml")).unwrap(), before);
    // A fork takes those of the run that its weights come from.
    let fork = format!("resume = {:?}\n{}", run.to_string_lossy(), JOB.replace("max_steps = 300", "max_steps = 340"));
    train(folder.path(), &fork, "fork");
    let forked = std::fs::read_to_string(folder.path().join("fork/column_statistics.toml")).unwrap();
    let numbers = |text: &str| text.split_once("[statistics").unwrap().1.to_owned();
    assert_eq!(numbers(&forked), numbers(&before));

    // Without them, nothing is predicted.
    std::fs::remove_file(run.join("column_statistics.toml")).unwrap();
    let trained = well(TrainedJob::find(&run));
    let (job, options) = (well(trained.job(Overrides::default())), PredictOptions::default());
    let error = job.predict(&trained, &input.to_string_lossy(), &options, |_| Ok(())).unwrap_err();
    assert_eq!(error.code(), Code::DataMissing);
    assert!(error.to_string().contains("column_statistics.toml"), "{error}");
}

#[test]
fn csv_parquet_and_tfrecord_prepare_the_same_rows() {
    let folder = tempfile::tempdir().unwrap();
    let rows = films(1500);
    write_csv(&rows, class, &folder.path().join("films.csv"));
    write_records(&rows, &folder.path().join("films.tfrecord"));
    write_parquet(&rows, &folder.path().join("films.parquet"));
    let base = JOB.replace("max_steps = 300", "max_steps = 40");
    let found = ["csv", "parquet", "tfrecord"].map(|format| {
        let text = base
            .replace("films.csv\"", &format!("films.{format}\""))
            .replace("[data]", &format!("[data]\nformat = {format:?}"));
        let evaluation = train(folder.path(), &text, format).report.evaluation.unwrap();
        let statistics = std::fs::read_to_string(folder.path().join(format).join("column_statistics.toml")).unwrap();
        let numbers = statistics.split_once("[statistics").unwrap().1.to_owned();
        (evaluation.get("average_loss").unwrap(), evaluation.get("label/mean").unwrap(), numbers)
    });
    assert_eq!((&found[0].2, &found[0].2), (&found[1].2, &found[2].2));
    assert_eq!((found[0].1, found[0].1), (found[1].1, found[2].1));
    assert!((found[0].0 - found[1].0).abs() < 1e-6 && (found[0].0 - found[2].0).abs() < 1e-6, "{found:?}");
}

#[test]
fn a_missing_value_has_an_indicator_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let mut rows = films(1500);
    // Only whether a price is missing tells the label, and the default looks like any other price.
    rows.iter_mut().for_each(|film| film.liked = film.price.is_none());
    write_csv(&rows, class, &folder.path().join("films.csv"));
    write_records(&rows, &folder.path().join("films.tfrecord"));
    write_parquet(&rows, &folder.path().join("films.parquet"));
    let text = std::fs::read_to_string(folder.path().join("films.csv")).unwrap();
    std::fs::write(folder.path().join("films.tsv"), text.replace(',', "\t")).unwrap();
    let base = JOB.replace("max_steps = 300", "max_steps = 100").replace("\"price_group\", ", "");
    let base = base.replace("default_value = 0,", "default_value = 20,");
    let indicated = base.replace("default_value = 20,", "default_value = 20, missing_indicator = true,");
    let settings = [
        ("csv", "csv", ""),
        ("tsv", "csv", "delimiter = \"\\t\""),
        ("parquet", "parquet", ""),
        ("tfrecord", "tfrecord", ""),
    ];
    let found = settings.map(|(name, format, more)| {
        let text = indicated
            .replace("films.csv\"", &format!("films.{name}\""))
            .replace("[data]", &format!("[data]\nformat = {format:?}\n{more}"));
        let evaluation = train(folder.path(), &text, name).report.evaluation.unwrap();
        assert!(evaluation.get("auc").unwrap() > 0.99, "{name}: {evaluation}");
        evaluation.get("average_loss").unwrap()
    });
    assert!(found.iter().all(|loss| (loss - found[0]).abs() < 1e-6), "{found:?}");
    let plain = train(folder.path(), &base, "plain").report.evaluation.unwrap();
    assert!(plain.get("average_loss").unwrap() > 3.0 * found[0], "{found:?} {plain}");

    let (run, input) = (folder.path().join("csv"), folder.path().join("new.csv"));
    write_csv(&films(50), class, &input);
    let ours = predictions(&run, &input);
    assert_eq!(predictions(&export(&run.join("export/final")), &input), ours);
    // NaN in a file marks a missing value too, and a filter sees it as missing.
    let text = std::fs::read_to_string(&input).unwrap();
    let (mut lines, nan) = (text.lines(), |line: &str| line.replacen(",,", ",nan,", 1));
    let head = lines.next().unwrap().to_owned();
    std::fs::write(&input, std::iter::once(head).chain(lines.map(nan)).collect::<Vec<_>>().join("\n")).unwrap();
    assert_eq!(predictions(&run, &input), ours);
    let some = indicated.replace("seen >= 1700000000", "price is not missing");
    let evaluation = train(folder.path(), &some, "some").report.evaluation.unwrap();
    assert_eq!(evaluation.get("label/mean"), Some(0.0), "{evaluation}");
}

#[test]
fn numbers_of_timestamps_and_bags_of_integers_train_as_their_plain_forms_do() {
    let folder = tempfile::tempdir().unwrap();
    let (mut plain, mut prepared) = ("seen_hour,films,y\n".to_owned(), "seen,films,y\n".to_owned());
    for film in films(600) {
        let (hour, user) = (film.seen / 3600 % 24, film.user);
        writeln!(plain, "{hour},{user},{}", u8::from(hour < 8)).unwrap();
        writeln!(prepared, "{},{user}|,{}", film.seen, u8::from(hour < 8)).unwrap();
    }
    std::fs::write(folder.path().join("plain.csv"), plain).unwrap();
    std::fs::write(folder.path().join("prepared.csv"), prepared).unwrap();
    let job = |name: &str, columns: &str| {
        format!(
            r#"
seed = 1
[data]
train = "{name}.csv"
eval = "{name}.csv"
label = "y"
[columns]
{columns}
film_vector = {{ kind = "embedding", column = "film", dimension = 2 }}
[model]
kind = "dnn_classifier"
columns = ["hour", "film_vector"]
hidden_units = [8]
[train]
max_steps = 60
batch_size = 32
log_step_count_steps = 0
[eval]
start_delay_secs = 0
throttle_secs = 0
"#
        )
    };
    let plain = r#"
hour = { kind = "numeric", key = "seen_hour", normalizer = { subtract = 12, divide = 6 } }
film = { kind = "identity", key = "films", num_buckets = 300 }"#;
    let prepared = r#"
hour = { kind = "numeric", key = "seen", part = "hour", normalizer = { subtract = 12, divide = 6 } }
film = { kind = "identity", key = "films", split = "|", num_buckets = 300 }"#;
    let [plain, prepared] = [("plain", plain), ("prepared", prepared)].map(|(name, columns)| {
        train(folder.path(), &job(name, columns), name).report.evaluation.unwrap().get("average_loss").unwrap()
    });
    assert!((plain - prepared).abs() < 1e-6, "{plain} {prepared}");
}

#[test]
fn rows_that_a_filter_excludes_are_not_even_checked() {
    let folder = tempfile::tempdir().unwrap();
    // Labels of night hours are unusable, also in the first rows.
    let label = |film: &Film| if film.user < 30 { "7".to_owned() } else { class(film) };
    write_csv(&films(1000), label, &folder.path().join("films.csv"));
    let text = JOB.replace("max_steps = 300", "max_steps = 10");
    let error = job(folder.path(), &text, "all").train().unwrap_err();
    assert!(error.to_string().contains('7'), "{error}");
    train(folder.path(), &text.replace("seen >= 1700000000", "user >= 30"), "some");
    let none = job(folder.path(), &text.replace("seen >= 1700000000", "user > 1000"), "none").train().unwrap_err();
    assert!(none.to_string().contains("fulfil the filter"), "{none}");
}

#[test]
fn a_split_keeps_users_apart() {
    let folder = tempfile::tempdir().unwrap();
    let split = HashSplit::new("user", 0.2).unwrap();
    let is_eval = |film: &Film| {
        let row = Batch::new([("user", Column::i64(vec![film.user as i64]))]).unwrap();
        split.keep(&row, SplitPart::Eval).unwrap()[0]
    };
    // The label tells the part: training sees one, evaluation the other.
    write_csv(&films(1000), |film| u8::from(is_eval(film)).to_string(), &folder.path().join("films.csv"));
    let done = train(folder.path(), &JOB.replace("max_steps = 300", "max_steps = 30"), "run");
    let evaluation = done.report.evaluation.unwrap();
    assert_eq!(evaluation.get("label/mean"), Some(1.0), "{evaluation}");
    assert!(evaluation.get("prediction/mean").unwrap() < 0.5, "{evaluation}");
}

#[test]
fn float_labels_of_a_classifier_are_whole_numbers_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let text = JOB.replace("max_steps = 300", "max_steps = 10");
    write_csv(&films(500), |film| format!("{}.0", class(film)), &folder.path().join("films.csv"));
    train(folder.path(), &text, "run");
    let halves = |film: &Film| if film.user == 7 { "0.5".to_owned() } else { format!("{}.0", class(film)) };
    write_csv(&films(500), halves, &folder.path().join("films.csv"));
    let error =
        job(folder.path(), &text.replace("split = { by = \"user\", eval = 0.2 }", "eval = \"films.csv\""), "wrong");
    let error = error.train().unwrap_err();
    assert!(error.to_string().contains("0.5 is not a class number"), "{error}");
    assert!(error.pointed_at().is_some());
}

#[test]
fn mistakes_point_at_their_cause() {
    let folder = tempfile::tempdir().unwrap();
    write_csv(&films(300), class, &folder.path().join("films.csv"));
    for (from, to, place, wanted) in [
        ("\"seen >= 1700000000\"", "\"seen >= \"", "filter = ", "at character 9"),
        ("\"seen >= 1700000000\"", "\"sene >= 3\"", "filter = ", "sene"),
        ("eval = 0.2 }", "eval = 1.5 }", "split = ", "between 0 and 1"),
        ("by = \"user\"", "by = \"usr\"", "split = { by = ", "usr"),
        ("split = {", "eval = \"x.csv\"\nsplit = {", "split = ", "not both"),
        ("\"log1p\"", "\"log2p\"", "{ clip = [0, 1000] }, ", "log1p"),
        ("[0, 1000]", "[1000, 0]", "clip = ", "smaller"),
        ("quantiles = 5", "quantiles = 5, boundaries = [1]", "quantiles = ", "not both"),
        ("split = \"|\" }\ngenres_hot", "split = \"\" }\ngenres_hot", "num_oov_buckets = 1, split = ", "empty"),
        ("part = \"hour\"", "part = \"second\"", "part = ", "hour"),
        (
            "\"numeric\", default_value = 0,",
            "\"numeric\", part = \"hour\", dtype = \"int64\",",
            "dtype = ",
            "`unit` gives the type",
        ),
        ("\"numeric\", default_value = 0,", "\"numeric\", unit = \"iso\",", "unit = ", "without `part`"),
        (
            "label = \"liked\"\n[columns]\nprice = { kind = \"numeric\",",
            "label = \"liked\"\ndefaults = { price = 3 }\n[columns]\nprice = { kind = \"numeric\", missing_indicator = true,",
            "defaults = { ",
            "default_value",
        ),
        (
            "{ kind = \"timestamp\", key = \"seen\", part = \"hour\" }",
            "{ kind = \"timestamp\", key = \"seen\" }",
            "hour = ",
            "part",
        ),
    ] {
        assert!(JOB.contains(from), "{from}");
        let text = JOB.replacen(from, to, 1);
        let path = folder.path().join("job.toml");
        std::fs::write(&path, &text).unwrap();
        let error = Job::read(&path, Overrides::default()).and_then(|job| job.dry_run()).unwrap_err();
        let at = text.find(place).unwrap_or_else(|| panic!("no {place}")) + place.len();
        let line = text[..at].matches('\n').count() + 1;
        let column = text[..at].rsplit('\n').next().unwrap().chars().count() + 1;
        let report = error.report();
        assert!(error.pointed_at().unwrap().ends_with(&format!("job.toml:{line}:{column}")), "{to}: {report}");
        assert!(report.contains(wanted), "{to}: {report}");
    }
}

#[test]
fn a_dry_run_needs_no_statistics_and_leaves_none() {
    let folder = tempfile::tempdir().unwrap();
    write_csv(&films(300), class, &folder.path().join("films.csv"));
    let lines = well(job(folder.path(), JOB, "run").dry_run());
    assert!(lines.iter().any(|line| line.starts_with("export")), "{lines:?}");
    assert!(!folder.path().join("run").exists());
}
