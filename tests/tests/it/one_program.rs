//! The example `one_program` under every strategy, as real processes: the program is the same, and so is what it learns.

use phalanx_tests::job::{Job, LONG};
use phalanx_tests::process::Task;
use serde_json::Value;
use std::path::Path;

const PROGRAM: &str = env!("CARGO_BIN_EXE_phalanx_one_program");

/// Returns the line of JSON that a task has printed.
fn result(text: &str) -> Value {
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with('{')).collect();
    assert_eq!(lines.len(), 1, "{text}");
    serde_json::from_str(lines[0]).unwrap()
}

/// Runs the program in one process.
fn alone(name: &str, more: &[&str]) -> Value {
    let arguments: Vec<String> = [&["--strategy", name], more].concat().iter().map(|&word| word.to_owned()).collect();
    result(&Task::start("alone", Path::new(PROGRAM), &arguments, &[]).expect(0, LONG).text)
}

/// Runs the program as every task of a job, and returns what the chief has printed; nobody else prints a result.
fn job(name: &str, ps: usize, trainers: usize, more: &[&str]) -> Value {
    let mut job = Job::new(PROGRAM, ps, trainers, &[&["--strategy", name], more].concat());
    job.by_tf_config = true;
    let mut running = job.start_all();
    for task in running.trainers[1..].iter_mut().chain(&mut running.ps) {
        let text = task.expect(0, LONG).text;
        assert!(!text.contains("accuracy"), "{text}");
    }
    result(&running.trainers[0].expect(0, LONG).text)
}

fn check(more: &[&str]) {
    let wanted = alone("default", more);
    assert!(wanted["accuracy"].as_f64().unwrap() > 0.9, "{wanted}");
    assert_eq!(wanted["steps"], 600, "{wanted}");
    let number = |of: &Value, key: &str| of[key].as_f64().unwrap();
    let found = [
        alone("one_device:cpu", more),
        alone("mirrored:2", more),
        alone("central_storage:2", more),
        alone("parameter_server:sync", more),
        job("multi_worker_mirrored", 0, 2, more),
        job("parameter_server:sync", 2, 3, more),
    ];
    for found in found {
        assert!((number(&found, "loss") - number(&wanted, "loss")).abs() < 1e-5, "{found} is not {wanted}");
        assert_eq!((&found["accuracy"], &found["steps"]), (&wanted["accuracy"], &wanted["steps"]), "{found}");
    }
    for name in ["parameter_server:async", "parameter_server:ssp:2"] {
        let found = job(name, 2, 3, more);
        assert_eq!(found["strategy"], name);
        // A custom loop has three trainers, each with a share of 640 rows: seven batches, the last of which is smaller.
        let steps = if more.contains(&"--loop") { 30 * 3 * 7 } else { 600 };
        assert_eq!(found["steps"], steps, "{found}");
        assert!((number(&found, "accuracy") - number(&wanted, "accuracy")).abs() < 0.05, "{found} is not {wanted}");
    }
}

#[test]
fn fit_learns_the_same_under_every_strategy() {
    check(&[]);
}

#[test]
fn a_custom_loop_learns_the_same_under_every_strategy() {
    check(&["--loop"]);
}
