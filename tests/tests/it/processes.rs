//! A job's tasks as real processes: how it ends, and what becomes of it when some of them are killed.

use phalanx_tests::job::{Job, LONG, Running};
use rustix::process::Signal;
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_phalanx_test_task");

fn ends_by_itself(job: &Job) {
    let chief = job.start_all().expect_good_end(LONG);
    assert!(chief.text.contains("done: "), "{}", chief.text);
}

#[test]
fn an_asynchronous_job_ends_by_itself_and_nobody_stays() {
    ends_by_itself(&Job::new(PROGRAM, 2, 2, &["--max-steps=200"]));
}

#[test]
fn a_synchronous_job_ends_by_itself_and_nobody_stays() {
    ends_by_itself(&Job::new(PROGRAM, 2, 2, &["--max-steps=100", "--sync"]));
}

#[test]
fn tf_config_means_the_same_as_flags() {
    let mut job = Job::new(PROGRAM, 2, 2, &["--max-steps=200"]);
    job.by_tf_config = true;
    ends_by_itself(&job);
}

/// Kills the worker in the middle; the others finish the job.
fn survives_a_killed_worker(job: &Job) -> Running {
    let mut running = job.start_all();
    running.wait_until_training();
    let mut worker = running.trainers.remove(1);
    assert_eq!(worker.kill().code, None, "SIGKILL ends a process without a code");
    running
}

#[test]
fn an_asynchronous_job_survives_a_killed_worker() {
    let job = Job::new(PROGRAM, 2, 2, &["--max-steps=300", "--step-ms=10", "--lease-ms=2000"]);
    survives_a_killed_worker(&job).expect_good_end(LONG);
}

#[test]
fn a_synchronous_job_survives_a_killed_worker() {
    let job = Job::new(PROGRAM, 2, 2, &["--max-steps=100", "--step-ms=10", "--lease-ms=2000", "--sync"]);
    survives_a_killed_worker(&job).expect_good_end(LONG);
}

#[test]
fn a_killed_worker_that_is_started_again_rejoins() {
    let job = Job::new(PROGRAM, 2, 2, &["--max-steps=400", "--step-ms=20", "--lease-ms=1000"]);
    let mut running = survives_a_killed_worker(&job);
    let again = job.start_trainer(1);
    again.wait_for_line(&["own step 20,"], LONG);
    running.trainers.push(again);
    running.expect_good_end(LONG);
}

/// Nobody starts a worker again here, as with `--restart worker=never`.
#[test]
fn a_chief_that_is_stopped_again_and_again_throws_nobody_out() {
    for arguments in [&["--max-steps=1500"][..], &["--max-steps=300", "--sync"]] {
        let job = Job::new(PROGRAM, 2, 2, &[arguments, &["--step-ms=10", "--lease-ms=1000"]].concat());
        let running = job.start_all();
        running.wait_until_training();
        for _ in 0..4 {
            running.trainers[0].stop_for(Duration::from_millis(1500));
            running.trainers[0].run_for(Duration::from_millis(300));
        }
        let chief = running.expect_good_end(LONG);
        assert!(!chief.text.contains("is lost"), "{}", chief.text);
    }
}

fn a_signal_ends_the_job(signal: Signal, code: i32) {
    let job = Job::new(PROGRAM, 2, 2, &["--max-steps=1000000", "--step-ms=5"]);
    let mut running = job.start_all();
    running.wait_until_training();
    running.trainers[0].signal(signal);
    let end = running.trainers[0].expect(code, LONG);
    assert!(end.text.contains("stopped by"), "{}", end.text);
    for task in running.trainers.iter_mut().skip(1).chain(&mut running.ps) {
        task.expect(0, LONG);
    }
}

#[test]
fn ctrl_c_at_the_chief_ends_everybody() {
    a_signal_ends_the_job(Signal::INT, 130);
}

#[test]
fn sigterm_at_the_chief_ends_everybody() {
    a_signal_ends_the_job(Signal::TERM, 143);
}

#[test]
fn ctrl_c_in_a_terminal_reaches_every_task_and_each_reports_it() {
    for arguments in [&["--max-steps=1000000", "--step-ms=5"][..], &["--max-steps=1000000", "--step-ms=5", "--sync"]] {
        let mut running = Job::new(PROGRAM, 2, 2, arguments).start_all();
        running.wait_until_training();
        running.ps.iter().chain(&running.trainers).for_each(|task| task.signal(Signal::INT));
        for task in running.trainers.iter_mut().chain(&mut running.ps) {
            let end = task.expect(130, LONG);
            assert!(end.text.contains("PX0801"), "{}", end.text);
        }
    }
}

#[test]
fn a_killed_parameter_server_fails_the_job_and_nobody_hangs() {
    let job = Job::new(PROGRAM, 2, 2, &["--max-steps=1000000", "--step-ms=5"]);
    let mut running = job.start_all();
    running.wait_until_training();
    running.ps[1].signal(Signal::KILL);
    let chief = running.trainers[0].expect(138, LONG);
    assert!(chief.text.contains("error[PX0211]") && chief.text.contains("ps/1 is gone"), "{}", chief.text);
    let worker = running.trainers[1].expect(138, LONG);
    assert!(worker.text.contains("PX0211"), "{}", worker.text);
    running.ps[0].expect(138, LONG);
}

#[test]
fn a_nan_gradient_fails_the_job_by_name_unless_it_is_to_be_skipped() {
    let job = Job::new(PROGRAM, 1, 2, &["--max-steps=1000000", "--step-ms=2", "--nan-at=7"]);
    let mut running = job.start_all();
    let worker = running.trainers[1].expect(1, LONG);
    let chief = running.trainers[0].expect(1, LONG);
    for text in [&worker.text, &chief.text] {
        let named = ["PX0308", "\"weight\"", "worker/0", "step "].iter().all(|word| text.contains(word));
        assert!(named, "the variable, the step and the worker are named:\n{text}");
    }
    running.ps[0].expect(1, LONG);

    let job = Job::new(PROGRAM, 1, 2, &["--max-steps=1000", "--step-ms=2", "--nan-at=7", "--non-finite=skip"]);
    let mut running = job.start_all();
    running.trainers[0].expect(0, LONG);
    let worker = running.trainers[1].expect(0, LONG);
    assert!(worker.text.contains("step skipped"), "{}", worker.text);
    running.ps[0].expect(0, LONG);
}

/// The program starts as the guide shows; no checkpoint is due for a long time.
#[test]
fn a_signal_at_a_chief_saves_its_last_step() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let dir = tempfile::tempdir().unwrap();
        let model_dir = format!("--model-dir={}", dir.path().display());
        let mut job = Job::new(PROGRAM, 2, 1, &["--max-steps=1000000", "--save-steps=1000000", &model_dir]);
        job.by_tf_config = true;
        let mut running = job.start_all();
        running.trainers[0].wait_for_line(&["own step 200,"], LONG);
        running.ps.iter().chain(&running.trainers).for_each(|task| task.signal(signal));
        let end = running.trainers[0].expect(code, LONG);
        running.ps.iter_mut().for_each(|ps| drop(ps.expect(code, LONG)));
        let done =
            end.text.lines().find_map(|line| line.strip_prefix("done: ")?.split_once(' ')?.0.parse::<u64>().ok());
        // The gradients of the last step go with the end.
        let last = done.expect("the chief logs how far it came") + 1;
        let newest = std::fs::read_to_string(dir.path().join("checkpoint")).unwrap();
        let newest = newest.lines().next().unwrap_or_default();
        assert_eq!(newest, format!("model_checkpoint_path: \"model.ckpt-{last}\""), "{}", end.text);
    }
}
