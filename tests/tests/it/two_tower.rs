//! The example `two_tower` as real processes: alone, as a job by either way of naming its tasks, and when it is asked to stop.

use phalanx_tests::job::{Job, LONG};
use phalanx_tests::process::Task;
use serde_json::Value;
use std::path::Path;

const PROGRAM: &str = env!("CARGO_BIN_EXE_phalanx_two_tower");

/// Returns the steps and the AUC of the line of JSON that a task has printed.
fn result(text: &str) -> (u64, f64) {
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with('{')).collect();
    assert_eq!(lines.len(), 1, "{text}");
    let found: Value = serde_json::from_str(lines[0]).unwrap();
    (found["steps"].as_u64().unwrap(), found["auc"].as_f64().unwrap())
}

fn arguments(dir: &Path, steps: &str, loss: &str) -> Vec<String> {
    ["--model-dir", dir.to_str().unwrap(), "--steps", steps, "--loss", loss].map(str::to_owned).to_vec()
}

fn alone(dir: &Path, steps: &str, loss: &str) -> Task {
    Task::start("alone", Path::new(PROGRAM), &arguments(dir, steps, loss), &[])
}

#[test]
fn one_process_learns_with_either_loss_and_continues() {
    for loss in ["sigmoid", "softmax"] {
        let dir = tempfile::tempdir().unwrap();
        let (steps, first) = result(&alone(dir.path(), "600", loss).expect(0, LONG).text);
        assert_eq!(steps, 600);
        let again = alone(dir.path(), "1800", loss).expect(0, LONG).text;
        assert!(again.contains("the input continues after batch 600"), "{again}");
        let (steps, second) = result(&again);
        assert_eq!(steps, 1800);
        assert!(second > first && second > 0.8, "{loss}: {first}, then {second}");
    }
}

#[test]
fn a_job_learns_the_same_however_its_tasks_are_named() {
    for by_tf_config in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let mut job = Job::new(PROGRAM, 2, 3, &[]);
        job.arguments = arguments(dir.path(), "2000", "sigmoid");
        job.by_tf_config = by_tf_config;
        let mut running = job.start_all();
        for task in running.trainers[1..].iter_mut().chain(&mut running.ps) {
            let text = task.expect(0, LONG).text;
            assert!(!text.contains("auc"), "{text}");
        }
        let (steps, auc) = result(&running.trainers[0].expect(0, LONG).text);
        assert!((2000..2003).contains(&steps) && auc > 0.8, "{steps} steps, AUC {auc}");
    }
}

/// A worker is killed for good, then the chief, which is started again: it finds the model on the servers.
#[test]
fn a_job_goes_on_without_a_killed_worker_and_with_a_new_chief() {
    let dir = tempfile::tempdir().unwrap();
    let mut job = Job::new(PROGRAM, 2, 3, &[]);
    job.arguments = arguments(dir.path(), "6000", "sigmoid");
    let mut running = job.start_all();
    running.trainers[2].wait_for_line(&["takes every 3rd element"], LONG);
    running.trainers[2].kill();
    // A task that trains knows that the job has formed, and tells the next chief, which then waits for nobody else.
    running.trainers[1].wait_for_line(&["takes every 3rd element"], LONG);
    running.trainers[0].wait_for_line(&["takes every 3rd element"], LONG);
    running.trainers[0].kill();
    let mut chief = job.start_trainer(0);
    let text = chief.expect(0, LONG).text;
    assert!(text.contains("continuing"), "{text}");
    let (steps, auc) = result(&text);
    assert!((6000..6003).contains(&steps) && auc > 0.8, "{steps} steps, AUC {auc}");
    running.trainers[1].expect(0, LONG);
    running.ps.iter_mut().for_each(|ps| drop(ps.expect(0, LONG)));
}

#[test]
fn sigterm_saves_and_the_next_run_continues() {
    let dir = tempfile::tempdir().unwrap();
    let mut task = alone(dir.path(), "100000000", "sigmoid");
    task.wait_for_line(&["steps/s"], LONG);
    task.signal(rustix::process::Signal::TERM);
    let text = task.expect(143, LONG).text;
    assert!(text.contains("stopped by SIGTERM") && !text.contains("auc"), "{text}");
    let checkpoint = std::fs::read_to_string(dir.path().join("checkpoint")).unwrap();
    let saved: u64 = checkpoint.lines().next().unwrap().rsplit_once('-').unwrap().1.trim_matches('"').parse().unwrap();
    assert!(saved > 0, "{checkpoint}");
    let (steps, _) = result(&alone(dir.path(), &(saved + 5).to_string(), "sigmoid").expect(0, LONG).text);
    assert_eq!(steps, saved + 5);
}

#[test]
fn an_argument_that_nobody_knows_is_refused() {
    let arguments = ["--job_names=ps".to_owned()];
    let text = Task::start("alone", Path::new(PROGRAM), &arguments, &[]).expect(2, LONG).text;
    assert!(text.contains("--job_names"), "{text}");
    let arguments = ["--worker_hosts=localhost:1", "--job_name=worker", "--task_index=one"].map(str::to_owned);
    let text = Task::start("alone", Path::new(PROGRAM), &arguments, &[]).expect(2, LONG).text;
    assert!(text.contains("not a whole number"), "{text}");
}
