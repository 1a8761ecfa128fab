//! Mirrored workers as real processes: what becomes of them when one is killed, fails, stands still or is asked to stop.

use phalanx_tests::job::LONG;
use phalanx_tests::{ports, process::Task};
use rustix::process::Signal;
use std::path::Path;

const PROGRAM: &str = env!("CARGO_BIN_EXE_phalanx_mirrored_worker");
/// Something failed that starting again may mend.
const RETRY: i32 = 138;

/// Starts as many workers as there are lists of extra arguments.
fn start(common: &[&str], extra: &[&[&str]]) -> Vec<Task> {
    start_in(&[], common, extra)
}

/// The same, with more environment variables.
fn start_in(environment: &[(&'static str, String)], common: &[&str], extra: &[&[&str]]) -> Vec<Task> {
    let hosts: Vec<String> = extra.iter().map(|_| format!("\"127.0.0.1:{}\"", ports::free())).collect();
    let worker = |(index, extra): (usize, &&[&str])| {
        let config = format!(
            r#"{{"cluster": {{"worker": [{}]}}, "task": {{"type": "worker", "index": {index}}}}}"#,
            hosts.join(", ")
        );
        let arguments: Vec<String> = common.iter().chain(*extra).map(|&argument| argument.to_owned()).collect();
        let environment: Vec<_> = environment.iter().cloned().chain([("TF_CONFIG", config)]).collect();
        Task::start(&format!("worker/{index}"), Path::new(PROGRAM), &arguments, &environment)
    };
    extra.iter().enumerate().map(worker).collect()
}

fn last_line(text: &str) -> String {
    text.lines().rfind(|line| line.starts_with("done: ")).unwrap_or_default().to_owned()
}

#[test]
fn when_one_of_three_is_killed_the_others_end_and_name_it() {
    let mut workers = start(&["--epochs=1000", "--step-ms=5"], &[&[], &[], &[]]);
    for worker in &workers {
        worker.wait_for_line(&["step 20"], LONG);
    }
    let mut killed = workers.remove(1);
    killed.kill();
    for mut worker in workers {
        let end = worker.expect(RETRY, LONG);
        assert!(end.text.contains("worker/1"), "{}", end.text);
    }
}

#[test]
fn a_worker_that_fails_tells_the_others_why() {
    let mut workers = start(&["--epochs=1000", "--step-ms=5"], &[&[], &["--fail-after=15"], &[]]);
    let failed = workers[1].expect(1, LONG);
    assert!(failed.text.contains("a row made me stumble"), "{}", failed.text);
    for worker in [0, 2] {
        let end = workers[worker].expect(RETRY, LONG);
        assert!(end.text.contains("worker/1 failed") && end.text.contains("a row made me stumble"), "{}", end.text);
    }
}

#[test]
fn a_worker_that_stands_still_is_named() {
    let mut workers = start(&["--epochs=1000", "--step-ms=5"], &[&[], &[], &["--stall-after=15"]]);
    for worker in [0, 1] {
        let end = workers[worker].expect(RETRY, LONG);
        assert!(end.text.contains("worker/2"), "{}", end.text);
    }
}

#[test]
fn killed_and_asked_to_stop_it_goes_on_with_the_same_numbers() {
    let whole = start(&[], &[&[], &[]]).iter_mut().map(|worker| worker.expect(0, LONG)).collect::<Vec<_>>();
    let expected = last_line(&whole[0].text);
    assert!(expected.contains("steps"), "{}", whole[0].text);
    assert_eq!(expected, last_line(&whole[1].text), "workers end with the same weights");

    let dir = tempfile::tempdir().unwrap();
    let backup = format!("--backup-dir={}", dir.path().display());
    let slow = ["--step-ms=10", &backup];

    // Killed in the first epoch.
    let mut workers = start(&slow, &[&[], &[]]);
    workers[0].wait_for_line(&["step 20"], LONG);
    workers[1].signal(Signal::KILL);
    workers[0].expect(RETRY, LONG);
    drop(workers);

    // Started again, it goes on, and is asked to stop in the second epoch.
    let mut workers = start(&slow, &[&[], &[]]);
    workers[0].wait_for_line(&["going on from the backup"], LONG);
    workers[0].wait_for_line(&["step 50"], LONG);
    workers[1].signal(Signal::TERM);
    let ends: Vec<_> = workers.iter_mut().map(|worker| worker.expect(143, LONG)).collect();
    assert!(!ends[0].text.contains("step 1\n"), "it did not begin again");

    // Started again, it ends as if nothing had happened.
    let mut workers = start(&[&backup], &[&[], &[]]);
    for worker in &mut workers {
        let end = worker.expect(0, LONG);
        assert_eq!(last_line(&end.text), expected, "{}", end.text);
    }
    assert!(std::fs::read_dir(dir.path().join("chief")).unwrap().next().is_none(), "the backup is gone");
}

/// What a launcher puts into the environment of a task is all that the task needs to report.
#[test]
fn mirrored_workers_and_a_lone_process_report_their_steps_to_the_launcher() {
    for (flag, workers) in [("--epochs=2", &[&[][..], &[]][..]), ("--alone=refuse", &[&["--epochs=2"][..]])] {
        let dir = tempfile::tempdir().unwrap();
        let environment = [("PHALANX_STATUS_DIR", dir.path().display().to_string())];
        let mut started = start_in(&environment, &[flag], workers);
        started.iter_mut().for_each(|worker| drop(worker.expect(0, LONG)));
        let mut losses = Vec::new();
        for index in 0..workers.len() {
            let text = std::fs::read_to_string(dir.path().join(format!("worker-{index}.json"))).unwrap();
            let status: serde_json::Value = serde_json::from_str(&text).unwrap();
            // 449 rows in batches of 12, twice.
            for key in ["steps", "global_step", "max_steps"] {
                assert_eq!(status[key], 76, "{key} of {status}");
            }
            assert_eq!(status["in_sync"].as_bool().unwrap_or(false), workers.len() > 1, "{status}");
            losses.push(status["loss"].as_f64().expect("a loss"));
            let placement = std::fs::read_to_string(dir.path().join(format!("worker-{index}.placement"))).unwrap();
            assert!(placement.contains(&format!("\"task\":\"worker/{index}\"")), "{placement}");
        }
        assert!(losses.iter().all(|loss| *loss > 0.0 && *loss == losses[0]), "one loss of all workers: {losses:?}");
    }
}

/// Each of them would train a model of its own, and the job would look as if it had succeeded.
#[test]
fn a_program_that_ignores_its_cluster_is_refused_unless_it_asks_for_it() {
    for mut worker in start(&["--epochs=1", "--alone=refuse"], &[&[], &[]]) {
        let end = worker.expect(2, LONG);
        let told = ["error[PX0112]", "MirroredStrategy would ignore the cluster", "Strategy::multi_worker_mirrored"];
        assert!(told.iter().all(|words| end.text.contains(words)), "{}", end.text);
    }
    for mut worker in start(&["--epochs=1", "--alone=ignore"], &[&[], &[]]) {
        assert!(worker.expect(0, LONG).text.contains("done: "));
    }
    // A worker that has nobody to train with ignores nobody.
    start(&["--epochs=1", "--alone=refuse"], &[&[]])[0].expect(0, LONG);
}
