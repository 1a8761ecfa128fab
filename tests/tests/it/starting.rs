//! What people get wrong when they start a job: each mistake is named, with its code, and nobody hangs.

use phalanx_tests::job::{Job, LONG};
use phalanx_tests::process::Task;
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

const PROGRAM: &str = env!("CARGO_BIN_EXE_phalanx_test_task");

fn contains_all(text: &str, words: &[&str]) {
    let missing: Vec<_> = words.iter().filter(|word| !text.contains(**word)).collect();
    assert!(missing.is_empty(), "{missing:?} is missing in:\n{text}");
}

#[test]
fn a_missing_parameter_server_is_named_by_everybody() {
    let job = Job::new(PROGRAM, 2, 2, &["--formation-deadline-ms=8000"]);
    let address = format!("127.0.0.1:{}", job.ps[1]);
    let (mut ps, mut chief, mut worker) = (job.start_ps(0), job.start_trainer(0), job.start_trainer(1));
    for task in [&chief, &worker] {
        task.wait_for_line(&["ps/1", &address, "connection refused"], LONG);
    }
    for task in [&mut chief, &mut worker, &mut ps] {
        let end = task.expect(138, LONG);
        contains_all(&end.text, &["error[PX0208]"]);
    }
}

#[test]
fn a_port_in_use_is_named() {
    let job = Job::new(PROGRAM, 1, 1, &[]);
    let _taken = TcpListener::bind(("127.0.0.1", job.ps[0])).expect("the port is free");
    let end = job.start_ps(0).expect(2, LONG);
    contains_all(&end.text, &["error[PX0207]", &job.ps[0].to_string(), "ps/0"]);
}

/// One of the two notices first and reports it; the other one learns of it, unless it came after the first had gone. In
/// that case it gives up at the deadline.
fn noticed(worker: &mut Task, chief: &mut Task, words: &[&str]) {
    let ends = [worker.wait(LONG), chief.wait(LONG)];
    let named: Vec<_> = ends.iter().filter(|end| end.code == Some(2)).collect();
    assert!(!named.is_empty(), "nobody noticed: {ends:?}");
    named.iter().for_each(|end| contains_all(&end.text, words));
    assert!(ends.iter().all(|end| [Some(2), Some(138)].contains(&end.code)), "{ends:?}");
}

/// Under load a task may come after the other one has gone.
const PATIENT: &[&str] = &["--formation-deadline-ms=8000"];

#[test]
fn a_wrong_token_is_refused() {
    let mut job = Job::new(PROGRAM, 1, 2, PATIENT);
    job.environment.push(("PHALANX_TOKEN", "right".to_owned()));
    let mut other = job.clone();
    other.environment = vec![("PHALANX_TOKEN", "wrong".to_owned())];
    let (_ps, mut chief, mut worker) = (job.start_ps(0), job.start_trainer(0), other.start_trainer(1));
    noticed(&mut worker, &mut chief, &["error[PX0205]", "PHALANX_TOKEN"]);
}

/// The same program, as another build of it.
fn another_build(folder: &Path) -> PathBuf {
    let copy = folder.join("another_build");
    std::fs::copy(PROGRAM, &copy).expect("the program can be copied");
    let mut file = std::fs::OpenOptions::new().append(true).open(&copy).expect("the copy can be changed");
    file.write_all(b"x").expect("the copy can be changed");
    copy
}

#[test]
fn another_build_is_refused_and_the_job_forms_with_the_right_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let job = Job::new(PROGRAM, 1, 2, &["--max-steps=50"]);
    let other = Job { program: another_build(folder.path()), ..job.clone() };
    let (ps, chief) = (job.start_ps(0), job.start_trainer(0));
    let end = other.start_trainer(1).expect(2, LONG);
    contains_all(&end.text, &["error[PX0203]", "worker/0", "chief/0"]);
    chief.wait_for_line(&["worker/0 is refused (PX0203) and still waited for"], LONG);
    let worker = job.start_trainer(1);
    for mut task in [chief, worker, ps] {
        task.expect(0, LONG);
    }
}

#[test]
fn a_job_that_does_not_form_reports_who_was_refused_and_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let job = Job::new(PROGRAM, 1, 2, PATIENT);
    let other = Job { program: another_build(folder.path()), ..job.clone() };
    let (mut ps, mut chief) = (job.start_ps(0), job.start_trainer(0));
    other.start_trainer(1).expect(2, LONG);
    for task in [&mut chief, &mut ps] {
        let end = task.expect(138, LONG);
        contains_all(&end.text, &["error[PX0208]", "worker/0 at ", "one was refused: PX0203"]);
    }
}

#[test]
fn an_address_of_another_job_is_named_and_that_job_goes_on() {
    let job = Job::new(PROGRAM, 1, 1, &["--max-steps=150", "--step-ms=20"]);
    let first = job.start_all();
    first.wait_until_training();
    let mut second = Job::new(PROGRAM, 1, 1, &[]);
    second.ps.clone_from(&job.ps);
    let end = second.start_trainer(0).expect(2, LONG);
    contains_all(&end.text, &["error[PX0202]", "ps/0", &job.ps[0].to_string()]);
    first.expect_good_end(LONG);
}

#[test]
fn a_second_process_with_one_identity_is_refused_and_the_first_goes_on() {
    let job = Job::new(PROGRAM, 1, 2, &["--max-steps=400", "--step-ms=20", "--lease-ms=1000"]);
    let first = job.start_all();
    first.wait_until_training();
    let mut second = job.clone();
    second.trainers[1] = phalanx_tests::ports::free();
    let end = second.start_trainer(1).expect(2, LONG);
    contains_all(&end.text, &["error[PX0206]", "worker/0"]);
    first.expect_good_end(LONG);
}

#[test]
fn a_malformed_tf_config_is_pointed_at() {
    let text = r#"{"cluster": {"chief": ["127.0.0.1:1"], "ps": ["127.0.0.1:2"]}, "task": {"type": "ps" "index": 0}}"#;
    let end = Task::start("ps/0", Path::new(PROGRAM), &[], &[("TF_CONFIG", text.to_owned())]).expect(2, LONG);
    contains_all(&end.text, &["error[PX0101]", "^"]);
}
