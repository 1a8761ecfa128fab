//! `phalanx demo` in scripts.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn demo(words: &[&str], model_dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    command.args(["demo", "--max-steps", "120"]).args(words).arg("--model-dir").arg(model_dir);
    command.env_remove("TF_CONFIG").env_remove("PHALANX_TOKEN").stdin(Stdio::null());
    command
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn json_is_one_line_on_standard_output_and_the_rest_on_standard_error() {
    let dir = tempfile::tempdir().unwrap();
    let model_dir = dir.path().join("model");
    let output = demo(&["--json"], &model_dir).output().unwrap();
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert_eq!((out.lines().count(), out.ends_with('\n')), (1, true), "{out}");
    let printed: Value = serde_json::from_str(&out).unwrap();
    for number in ["auc", "best_auc", "steps_per_s", "first_step_s"] {
        assert!(printed[number].as_f64().is_some_and(|number| number > 0.0), "{number} in {printed}");
    }
    assert_eq!(printed["model_dir"].as_str(), model_dir.to_str());
    assert!(Path::new(printed["export_dir"].as_str().unwrap()).join("saved_model.pb").exists(), "{printed}");
    let codes = printed["exit_codes"].as_object().unwrap();
    let tasks: Vec<&str> = codes.keys().map(String::as_str).collect();
    assert_eq!(tasks, ["chief/0", "worker/0", "worker/1", "ps/0", "ps/1", "evaluator/0"]);
    assert!(codes.values().all(|code| code == 0), "{printed}");
    for part in ["Dashboard http://127.0.0.1:", "chief/0     | step ", "Learned AUC ", "nothing left running"] {
        assert!(err.contains(part), "{part} is missing:\n{err}");
    }
    every_row_has_one_server(&model_dir);
}

/// Checks that `phalanx status --variables` shows a server for every row of the demo's variables, and both servers for its tables.
fn every_row_has_one_server(model_dir: &Path) {
    let mut status = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    let (out, err) = texts(&status.args(["status", "--variables", "--json"]).arg(model_dir).output().unwrap());
    let printed: Value = serde_json::from_str(&out).expect(&err);
    let (tables, variables): (Vec<&Value>, Vec<&Value>) =
        printed["variables"].as_array().unwrap().iter().partition(|one| one["table"] == true);
    assert!(!tables.is_empty() && variables.len() > 3, "{printed}");
    for variable in variables {
        let mut next = 0;
        for shard in variable["shards"].as_array().unwrap() {
            assert!(shard["task"].as_str().unwrap().starts_with("ps/"), "{variable}");
            assert_eq!(shard["rows"][0].as_u64(), Some(next), "{variable}");
            next = shard["rows"][1].as_u64().unwrap();
        }
        assert_eq!(Some(next), variable["shape"][0].as_u64(), "{variable}");
    }
    for table in tables {
        let shards = table["shards"].as_array().unwrap();
        assert_eq!(shards.iter().map(|shard| shard["task"].as_str().unwrap()).collect::<Vec<_>>(), ["ps/0", "ps/1"]);
        assert!(shards.iter().map(|shard| shard["count"].as_u64().unwrap()).sum::<u64>() > 0, "{table}");
    }
}

#[test]
fn a_closed_pipe_stops_no_demo() {
    let dir = tempfile::tempdir().unwrap();
    let mut child =
        demo(&["--no-dashboard"], dir.path()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let (_, err) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert!(!err.contains("Dashboard"), "{err}");
    assert!(dir.path().join("checkpoint").exists());
}

#[test]
fn mistakes_are_reported_before_anything_starts() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let free = dir.path().join("free");
    for (words, model_dir, code, message) in [
        (vec!["--kill", "foo"], &free, 2, "write ps/0@500"),
        (vec!["--kill", "ps/9@5"], &free, 2, "chief/0, worker/0, worker/1, ps/0, ps/1, evaluator/0"),
        (vec!["--kill", "ps/0@120"], &free, 2, "--max-steps 120"),
        (vec![], &file, 138, "--model-dir"),
    ] {
        let output = demo(&words, model_dir).output().unwrap();
        let (out, err) = texts(&output);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {out}{err}");
        assert!(err.contains(message), "{words:?}: {err}");
        assert!(!err.contains("Started"), "{words:?}: {err}");
        assert_eq!(out, "");
    }
    assert!(!free.exists());
}
