//! An estimator's job as processes: every role ends by itself, also when the chief was killed in the middle.

use phalanx_tests::job::{Job, LONG};
use phalanx_tests::process::Task;
use std::path::Path;

const PROGRAM: &str = env!("CARGO_BIN_EXE_phalanx_estimator_task");

fn job(model_dir: &Path, more: &[&str]) -> Job {
    let dir = format!("--model-dir={}", model_dir.display());
    let mut arguments = vec![dir.as_str()];
    arguments.extend(more);
    let mut job = Job::new(PROGRAM, 2, 2, &arguments);
    job.by_tf_config = true;
    job
}

fn start_evaluator(job: &Job) -> Task {
    let environment = [("TF_CONFIG", job.tf_config("evaluator", 0))];
    Task::start("evaluator/0", &job.program, &job.arguments, &environment)
}

#[test]
fn every_role_exits_with_code_0() {
    let folder = tempfile::tempdir().unwrap();
    let job = job(folder.path(), &["--max-steps=300"]);
    let (mut evaluator, running) = (start_evaluator(&job), job.start_all());
    let chief = running.expect_good_end(LONG);
    assert!(chief.text.contains("chief/0 is done: 30"), "{}", chief.text);
    let end = evaluator.expect(0, LONG);
    assert!(end.text.contains("evaluator/0 is done; average_loss = 0."), "{}", end.text);
}

#[test]
fn an_evaluator_outlives_a_killed_chief_and_ends_with_the_one_that_is_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let job = job(folder.path(), &["--max-steps=600", "--step-ms=10", "--lease-ms=1000"]);
    let (mut evaluator, mut running) = (start_evaluator(&job), job.start_all());
    evaluator.wait_for_line(&["evaluated step "], LONG);
    // It logs a line every 20 steps or a few more: those of the worker count too.
    running.trainers[0].wait_for_line(&["chief/0: step ", "steps/s"], LONG);
    assert_eq!(running.trainers[0].kill().code, None, "SIGKILL ends a process without a code");
    let before = evaluator.text().lines().count();
    running.trainers[0] = job.start_trainer(0);
    let chief = running.expect_good_end(LONG);
    assert!(chief.text.contains("chief/0 is done: 60"), "{}", chief.text);
    let end = evaluator.expect(0, LONG);
    assert!(end.text.lines().count() > before, "nothing was evaluated after the kill:\n{}", end.text);
    let last = end.text.lines().rfind(|line| line.starts_with("evaluated step ")).expect("evaluations");
    assert!(last.starts_with("evaluated step 60"), "{last}");
}
