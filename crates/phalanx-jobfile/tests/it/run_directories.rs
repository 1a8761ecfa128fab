//! What jobs do to run directories: forks, warm starts, locks, failed saves, and checkpoints for TensorFlow.

use crate::common::{JOB, write_data};
use phalanx_base::{Code, Error};
use phalanx_estimator::EstimatorNames;
use phalanx_jobfile::{Job, Overrides, PredictOptions, TrainedJob, rows_json};
use phalanx_storage::{Dir, Locked};
use std::path::Path;

fn job(folder: &Path, text: &str, model_dir: &str) -> Job {
    let model_dir = Some(folder.join(model_dir).to_string_lossy().into_owned());
    let overrides = Overrides { model_dir, ..Overrides::default() };
    let read = Job::parse("job.toml", text, &folder.to_string_lossy(), overrides);
    read.unwrap_or_else(|error| panic!("{}", error.report()))
}

fn with_steps(steps: u64) -> String {
    JOB.replace("max_steps = 200", &format!("max_steps = {steps}"))
}

fn trained(folder: &Path, text: &str, model_dir: &str) {
    job(folder, text, model_dir).train().unwrap_or_else(|error| panic!("{}", error.report()));
}

fn refused(folder: &Path, text: &str, model_dir: &str) -> Error {
    job(folder, text, model_dir).train().unwrap_err()
}

fn predictions(folder: &Path, model_dir: &str) -> Vec<String> {
    let trained = TrainedJob::ModelDir(folder.join(model_dir));
    let mut rows = Vec::new();
    let each = |batch: &phalanx_data::Batch| {
        rows.extend(rows_json(batch).map(|row| row.to_string()));
        Ok(())
    };
    job(folder, JOB, model_dir)
        .predict(&trained, &folder.join("test.csv").to_string_lossy(), &PredictOptions::default(), each)
        .unwrap();
    rows
}

#[test]
fn a_fork_that_does_not_fit_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path());
    trained(folder.path(), &with_steps(3), "a");
    let other = with_steps(5).replace("hidden_units = [16, 8]", "hidden_units = [9]");
    let error = refused(folder.path(), &format!("resume = \"./a\"\n{other}"), "b");
    assert_eq!(error.code(), Code::CheckpointMismatch, "{}", error.report());
    assert!(!folder.path().join("b").exists());
    // The same directory can be used once the mistake is corrected.
    trained(folder.path(), &format!("resume = \"./a\"\n{}", with_steps(5)), "b");
}

#[test]
fn a_second_training_is_refused_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path());
    trained(folder.path(), &with_steps(3), "a");
    let before = std::fs::read_to_string(folder.path().join("a/job.toml")).unwrap();
    let dir = Dir::local(folder.path().join("a"));
    let Locked::Held(lock) = dir.lock("phalanx.lock", "job x\nprocess 4711 on attic\nchief/0\n").unwrap() else {
        panic!("nobody else has the lock")
    };
    let error = refused(folder.path(), &with_steps(9), "a");
    assert_eq!(error.code(), Code::RunDirInUse, "{}", error.report());
    assert!(error.why().unwrap().contains("process 4711 on attic"), "{}", error.report());
    assert_eq!(std::fs::read_to_string(folder.path().join("a/job.toml")).unwrap(), before);
    drop(lock);
    trained(folder.path(), &with_steps(4), "a");
}

#[test]
fn a_warm_start_must_match_variables() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path());
    trained(folder.path(), &with_steps(3), "a");
    let with = |settings: &str| format!("{}\n[warm_start]\nfrom = \"a\"\n{settings}\n", with_steps(5));
    let nothing = refused(folder.path(), &with("only = [\"dnnn/\"]"), "b");
    assert_eq!(nothing.code(), Code::CheckpointMismatch, "{}", nothing.report());
    assert!(nothing.what().contains("no variable"), "{}", nothing.report());
    assert!(nothing.next().unwrap().contains("dnn/hiddenlayer_0/kernel"), "{}", nothing.report());
    // Each of several must match.
    let one = refused(folder.path(), &with("only = [\"dnn/\", \"linaer/\"]"), "b");
    assert!(one.report().contains("linaer/"), "{}", one.report());
    let rename = refused(folder.path(), &with("rename = { \"dnn/logits/kernle\" = \"dnn/logits/kernel\" }"), "b");
    assert!(rename.next().unwrap().contains("dnn/logits/kernel"), "{}", rename.report());
    assert!(!folder.path().join("b/checkpoint").exists());
    trained(folder.path(), &with("only = [\"dnn/\"]"), "b");
}

#[test]
fn a_failed_save_does_not_end_training_except_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path());
    let text = with_steps(30).replace("shuffle = 600", "shuffle = 600\nsave_checkpoints_steps = 10");
    // An index cannot replace a folder: the save fails as on a full disk.
    let block = |run: &str, step: u64| {
        let index = folder.path().join(run).join(format!("model.ckpt-{step}.index"));
        std::fs::create_dir_all(index.join("in the way")).unwrap();
    };
    block("a", 10);
    trained(folder.path(), &text, "a");
    let state = std::fs::read_to_string(folder.path().join("a/checkpoint")).unwrap();
    assert!(state.contains("model.ckpt-30") && !state.contains("model.ckpt-10\""), "{state}");

    block("b", 30);
    let error = refused(folder.path(), &text, "b");
    assert_eq!((error.code(), error.exit_code()), (Code::StorageWrite, 138), "{}", error.report());
    assert_eq!(error.pointed_at(), None, "no line of the file is to blame: {}", error.report());
}

#[test]
fn a_checkpoint_converted_for_tensorflow_is_continued_like_the_original() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path());
    let momentum = ["ftrl", "adagrad"].iter().fold(with_steps(6), |text, name| {
        text.replace(&format!("name = \"{name}\""), "name = \"sgd\", momentum = 0.9")
    });
    let adam = with_steps(6).replace("name = \"adagrad\"", "name = \"adam\"");
    for (kind, text) in [("plain", with_steps(6)), ("momentum", momentum), ("adam", adam)] {
        let run = |name: &str| format!("{kind}-{name}");
        trained(folder.path(), &text, &run("original"));
        for (name, names) in [("v1", EstimatorNames::V1), ("v2", EstimatorNames::V2)] {
            let job = job(folder.path(), &text, &run("original"));
            let made = job.convert(&folder.path().join(run("original")), names, &folder.path().join(run(name)));
            assert_eq!(made.unwrap().global_step, 6);
            // Nothing is overwritten.
            let again = job.convert(&folder.path().join(run("original")), names, &folder.path().join(run(name)));
            assert_eq!(again.unwrap_err().code(), Code::StorageLocation);
        }
        let further = text.replace("max_steps = 6", "max_steps = 12");
        for name in ["original", "v1", "v2"] {
            trained(folder.path(), &further, &run(name));
        }
        let original = predictions(folder.path(), &run("original"));
        for name in ["v1", "v2"] {
            let close = |(a, b): (&String, &String)| {
                let (a, b) = (numbers(a), numbers(b));
                a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-5)
            };
            let found = predictions(folder.path(), &run(name));
            assert!(found.iter().zip(&original).all(close), "{kind} {name}: {} {}", found[0], original[0]);
        }
    }
}

/// Returns the numbers in a text.
fn numbers(text: &str) -> Vec<f64> {
    let parts = text.split(|c: char| !(c.is_ascii_digit() || "+-.e".contains(c)));
    parts.filter_map(|part| part.parse().ok()).collect()
}

/// Adds a column `age_ns` of ids far beyond what a dense tensor could hold.
fn add_ids(folder: &Path) {
    for name in ["train.csv", "test.csv"] {
        let path = folder.join(name);
        let text = std::fs::read_to_string(&path).unwrap();
        let wide = |(at, line): (usize, &str)| match at {
            0 => format!("{line},age_ns\n"),
            _ => format!("{line},{}\n", line.split(',').next().unwrap().parse::<u64>().unwrap() * 100_000_000_000_000),
        };
        std::fs::write(&path, text.lines().enumerate().map(wide).collect::<String>()).unwrap();
    }
}

#[test]
fn a_table_without_bounds_is_exported_as_what_was_seen() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path());
    let column = "age = { kind = \"numeric\", normalizer = { divide = 50.0 } }\n\
                  age_id = { kind = \"identity\", key = \"age_ns\", num_buckets = \"unbounded\" }\n\
                  age_vector = { kind = \"embedding\", column = \"age_id\", dimension = 4 }";
    add_ids(folder.path());
    let text = with_steps(30)
        .replace("age = { kind = \"numeric\", normalizer = { divide = 50.0 } }", column)
        .replace("\"job_vector\"]", "\"job_vector\", \"age_vector\"]")
        .replace("linear_columns = [", "linear_columns = [\"age_id\", ");
    let done = job(folder.path(), &text, "run").dry_run().unwrap_or_else(|error| panic!("{}", error.report()));
    assert!(done.iter().any(|line| line.starts_with("export")), "{done:?}");
    trained(folder.path(), &text, "run");
    let (input, run) = (folder.path().join("test.csv"), folder.path().join("run"));
    let predicted = |trained: &TrainedJob| {
        let mut rows = Vec::new();
        let job = trained.job(Overrides::default()).unwrap();
        let each = |batch: &phalanx_data::Batch| {
            rows.extend(rows_json(batch).map(|row| row.to_string()));
            Ok(())
        };
        job.predict(trained, &input.to_string_lossy(), &PredictOptions::default(), each).unwrap();
        rows
    };
    let exported = std::fs::read_dir(run.join("export/final")).unwrap().next().unwrap().unwrap().path();
    assert_eq!(predicted(&TrainedJob::Export(exported.clone())), predicted(&TrainedJob::ModelDir(run.clone())));
    let size = std::fs::metadata(exported.join("variables/variables.data-00000-of-00001")).unwrap().len();
    assert!(size < 100_000, "{size} bytes");
    // TensorFlow's Estimator has no such table.
    let error = job(folder.path(), &text, "run").convert(&run, EstimatorNames::V2, &folder.path().join("tf"));
    assert!(error.unwrap_err().what().contains("too large"));
}

#[test]
fn a_column_without_bounds_cannot_be_one_hot() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path());
    add_ids(folder.path());
    let text = JOB
        .replace("\n[model]", "id = { kind = \"identity\", key = \"age_ns\", num_buckets = \"unbounded\" }\n\n[model]")
        .replace("column = \"city\" }", "column = \"id\" }");
    let error = refused(folder.path(), &text, "run");
    assert!(error.what().contains("too many ids to be one-hot"), "{}", error.report());
}
