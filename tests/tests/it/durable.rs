//! Servers with a write-ahead log that are killed at random moments under load: nothing that was acknowledged is lost, and what is
//! reported as lost without a log is what was lost. `PHALANX_CHAOS` sets how often.

use super::returning::{losing, really_lost, train_on};
use phalanx_base::{Role, SplitMix, TaskId};
use phalanx_run::StatusDir;
use phalanx_tests::job::{Job, LONG, Running, random_pause, repetitions};
use std::path::Path;
use std::time::{Duration, Instant};

const LEDGER: &str = env!("CARGO_BIN_EXE_phalanx_coordinated_task");

fn runs() -> u64 {
    repetitions("PHALANX_CHAOS", 3)
}

/// Gives the job's servers a log in this folder.
fn logging(mut job: Job, folder: &Path) -> Job {
    job.environment.push(("PHALANX_DURABILITY", "log".to_owned()));
    job.environment.push(("PHALANX_WAL_DIR", folder.display().to_string()));
    job
}

/// A job whose values are how often each step was counted.
fn ledger(folder: &Path, more: &[&str]) -> Job {
    let mut job = logging(Job::new(LEDGER, 2, 4, more), folder);
    job.by_tf_config = true;
    job
}

/// Kills servers at random moments until the chief is done; returns how long each took to serve again.
fn kill_servers(running: &mut Running, job: &Job, random: &mut SplitMix) -> Vec<Duration> {
    let mut times = Vec::new();
    for _ in 0..1 + random.below(3) {
        random_pause(random, 300);
        if running.trainers[0].text().contains("done: ") {
            break;
        }
        let (victim, killed) = (random.below(2), Instant::now());
        running.restart_ps(job, victim);
        running.ps[victim].wait_for_line(&["nothing was lost"], LONG);
        times.push(killed.elapsed());
    }
    times
}

#[test]
fn whichever_servers_are_killed_every_step_counts_once_under_log() {
    let mut times = Vec::new();
    for run in 0..runs() {
        let mut random = SplitMix::new(7000 + run);
        let (logs, model) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let consistency = ["async", "sync", "ssp:2"][run as usize % 3];
        let steps = if consistency == "sync" { "--steps=120" } else { "--steps=400" };
        let (consistent, dir) =
            (format!("--consistency={consistency}"), format!("--model-dir={}", model.path().display()));
        let mut arguments = vec![steps, "--step-ms=2", &consistent];
        // Without a run directory there is no checkpoint to fall back on.
        if run % 2 == 0 {
            arguments.push(&dir);
        }
        let job = ledger(logs.path(), &arguments);
        let mut running = job.start_all();
        running.trainers[0].wait_for_line(&["scheduled 0"], LONG);
        times.extend(kill_servers(&mut running, &job, &mut random));
        let chief = running.expect_good_end(LONG).text;
        assert!(chief.contains(&format!("done: {} steps, exact", &steps[8..])), "run {run} ({consistency}):\n{chief}");
        assert!(!chief.contains("is lost, at most"), "run {run} ({consistency}):\n{chief}");
        let left: Vec<_> = std::fs::read_dir(logs.path()).unwrap().flatten().map(|entry| entry.path()).collect();
        assert!(left.is_empty(), "run {run}: a job that is over leaves {left:?}");
    }
    times.sort_unstable();
    let worst = times.last().map_or(0, Duration::as_millis);
    eprintln!("{} kills of servers under log, nothing lost; serving again after at most {worst} ms", times.len());
}

#[test]
fn a_chief_and_both_servers_that_are_killed_together_go_on_where_they_were() {
    let (logs, model) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let job = logging(losing(model.path(), &["--save-steps=1000000", "--max-steps=3000"]), logs.path());
    let mut running = job.start_all();
    running.wait_until_training();
    train_on(&running, 150);
    let former = running.trainers[0].kill().text;
    (0..2).for_each(|index| running.restart_ps(&job, index));
    running.trainers[0] = job.start_trainer(0);
    running.trainers[0].wait_for_line(&["the servers hold the model at step"], LONG);
    let text = running.trainers[0].text();
    let number = |text: &str, after: &str| {
        let found = text.rsplit(after).next().and_then(|rest| rest.split([';', ',', ' ']).next());
        found.and_then(|number| number.parse::<u64>().ok())
    };
    let reached = number(&former, "global step ").expect("the chief had trained");
    let continued = number(&text, "the servers hold the model at step ").expect("a step");
    assert!(continued >= reached, "{continued} after {reached}:\n{text}");
    running.expect_good_end(LONG);
}

/// Runs a job that trains by itself and kills server 1 in the middle of it; returns what was reported as lost, and the job's
/// folder.
fn updates_lost(more: &[&str], logs: Option<&Path>) -> (Option<u64>, tempfile::TempDir) {
    let (folder, status) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut job = losing(folder.path(), &[&["--save-steps=1000000", "--max-steps=3000"], more].concat());
    job.environment.push(("PHALANX_STATUS_DIR", status.path().display().to_string()));
    if let Some(logs) = logs {
        job = logging(job, logs);
    }
    let mut running = job.start_all();
    running.wait_until_training();
    train_on(&running, 150);
    running.restart_ps(&job, 1);
    let back = if logs.is_some() { "nothing was lost" } else { "ps/1 is back with its part of" };
    running.trainers[0].wait_for_line(&["ps/1 is back", back], LONG);
    running.expect_good_end(LONG);
    let tasks =
        [(Role::Ps, 0), (Role::Ps, 1), (Role::Chief, 0), (Role::Worker, 0), (Role::Worker, 1), (Role::Worker, 2)];
    let tasks = tasks.map(|(role, index)| TaskId::new(role, index));
    (StatusDir::at(status.path()).updates_lost(&tasks), folder)
}

#[test]
fn what_is_reported_as_lost_is_what_was_lost() {
    let (lost, folder) = updates_lost(&[], None);
    assert_eq!(lost, Some(really_lost(folder.path(), 1)));
    assert!(lost > Some(20), "training had gone on: {lost:?}");
}

#[test]
fn nothing_is_lost_under_log() {
    for more in [&[][..], &["--sync"]] {
        let logs = tempfile::tempdir().unwrap();
        let (lost, folder) = updates_lost(more, Some(logs.path()));
        assert_eq!(lost, Some(0), "{more:?}");
        if more.is_empty() {
            assert_eq!(really_lost(folder.path(), 1), 0);
        }
    }
}

#[test]
fn a_damaged_log_is_refused_and_the_server_is_restored_from_the_checkpoint() {
    let (logs, model) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let job = logging(losing(model.path(), &["--save-steps=40", "--max-steps=2000"]), logs.path());
    let mut running = job.start_all();
    running.wait_until_training();
    train_on(&running, 100);
    running.ps[1].kill();
    let segment = logs.path().join("ps-1").join("segment-00000");
    let mut bytes = std::fs::read(&segment).unwrap();
    // The bodies of the first records.
    bytes[200..4000].iter_mut().for_each(|byte| *byte ^= 0x55);
    std::fs::write(&segment, bytes).unwrap();
    running.ps[1] = job.start_ps(1);
    running.ps[1].wait_for_line(&["PX0522", "damaged"], LONG);
    running.trainers[0].wait_for_line(&["ps/1 is back with its part of model.ckpt-", "at most"], LONG);
    running.expect_good_end(LONG);
}
