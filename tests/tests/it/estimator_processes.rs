//! An estimator's job as processes: every role ends by itself, also when the chief was killed in the middle.

use phalanx_tests::job::{Job, LONG};
use phalanx_tests::process::Task;
use std::path::Path;

const PROGRAM: &str = env!("CARGO_BIN_EXE_phalanx_estimator_task");

fn job(model_dir: &Path, more: &[&str]) -> Job {
    job_of(2, 2, model_dir, more)
}

fn job_of(ps: usize, trainers: usize, model_dir: &Path, more: &[&str]) -> Job {
    let dir = format!("--model-dir={}", model_dir.display());
    let mut arguments = vec![dir.as_str()];
    arguments.extend(more);
    let mut job = Job::new(PROGRAM, ps, trainers, &arguments);
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

/// Nobody waits for a trainer that is dead, and one that is started again begins where the slowest is.
#[test]
fn trainers_that_wait_for_each_other_go_on_without_a_killed_one_and_with_a_new_one() {
    for strategy in ["--strategy=parameter_server:ssp:1", "--strategy=parameter_server:sync"] {
        let folder = tempfile::tempdir().unwrap();
        let job = job_of(2, 3, folder.path(), &["--max-steps=400", "--step-ms=4", "--lease-ms=1000", strategy]);
        let mut running = job.start_all();
        running.trainers[0].wait_for_line(&["chief/0: step ", "steps/s"], LONG);
        assert_eq!(running.trainers[1].kill().code, None, "{strategy}");
        running.trainers[0].wait_for_line(&["worker/0 is lost"], LONG);
        let before = running.trainers[0].text().matches("steps/s").count();
        let chief = &running.trainers[0];
        chief.wait_for_line(&["chief/0: step ", "steps/s"], LONG);
        running.trainers[1] = job.start_trainer(1);
        let chief = running.expect_good_end_without(&[1], LONG);
        assert!(chief.text.contains("chief/0 is done: 40"), "{strategy}: {}", chief.text);
        assert!(chief.text.matches("steps/s").count() > before, "{strategy}: {}", chief.text);
    }
}

#[test]
fn mirrored_workers_end_by_themselves_and_with_an_error_when_one_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut good = job_of(0, 2, &folder.path().join("good"), &["--max-steps=60"]);
    let status = folder.path().join("status");
    std::fs::create_dir(&status).unwrap();
    good.environment.push(("PHALANX_STATUS_DIR", status.to_string_lossy().into_owned()));
    let (mut evaluator, mut running) = (start_evaluator(&good), good.start_all());
    let worker = running.trainers[1].expect(0, LONG).text;
    assert!(worker.contains("worker/0: restored") && !worker.contains("chief/0"), "it logs as itself: {worker}");
    let chief = running.trainers[0].expect(0, LONG);
    let mut files: Vec<String> = std::fs::read_dir(&status)
        .unwrap()
        .map(|file| file.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    files.sort();
    assert_eq!(files, ["chief-0.json", "chief-0.placement", "worker-0.json", "worker-0.placement"]);
    assert!(chief.text.contains("chief/0 is done: 60 steps, 60 of them here"), "{}", chief.text);
    assert!(evaluator.expect(0, LONG).text.contains("evaluator/0 is done; average_loss = 0."));

    let job = job_of(0, 2, &folder.path().join("bad"), &["--max-steps=100000", "--step-ms=4"]);
    let mut running = job.start_all();
    running.trainers[0].wait_for_line(&["chief/0: step ", "steps/s"], LONG);
    running.trainers[1].kill();
    let chief = running.trainers[0].wait(LONG);
    assert!(chief.code.is_some_and(|code| code != 0), "{chief:?}");
    assert!(chief.text.contains("worker/0"), "the lost worker is named: {}", chief.text);
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
