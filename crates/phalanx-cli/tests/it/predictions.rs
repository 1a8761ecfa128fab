//! `phalanx predict` and `explain`: what they write, from files and standard input, and that a failure leaves no file.

use crate::jobs::{PHALANX, folder, object, run, succeeds};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Trains the job of the folder for a few steps.
fn trained() -> tempfile::TempDir {
    let folder = folder();
    succeeds(&["train", "job.toml", "--model-dir", "run", "--max-steps", "150"], folder.path());
    folder
}

fn names(folder: &Path) -> Vec<String> {
    let all = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut all: Vec<String> = all.collect();
    all.sort();
    all
}

#[test]
fn predictions_are_written_as_csv_json_lines_and_parquet_with_an_id() {
    let folder = trained();
    let root = folder.path();
    let plain = succeeds(&["predict", "run", "--input", "test.csv", "--json"], root);
    let predict = |more: &[&str]| {
        let all = [&["predict", "run", "--input", "test.csv", "--id", "name"], more].concat();
        succeeds(&all, root)
    };
    let lines = predict(&["--json"]);
    assert_eq!((lines.lines().count(), plain.lines().count()), (200, 200));
    for (line, plain) in lines.lines().zip(plain.lines()) {
        let (mut row, plain) = (object(line), object(plain));
        let id = row.as_object_mut().unwrap().remove("name").unwrap();
        assert!(id.as_str().unwrap().starts_with('n'), "{id}");
        assert_eq!(row, plain, "the id changes nothing else");
    }
    assert_eq!(predict(&["--output", "a.jsonl"]), "");
    assert_eq!(std::fs::read_to_string(root.join("a.jsonl")).unwrap(), lines);

    let csv = predict(&["--format", "csv"]);
    predict(&["--output", "a.csv"]);
    assert_eq!(std::fs::read_to_string(root.join("a.csv")).unwrap(), csv);
    let mut rows = csv.lines();
    assert_eq!(rows.next(), Some("name,logits,logistic,probabilities_0,probabilities_1,class_ids,classes"));
    let first: Vec<&str> = rows.next().unwrap().split(',').collect();
    let expected = object(lines.lines().next().unwrap());
    assert_eq!((first.len(), first[0]), (7, expected["name"].as_str().unwrap()));
    assert_eq!(first[4].parse::<f64>().unwrap(), expected["probabilities"][1].as_f64().unwrap());
    assert_eq!(rows.count(), 199);

    predict(&["--output", "a.parquet"]);
    let stats = std::fs::read(root.join("a.parquet")).unwrap();
    assert!(stats.starts_with(b"PAR1") && stats.ends_with(b"PAR1"), "a whole file");
    let text = predict(&[]);
    assert!(text.lines().all(|line| line.starts_with('n') && line.contains("\tprobabilities ")), "{text}");
}

#[test]
fn standard_input_predicts_as_the_file_does() {
    let folder = trained();
    let root = folder.path();
    let expected = succeeds(&["predict", "run", "--input", "test.csv", "--json"], root);
    let mut child = Command::new(PHALANX)
        .args(["predict", "run", "--input", "-", "--json"])
        .current_dir(root)
        .env_remove("TF_CONFIG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let rows = std::fs::read(root.join("test.csv")).unwrap();
    child.stdin.take().unwrap().write_all(&rows).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}

#[test]
fn a_failure_leaves_no_file_and_keeps_the_one_that_was_there() {
    let folder = trained();
    let root = folder.path();
    // The last row has no number where one is needed.
    let rows = std::fs::read_to_string(root.join("test.csv")).unwrap();
    let bad = format!("age,pay,city,job,name,y\n{}x,1.0,oslo,cook,n,no\n", rows.split_once('\n').unwrap().1.repeat(4));
    std::fs::write(root.join("bad.csv"), bad).unwrap();
    std::fs::write(root.join("old.csv"), "old").unwrap();
    let before = names(root);
    for output in ["new.csv", "old.csv", "new.jsonl", "new.parquet"] {
        let failed = run(&["predict", "run", "--input", "bad.csv", "--output", output], root);
        assert_eq!(failed.status.code(), Some(1), "{}", String::from_utf8_lossy(&failed.stderr));
        assert_eq!(names(root), before, "{output}");
    }
    assert_eq!(std::fs::read_to_string(root.join("old.csv")).unwrap(), "old");
    let failed = run(&["predict", "run", "--input", "bad.csv", "--format", "csv"], root);
    assert_eq!(failed.status.code(), Some(1), "rows on standard output end with an error");
    assert!(String::from_utf8_lossy(&failed.stderr).contains("bad.csv"));
}

#[test]
fn wrong_arguments_of_predict_are_refused_with_the_reason() {
    let folder = trained();
    let root = folder.path();
    for (more, code, says) in [
        (&["--format", "parquet"][..], 2, "--output predictions.parquet"),
        (&["--output", "scores"], 2, "--format"),
        (&["--output", "none/scores.csv"], 2, "there is no folder"),
        (&["--output", "test.csv"], 2, "the same file"),
        (&["--id", "pay"], 1, "rounds large numbers"),
        (&["--id", "nmae"], 1, "did you mean \"name\""),
    ] {
        let failed = run(&[&["predict", "run", "--input", "test.csv"], more].concat(), root);
        let says_this = String::from_utf8_lossy(&failed.stderr).into_owned();
        assert_eq!(failed.status.code(), Some(code), "{more:?}: {says_this}");
        assert!(says_this.contains(says), "{more:?}: {says_this}");
    }
}

#[test]
fn explain_finds_the_inputs_that_the_label_depends_on() {
    let folder = trained();
    let root = folder.path();
    let explain = |more: &[&str]| succeeds(&[&["explain", "run", "--json"], more].concat(), root);
    let found = object(&explain(&["--input", "test.csv"]));
    assert_eq!((found["metric"].as_str(), found["rows"].as_u64()), (Some("auc"), Some(200)));
    assert!(found["before"].as_f64().unwrap() > 0.85, "{found}");
    let columns = found["columns"].as_array().unwrap();
    let order: Vec<&str> = columns.iter().map(|column| column["column"].as_str().unwrap()).collect();
    assert!(order.starts_with(&["pay", "age"]) && order.len() == 4, "{found}");
    assert!(columns[0]["difference"].as_f64().unwrap() < -0.1, "{found}");
    assert_eq!(object(&explain(&[])), found, "the job's own files, and the same seed");
    assert_ne!(object(&explain(&["--seed", "9"])), found);
    let text = succeeds(&["explain", "run", "--metric", "average_loss", "--rows", "50"], root);
    assert!(text.starts_with("average_loss of 50 rows\ncolumn  before    after     difference\n"), "{text}");
    let failed = run(&["explain", "run", "--metric", "aucc"], root);
    assert!(String::from_utf8_lossy(&failed.stderr).contains("accuracy"), "{failed:?}");
}

#[test]
fn an_evaluation_that_did_not_reach_the_end_says_so() {
    let folder = trained();
    let root = folder.path();
    let job = std::fs::read_to_string(root.join("run/job.toml")).unwrap();
    std::fs::write(root.join("run/job.toml"), job.replace("steps = \"all\"", "steps = 1")).unwrap();
    let output = run(&["eval", "run"], root);
    let remark = String::from_utf8(output.stderr).unwrap();
    assert!(remark.contains("only the first 1 batches (100 rows) were evaluated"), "{remark}");
    assert!(remark.contains("steps = \"all\""), "{remark}");
    assert_eq!(object(&succeeds(&["eval", "run", "--json"], root))["reached_end"], false);
    // Two batches of 100 are the whole set.
    std::fs::write(root.join("run/job.toml"), job.replace("steps = \"all\"", "steps = 2")).unwrap();
    let output = run(&["eval", "run", "--json"], root);
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    assert!(object(&String::from_utf8(output.stdout).unwrap()).get("reached_end").is_none());
}
