//! `phalanx train`, `eval`, `predict` and `export`, alone and as a cluster.

use phalanx_tests::ports;
use phalanx_tests::process::{End, Task};
use serde_json::{Value, json};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

pub(crate) const PHALANX: &str = env!("CARGO_BIN_EXE_phalanx");

/// How long anything may take on a busy machine.
const LONG: Duration = Duration::from_secs(120);

#[path = "../../../phalanx-jobfile/tests/it/common/mod.rs"]
mod common;

pub(crate) fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    common::write_data(folder.path());
    std::fs::write(folder.path().join("job.toml"), common::JOB).unwrap();
    folder
}

pub(crate) fn run(arguments: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(PHALANX);
    command.args(arguments).current_dir(folder).env_remove("TF_CONFIG").env_remove("PHALANX_TOKEN");
    // A dry run creates its temporary files here.
    std::fs::create_dir_all(folder.join("tmp")).unwrap();
    command.env("TMPDIR", folder.join("tmp")).output().unwrap()
}

pub(crate) fn succeeds(arguments: &[&str], folder: &Path) -> String {
    let output = run(arguments, folder);
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr).into_owned());
    assert!(output.status.success(), "phalanx {arguments:?}:\n{out}{err}");
    out
}

pub(crate) fn object(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn newest(base: &Path) -> PathBuf {
    let found = std::fs::read_dir(base).unwrap().map(|entry| entry.unwrap().path());
    found.max().unwrap()
}

#[test]
fn a_job_is_trained_evaluated_exported_and_predicted_from() {
    let folder = folder();
    let root = folder.path();
    let out =
        succeeds(&["train", "job.toml", "--model-dir", "run", "--max-steps", "150", "--seed", "5", "--json"], root);
    assert_eq!(out.lines().count(), 1, "one line of JSON, and nothing else: {out}");
    let trained = object(&out);
    assert_eq!(trained["global_step"], 150);
    assert!(trained["steps_per_s"].as_f64().unwrap() > 0.0, "{trained}");
    assert!(trained["accuracy"].as_f64().unwrap() > 0.85, "{trained}");
    for metric in [
        "accuracy_baseline",
        "auc",
        "auc_precision_recall",
        "average_loss",
        "label/mean",
        "loss",
        "precision",
        "prediction/mean",
        "recall",
    ] {
        assert!(trained[metric].is_number(), "{metric} is missing in {trained}");
    }

    let found = object(&succeeds(&["eval", "run", "--json"], root));
    assert_eq!(found["accuracy"], trained["accuracy"]);
    // The job itself will do, where it names its model_dir.
    std::fs::write(root.join("named.toml"), format!("model_dir = \"run\"\n{}", common::JOB)).unwrap();
    assert_eq!(object(&succeeds(&["eval", "named.toml", "--json"], root)), found);
    let ours = succeeds(&["predict", "run", "--input", "test.csv", "--json"], root);
    assert_eq!(ours.lines().count(), 200);
    let row = object(ours.lines().next().unwrap());
    assert_eq!(row["probabilities"].as_array().unwrap().len(), 2);
    assert!(["no", "yes"].contains(&row["classes"][0].as_str().unwrap()));

    // The export that training made, and one that is made now.
    let exported = newest(&root.join("run/export/final"));
    let manual = succeeds(&["export", "run", "--to", "models", "--json"], root);
    let manual = object(&manual);
    assert_eq!(manual["checked"], true);
    for export in [exported.to_str().unwrap(), manual["export"].as_str().unwrap()] {
        assert_eq!(succeeds(&["predict", export, "--input", "test.csv", "--json"], root), ours);
    }
    let text = succeeds(&["predict", "run", "--input", "test.csv"], root);
    assert!(text.lines().next().unwrap().contains("probabilities"), "{text}");

    // Again: nothing is left to train, and the line of JSON is printed anyway.
    let again = object(&succeeds(
        &["train", "job.toml", "--model-dir", "run", "--max-steps", "150", "--seed", "5", "--json"],
        root,
    ));
    assert_eq!(again["accuracy"], trained["accuracy"]);
}

#[test]
fn a_dry_run_does_one_of_everything_and_leaves_no_trace() {
    let folder = folder();
    let root = folder.path();
    let out = succeeds(&["train", "job.toml", "--model-dir", "run", "--dry-run"], root);
    for word in ["train   1 step", "eval    1 batch", "export  final", "nothing was left behind"] {
        assert!(out.contains(word), "{word:?} is not in\n{out}");
    }
    let names = |folder: &Path| {
        let mut names: Vec<String> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(names(root), ["job.toml", "test.csv", "tmp", "train.csv"]);
    assert!(names(&root.join("tmp")).is_empty(), "{:?}", names(&root.join("tmp")));
}

#[test]
fn mistakes_have_a_position_a_fix_and_an_exit_code() {
    let folder = folder();
    let root = folder.path();
    std::fs::write(root.join("job.toml"), common::JOB.replace("max_steps", "max_step")).unwrap();
    let output = run(&["train", "job.toml", "--json"], root);
    assert_eq!(output.status.code(), Some(2));
    let error = &object(&String::from_utf8(output.stdout).unwrap())["error"];
    assert_eq!(error["code"], "PX0114");
    assert!(error["place"].as_str().unwrap().starts_with("job.toml:2"), "{error}");
    assert!(error["help"].as_str().unwrap().contains("max_steps"), "{error}");
    let shown = String::from_utf8(output.stderr).unwrap();
    assert!(shown.contains("^^^^^^^^ nothing reads this"), "{shown}");
    for wrong in [&["predict", "nowhere", "--input", "test.csv"][..], &["eval", "."], &["train"]] {
        let output = run(wrong, root);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{wrong:?}");
    }
}

#[test]
fn the_example_and_the_schema_are_printed() {
    let folder = folder();
    let example = succeeds(&["train", "--init"], folder.path());
    std::fs::write(folder.path().join("shop.toml"), &example).unwrap();
    // It is a valid job; only its data is missing.
    let output = run(&["train", "shop.toml", "--dry-run"], folder.path());
    let shown = String::from_utf8(output.stderr).unwrap();
    assert!(shown.contains("PX0401") && shown.contains("shop.toml:"), "{shown}");
    let schema = object(&succeeds(&["train", "--schema"], folder.path()));
    assert!(schema["properties"]["train"]["properties"]["max_steps"].is_object());
}

/// The last line of JSON that a task printed.
fn printed(end: &End) -> Value {
    let line = end.text.lines().rev().find(|line| line.starts_with('{'));
    object(line.unwrap_or_else(|| panic!("no JSON in\n{}", end.text)))
}

#[test]
fn every_task_of_a_cluster_runs_the_same_command_and_ends_by_itself() {
    let folder = folder();
    let root = folder.path();
    let address = || format!("127.0.0.1:{}", ports::free());
    let cluster = json!({"chief": [address()], "worker": [address()], "ps": [address()]});
    let model_dir = root.join("run").to_str().unwrap().to_owned();
    let arguments: Vec<String> =
        ["train", root.join("job.toml").to_str().unwrap(), "--model-dir", &model_dir, "--json"]
            .map(str::to_owned)
            .to_vec();
    let start = |role: &str| {
        let tf_config = json!({"cluster": cluster, "task": {"type": role, "index": 0}}).to_string();
        Task::start(role, Path::new(PHALANX), &arguments, &[("TF_CONFIG", tf_config)])
    };
    let mut tasks = ["ps", "worker", "evaluator", "chief"].map(start);
    let ends = tasks.each_mut().map(|task| task.expect(0, LONG));
    let [ps, worker, evaluator, chief] = &ends;
    assert_eq!(printed(ps)["task"], "ps/0");
    assert_eq!(printed(worker)["task"], "worker/0");
    let steps = printed(chief)["steps"].as_u64().unwrap() + printed(worker)["steps"].as_u64().unwrap();
    assert!((200..204).contains(&steps), "{steps} steps");
    assert!(printed(chief)["steps_per_s"].as_f64().unwrap() > 0.0);
    let found = printed(evaluator);
    assert!(found["global_step"].as_u64().unwrap() >= 200, "{found}");
    assert!(found["accuracy"].as_f64().unwrap() > 0.8, "{found}");

    // The evaluator exported the last checkpoint; both predict the same.
    let ours = succeeds(&["predict", &model_dir, "--input", "test.csv", "--json"], root);
    let export = newest(&root.join("run/export/final"));
    assert_eq!(succeeds(&["predict", export.to_str().unwrap(), "--input", "test.csv", "--json"], root), ours);
}

#[test]
fn a_mistake_that_only_trainers_can_see_ends_every_task() {
    let folder = folder();
    let root = folder.path();
    std::fs::write(root.join("job.toml"), common::JOB.replace("train.csv", "trian.csv")).unwrap();
    let address = || format!("127.0.0.1:{}", ports::free());
    let cluster = json!({"chief": [address()], "worker": [address()], "ps": [address()]});
    let arguments =
        ["train", root.join("job.toml").to_str().unwrap(), "--model-dir", root.join("run").to_str().unwrap()]
            .map(str::to_owned);
    let start = |role: &str| {
        let tf_config = json!({"cluster": cluster, "task": {"type": role, "index": 0}}).to_string();
        Task::start(role, Path::new(PHALANX), &arguments, &[("TF_CONFIG", tf_config)])
    };
    let mut ps = start("ps");
    // The server must be up before the trainers, so that it hears of their failure.
    let (address, began) = (cluster["ps"][0].as_str().unwrap(), Instant::now());
    while TcpStream::connect(address).is_err() {
        assert!(began.elapsed() < LONG, "the server does not listen:\n{}", ps.text());
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut trainers = ["worker", "chief"].map(start);
    for trainer in &mut trainers {
        let end = trainer.expect(1, LONG);
        assert!(end.text.contains("PX0401") && end.text.contains("job.toml:5:9"), "{}", end.text);
    }
    // The server needs no data; the chief reports the failure to it.
    let end = ps.expect(1, LONG);
    assert!(end.text.contains("PX0401"), "{}", end.text);
}

#[test]
fn the_root_cause_is_the_task_that_failed_and_not_one_that_relayed_it() {
    let folder = folder();
    let root = folder.path();
    succeeds(&["train", "job.toml", "--model-dir", "run", "--max-steps", "20"], root);
    // Only the chief reads the checkpoint and finds that it is of another model; the others relay that and exit first.
    std::fs::remove_file(root.join("run/job.toml")).unwrap();
    let other = "[data]\ntrain = \"line.csv\"\neval = \"line.csv\"\nlabel = \"y\"\n[columns]\nx = { kind = \"numeric\" }\n\
                 [model]\nkind = \"linear_regressor\"\ncolumns = [\"x\"]\n[train]\nmax_steps = 1000\nbatch_size = 2\n";
    std::fs::write(root.join("other.toml"), other).unwrap();
    std::fs::write(root.join("line.csv"), "x,y\n1,2\n2,3\n3,4\n4,5\n").unwrap();
    let flags = ["launch", "--ps", "2", "--workers", "1", "--no-dashboard", "--run-dir", "logs", "--", PHALANX];
    let output = run(&[&flags[..], &["train", "other.toml", "--model-dir", "run"]].concat(), root);
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    let report = err.split_once("job FAILED").unwrap_or_else(|| panic!("{err}")).1;
    assert!(report.contains("root cause    chief/0: exit code 1"), "{err}");
    assert!(report.contains("PX0513"), "{err}");
}

#[test]
fn the_census_job_learns_the_census() {
    let Some(data) = std::env::var_os("PHALANX_DATA_DIR") else {
        eprintln!("skipped: needs data (PHALANX_DATA_DIR/census)");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let data = Path::new(&data).join("census");
    let jobs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../jobs");
    for (job, least) in [("census.toml", 0.835), ("census_linear.toml", 0.82), ("census_dnn.toml", 0.83)] {
        let (job, data) = (jobs.join(job), data.to_str().unwrap());
        let model_dir = folder.path().join(job.file_stem().unwrap());
        let arguments = [
            "train",
            job.to_str().unwrap(),
            "--data-dir",
            data,
            "--model-dir",
            model_dir.to_str().unwrap(),
            "--max-steps",
            "600",
            "--json",
        ];
        let found = object(&succeeds(&arguments, folder.path()));
        assert!(found["accuracy"].as_f64().unwrap() >= least, "{}: {found}", job.display());
    }
}
