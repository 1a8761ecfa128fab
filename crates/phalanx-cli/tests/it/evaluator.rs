//! Evaluators that do not know the training cluster, by the literal texts of TensorFlow's guide to parameter servers; and tasks on
//! the wrong machine.

use crate::jobs::{PHALANX, folder, object, succeeds};
use std::process::Command;

#[test]
fn an_evaluator_alone_evaluates_what_others_trained() {
    let folder = folder();
    let root = folder.path();
    let trained = object(&succeeds(&["train", "job.toml", "--model-dir", "run", "--max-steps", "20", "--json"], root));
    for text in [
        r#"{"cluster": {"evaluator": ["host7:2222"]}, "task": {"type": "evaluator", "index": 0}}"#,
        r#"{"task": {"type": "evaluator", "index": 0}}"#,
        r#"{"task": {"type": "evaluator"}, "model_dir": "MODEL"}"#,
    ] {
        let model_dir = root.join("run").display().to_string();
        let mut command = Command::new(PHALANX);
        command.args(["train", "job.toml", "--max-steps", "20", "--json"]).current_dir(root);
        if !text.contains("model_dir") {
            command.args(["--model-dir", "run"]);
        }
        let output = command.env("TF_CONFIG", text.replace("MODEL", &model_dir)).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}: {err}");
        let found = object(&String::from_utf8_lossy(&output.stdout));
        assert_eq!((&found["task"], &found["accuracy"]), (&"evaluator/0".into(), &trained["accuracy"]), "{text}");
        assert!(!err.contains("warning"), "{err}");
    }
}

/// The trainer on the master's machine gets the task `worker` 0 in the documentation of a training platform.
#[test]
fn a_worker_on_the_masters_machine_is_asked_whether_it_is_the_master() {
    let text = r#"{"cluster": {"master": ["127.0.0.1:2223"], "ps": ["127.0.0.1:2222", "192.0.2.1:2222"],
        "worker": ["192.0.2.1:2223"]}, "task": {"type": "worker", "index": 0}, "environment": "cloud"}"#;
    let output = Command::new(PHALANX).arg("doctor").env("TF_CONFIG", text).output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(out.contains("this machine is not the one of worker/0"), "{out}");
    assert!(out.contains(r#"fix: did you mean {"type": "master", "index": 0}?"#), "{out}");
    let right = text.replace(r#"{"type": "worker""#, r#"{"type": "master""#);
    let output = Command::new(PHALANX).arg("doctor").env("TF_CONFIG", right).output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(!out.contains("did you mean"), "{out}");
}
