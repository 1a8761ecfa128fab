//! Jobs from the file to the predictions, in this process.

use crate::common::{JOB, export, predictions, write_data};
pub(crate) use crate::common::{job, train, well};
use phalanx_base::Code;
use phalanx_data::Batch;
use phalanx_formats::{example::ExampleWriter, record::RecordWriter};
use phalanx_jobfile::{Overrides, PredictOptions, TrainedJob};
use std::path::Path;
use std::sync::Arc;

#[test]
fn a_run_directory_and_its_export_predict_the_same_and_are_self_contained() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path());
    // The vocabulary comes from a file, which an export must include.
    std::fs::write(folder.path().join("cities.txt"), "berlin\noslo\nrome\n").unwrap();
    let words = "{ kind = \"vocabulary_list\", vocabulary_list = [\"berlin\", \"oslo\", \"rome\"] }";
    let text = JOB.replace(words, "{ kind = \"vocabulary_file\", vocabulary_file = \"cities.txt\" }");
    let done = train(folder.path(), &text, "run");
    let evaluation = done.report.evaluation.unwrap();
    assert_eq!(evaluation.global_step, 200);
    assert!(evaluation.get("accuracy").unwrap() > 0.85, "{evaluation}");
    assert!(done.steps_per_s.unwrap() > 0.0);

    let (run, input) = (folder.path().join("run"), folder.path().join("test.csv"));
    let ours = predictions(&run, &input);
    assert_eq!(ours.len(), 200);
    assert!(ours[0].contains("\"probabilities\": [") && ours[0].contains("\"classes\": [\""), "{}", ours[0]);
    let exported = export(&run.join("export/final"));

    // Elsewhere, without the job, its data and its run directory.
    let elsewhere = tempfile::tempdir().unwrap();
    let moved = elsewhere.path().join("model");
    std::fs::rename(&exported, &moved).unwrap();
    std::fs::rename(&input, elsewhere.path().join("new.csv")).unwrap();
    drop(folder);
    assert_eq!(predictions(&moved, &elsewhere.path().join("new.csv")), ours);

    // Labels may be missing.
    let rows = std::fs::read_to_string(elsewhere.path().join("new.csv")).unwrap();
    let without: Vec<&str> = rows.lines().map(|line| line.rsplit_once(',').unwrap().0).collect();
    std::fs::write(elsewhere.path().join("bare.csv"), without.join("\n")).unwrap();
    assert_eq!(predictions(&moved, &elsewhere.path().join("bare.csv")), ours);

    // An export evaluates as its run directory did.
    let trained = well(TrainedJob::find(&moved));
    let again = well(
        well(trained.job(Overrides::default()))
            .evaluate(&trained, Some(&elsewhere.path().join("new.csv").to_string_lossy())),
    );
    assert_eq!(again.get("accuracy"), evaluation.get("accuracy"));
}

/// Evaluated on the rows that are trained on as well, and trained by two replicas, which changes nothing.
#[test]
fn a_job_has_several_evaluations_and_a_strategy() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path());
    let more = "[[eval]]\nname = \"seen\"\non = \"train\"\nsteps = \"all\"\n\n[[export]]";
    let text =
        JOB.replace("[eval]", "[[eval]]").replace("[[export]]", more).replace("max_steps = 200", "max_steps = 40");
    let one = train(folder.path(), &text, "one").report;
    let evaluation = one.evaluation.clone().unwrap();
    assert_eq!(
        (evaluation.rows, one.named_evaluations[0].0.as_str(), one.named_evaluations[0].1.rows),
        (200, "seen", 600)
    );
    assert!(folder.path().join("one/eval").exists() && folder.path().join("one/eval_seen").exists());
    let settings = "[train]\nstrategy = \"mirrored:2\"\npartitioner = \"fixed_shards:2\"\nplacement = \"greedy\"\npin = { \"*\" = 0 }";
    let two = train(folder.path(), &text.replace("[train]", settings), "two").report.evaluation.unwrap();
    assert!((two.get("loss").unwrap() - evaluation.get("loss").unwrap()).abs() < 1e-5, "{two} and {evaluation}");
}

#[test]
fn a_pin_to_nothing_names_the_variable_and_the_server() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path());
    let error = |pin: &str| {
        let text = JOB.replace("[train]", &format!("[train]\npin = {{ {pin} }}"));
        job(folder.path(), &text, "run").train().err().unwrap()
    };
    let found = error("\"dnn/*\" = 3");
    assert_eq!((found.code(), found.what()), (Code::NoSuchTask, "\"dnn/*\" is pinned to ps/3, which does not exist"));
    let found = error("\"dmm/*\" = 0");
    let what = "\"dmm/*\" is pinned to ps/0, but the model has no such variable or table";
    assert_eq!((found.code(), found.what()), (Code::NoSuchVariable, what));
}

#[test]
fn a_poisson_regression_predicts_counts() {
    let folder = tempfile::tempdir().unwrap();
    let rows: String = (0..300).map(|i| format!("{},{}\n", i % 3, [1, 3, 8][i % 3] + i / 3 % 2)).collect();
    std::fs::write(folder.path().join("counts.csv"), format!("x,y\n{rows}")).unwrap();
    let text = "[data]\ntrain = \"counts.csv\"\neval = \"counts.csv\"\nlabel = \"y\"\n\n[columns]\nx = { kind = \"numeric\" }\n\n\
        [model]\nkind = \"linear_regressor\"\nhead = \"poisson\"\ncolumns = [\"x\"]\noptimizer = { name = \"adagrad\", learning_rate = 0.3 }\n\n\
        [train]\nmax_steps = 300\nbatch_size = 30\nlog_step_count_steps = 0\n";
    let found = train(folder.path(), text, "run").report.evaluation.unwrap();
    // The mean is in the middle of the counts, and predictions are those counts and not their logarithms.
    assert!((found.get("prediction/mean").unwrap() - found.get("label/mean").unwrap()).abs() < 0.2, "{found}");
}

#[test]
fn an_export_with_the_variables_of_another_graph_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path());
    let other =
        JOB.replace("hidden_units = [16, 8]", "hidden_units = [12, 8]").replace("max_steps = 200", "max_steps = 5");
    train(folder.path(), &JOB.replace("max_steps = 200", "max_steps = 5"), "a");
    train(folder.path(), &other, "b");
    let (a, b) = (export(&folder.path().join("a/export/final")), export(&folder.path().join("b/export/final")));
    std::fs::copy(b.join("saved_model.pb"), a.join("saved_model.pb")).unwrap();
    let trained = well(TrainedJob::find(&a));
    let job = well(trained.job(Overrides::default()));
    let error = job
        .predict(&trained, &folder.path().join("test.csv").to_string_lossy(), &PredictOptions::default(), |_| Ok(()))
        .unwrap_err();
    assert!(error.what().contains("belong to different models"), "{}", error.report());
    // Graph and variables match each other, but not the job.
    std::fs::remove_dir_all(a.join("variables")).unwrap();
    std::fs::rename(b.join("variables"), a.join("variables")).unwrap();
    let error = job
        .predict(&trained, &folder.path().join("test.csv").to_string_lossy(), &PredictOptions::default(), |_| Ok(()))
        .unwrap_err();
    assert!(error.what().contains("another model"), "{}", error.report());
}

#[test]
fn resume_determines_the_use_of_a_run_directory() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path());
    let short = JOB.replace("max_steps = 200", "max_steps = 20");
    train(folder.path(), &short, "a");
    let with = |word: &str, steps: u64| {
        format!("resume = {word:?}\n{}", JOB.replace("max_steps = 200", &format!("max_steps = {steps}")))
    };
    // Already trained: the existing checkpoint is evaluated.
    let again = train(folder.path(), &with("must", 20), "a");
    assert_eq!(again.report.training.unwrap().steps, 0);
    assert_eq!(again.report.evaluation.unwrap().global_step, 20);
    let further = train(folder.path(), &with("auto", 30), "a");
    assert_eq!(further.report.training.unwrap().steps, 10);
    // Another model: a dry run detects it and changes nothing.
    let other = with("auto", 40).replace("hidden_units = [16, 8]", "hidden_units = [9]");
    let error = job(folder.path(), &other, "a").dry_run().unwrap_err();
    assert_eq!(error.code(), phalanx_base::Code::CheckpointMismatch, "{}", error.report());
    let error = job(folder.path(), &with("never", 40), "a").train().unwrap_err();
    assert_eq!(error.code(), phalanx_base::Code::JobResume, "{}", error.report());

    // A new run from the other's checkpoint, with its step, values and slots.
    let from = train(folder.path(), &with("./a", 30), "b");
    assert_eq!(from.report.training.unwrap().steps, 0, "it starts where the other ended");
    let input = folder.path().join("test.csv");
    assert_eq!(predictions(&folder.path().join("b"), &input), predictions(&folder.path().join("a"), &input));
    let from = train(folder.path(), &with("./a", 35), "b");
    assert_eq!(from.report.training.unwrap().steps, 5, "a second start resumes");
    let error = job(folder.path(), &with("./b", 40), "a").train().unwrap_err();
    assert_eq!(error.code(), phalanx_base::Code::JobResume, "{}", error.report());
}

#[test]
fn a_dry_run_leaves_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path());
    let done = well(job(folder.path(), JOB, "run").dry_run());
    assert!(done.iter().any(|line| line.starts_with("export  final")), "{done:?}");
    let mut left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["job.toml", "test.csv", "train.csv"]);
}

/// The rows of a CSV file as one batch.
pub(crate) fn rows(path: &Path) -> Batch {
    let source = phalanx_data::csv(path);
    let data = phalanx_data::Dataset::from(source).batch(10_000);
    data.iter().unwrap().next().unwrap().unwrap()
}

pub(crate) fn write_records(rows: &Batch, path: &Path) {
    let mut writer = RecordWriter::new(Vec::new());
    for row in 0..rows.rows() {
        let text = |name: &str| [rows.bytes(name).unwrap().get(row).to_vec()];
        let example = ExampleWriter::new()
            .f32s("age", &[rows.i64("age").unwrap()[row] as f32])
            .f32s("pay", &[rows.f32("pay").unwrap()[row]])
            .bytes("city", &text("city"))
            .bytes("job", &text("job"))
            .bytes("y", &text("y"))
            .encode();
        writer.write_record(example.as_slice()).unwrap();
    }
    std::fs::write(path, writer.finish().unwrap()).unwrap();
}

pub(crate) fn write_parquet(rows: &Batch, path: &Path) {
    use arrow_array::{ArrayRef, Float32Array, Int64Array, RecordBatch, StringArray};
    let texts = |name: &str| {
        let texts = rows.bytes(name).unwrap();
        Arc::new(StringArray::from_iter_values(texts.iter().map(|text| std::str::from_utf8(text).unwrap()))) as ArrayRef
    };
    let columns = [
        ("age", Arc::new(Int64Array::from(rows.i64("age").unwrap().to_vec())) as ArrayRef),
        ("pay", Arc::new(Float32Array::from(rows.f32("pay").unwrap().to_vec())) as ArrayRef),
        ("city", texts("city")),
        ("job", texts("job")),
        ("y", texts("y")),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let file = std::fs::File::create(path).unwrap();
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

#[test]
fn csv_parquet_and_tfrecord_with_the_same_rows_train_the_same_model() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path());
    for name in ["train", "test"] {
        let rows = rows(&folder.path().join(format!("{name}.csv")));
        write_records(&rows, &folder.path().join(format!("{name}.tfrecord")));
        write_parquet(&rows, &folder.path().join(format!("{name}.parquet")));
    }
    let base = JOB.replace("max_steps = 200", "max_steps = 60");
    let losses = ["csv", "parquet", "tfrecord"].map(|format| {
        let text =
            base.replace(".csv\"", &format!(".{format}\"")).replace("[data]", &format!("[data]\nformat = {format:?}"));
        let done = train(folder.path(), &text, format);
        let input = folder.path().join(format!("test.{format}"));
        assert_eq!(predictions(&folder.path().join(format), &input).len(), 200);
        done.report.evaluation.unwrap().get("average_loss").unwrap()
    });
    assert!((losses[0] - losses[1]).abs() < 1e-6 && (losses[0] - losses[2]).abs() < 1e-6, "{losses:?}");
}

#[test]
fn metrics_on_request_are_the_same_in_every_format_and_group_by_any_column() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path());
    let test = rows(&folder.path().join("test.csv"));
    write_records(&test, &folder.path().join("test.tfrecord"));
    write_parquet(&test, &folder.path().join("test.parquet"));
    let train_rows = rows(&folder.path().join("train.csv"));
    write_records(&train_rows, &folder.path().join("train.tfrecord"));
    write_parquet(&train_rows, &folder.path().join("train.parquet"));
    let found = ["csv", "parquet", "tfrecord"].map(|format| {
        // The groups are a text that no column of the model reads.
        let text = format!(
            "[data]\nformat = {format:?}\ntrain = \"train.{format}\"\neval = \"test.{format}\"\nlabel = \"y\"\n\
             [columns]\nage = {{ kind = \"numeric\", normalizer = {{ divide = 50.0 }} }}\n\
             [model]\nkind = \"linear_classifier\"\ncolumns = [\"age\"]\nlabel_vocabulary = [\"no\", \"yes\"]\n\
             [train]\nmax_steps = 30\nbatch_size = 50\nlog_step_count_steps = 0\n\
             [eval]\nsteps = \"all\"\nmetrics = [\"gauc\", \"calibration\", \"normalized_entropy\"]\ngroup_by = \"city\"\n"
        );
        let evaluation = train(folder.path(), &text, format).report.evaluation.unwrap();
        ["gauc", "auc", "calibration", "normalized_entropy"].map(|name| evaluation.get(name).unwrap())
    });
    let near = |a: [f64; 4], b: [f64; 4]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6);
    assert!(near(found[0], found[1]) && near(found[0], found[2]), "{found:?}");
    let [gauc, auc, calibration, entropy] = found[0];
    assert!((0.6..1.0).contains(&gauc) && gauc != auc, "{gauc} {auc}");
    assert!((0.5..2.0).contains(&calibration) && (0.3..1.0).contains(&entropy), "{calibration} {entropy}");
}

#[test]
fn every_kind_of_model_trains() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path());
    let base = |model: &str, label: &str| {
        format!(
            "[data]\ntrain = \"train.csv\"\neval = \"test.csv\"\nlabel = {label:?}\n\
             [columns]\nage = {{ kind = \"numeric\", normalizer = {{ divide = 50.0 }} }}\n\
             job = {{ kind = \"vocabulary_list\", vocabulary_list = [\"cook\", \"clerk\"] }}\n\
             job_onehot = {{ kind = \"indicator\", column = \"job\" }}\n\
             job_vector = {{ kind = \"embedding\", column = \"job\", dimension = 4 }}\n\
             city = {{ kind = \"hash_bucket\", hash_bucket_size = 10 }}\n\
             city_vector = {{ kind = \"embedding\", column = \"city\", dimension = 4 }}\n\
             [model]\n{model}\n[train]\nmax_steps = 30\nbatch_size = 50\nlog_step_count_steps = 0\n"
        )
    };
    let deep = "columns = [\"age\", \"job_onehot\"]\nhidden_units = [8]";
    let fields = "columns = [\"age\", \"job_vector\", \"city_vector\"]\nlabel_vocabulary = [\"no\", \"yes\"]";
    let models = [
        (format!("kind = \"deepfm_classifier\"\n{fields}\nhidden_units = [8]\nbatch_norm = true\ndnn_optimizer = \"adam\""), "y", "auc"),
        (format!("kind = \"dlrm_classifier\"\n{fields}\nbottom_units = [8, 4]\ntop_units = [8]\ndropout = 0.1"), "y", "auc"),
        (format!("kind = \"fm_classifier\"\n{fields}\noptimizer = \"adam\"\nembedding_l2 = 0.001"), "y", "auc"),
        ("kind = \"fm_regressor\"\ncolumns = [\"age\", \"job_vector\", \"city_vector\"]".to_owned(), "pay", "loss"),
        ("kind = \"mf_regressor\"\nuser = \"job\"\nitem = \"city\"\ndimension = 3\nglobal_mean = 50".to_owned(), "pay", "loss"),
        (format!("kind = \"dnn_regressor\"\noptimizer = \"adam\"\n{deep}"), "pay", "average_loss"),
        ("kind = \"linear_regressor\"\ncolumns = [\"age\", \"job\"]".to_owned(), "pay", "prediction/mean"),
        (format!("kind = \"wide_deep_regressor\"\nlinear_columns = [\"job\"]\n{}", deep.replace("columns", "dnn_columns")), "pay", "loss"),
        ("kind = \"baseline_regressor\"".to_owned(), "pay", "label/mean"),
        (format!("kind = \"dnn_classifier\"\nn_classes = 100\nweight_column = \"pay\"\n{}", deep.replace("\"age\", ", "")), "age", "accuracy"),
        ("kind = \"baseline_classifier\"\nlabel_vocabulary = [\"no\", \"yes\"]\nthresholds = [0.4]".to_owned(), "y", "accuracy/positive_threshold_0.4"),
        ("kind = \"linear_classifier\"\ncolumns = [\"job\"]\nlabel_vocabulary = [\"no\", \"yes\"]\noptimizer = \"sgd\"".to_owned(), "y", "auc"),
    ];
    for (at, (model, label, metric)) in models.into_iter().enumerate() {
        let text = base(&model, label);
        well(job(folder.path(), &text, &format!("run{at}")).dry_run());
        let done = train(folder.path(), &text, &format!("run{at}"));
        let evaluation = done.report.evaluation.unwrap();
        assert!(evaluation.get(metric).is_some_and(f64::is_finite), "{model}: {evaluation}");
    }
}
