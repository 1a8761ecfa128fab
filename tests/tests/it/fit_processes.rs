//! `fit` and custom loops with parameter servers, by processes that are killed in the middle of it.

use phalanx_tests::job::{Job, LONG, Running};
use std::path::PathBuf;

const PROGRAM: &str = env!("CARGO_BIN_EXE_phalanx_fit_task");

fn job(more: &[&str]) -> Job {
    let mut job = Job::new(PROGRAM, 2, 3, more);
    job.by_tf_config = true;
    job
}

#[test]
fn a_worker_that_is_killed_and_returns_costs_no_step() {
    let job = job(&["--epochs=3", "--steps=80"]);
    let mut running = job.start_all();
    running.trainers[0].wait_for_line(&["epoch 0 begins"], LONG);
    running.trainers[0].wait_for_line(&["batch 20"], LONG);
    running.restart_trainer(&job, 2);
    let chief = running.expect_good_end_without(&[2], LONG).text;
    for (epoch, updates) in [(0, 80), (1, 160), (2, 240)] {
        assert!(chief.contains(&format!("epoch {epoch} ended at {updates}\n")), "{chief}");
    }
    assert!(chief.contains("done: 240 updates, 240 took effect, 3 epochs here"), "{chief}");
}

#[test]
fn without_a_worker_a_pass_ends_and_what_was_not_seen_is_logged() {
    let job = job(&["--epochs=2", "--step-ms=5"]);
    let mut running = job.start_all();
    running.trainers[0].wait_for_line(&["batch 8"], LONG);
    running.trainers[2].kill();
    let chief = running.trainers[0].expect(0, LONG).text;
    assert!(chief.contains("epoch 2 ends without all of the data: the share of worker/1 was not read"), "{chief}");
    let updates =
        |line: &str| chief.split(line).nth(1).unwrap().split_whitespace().next().unwrap().parse::<u64>().unwrap();
    let (first, second) = (updates("epoch 0 ended at "), updates("epoch 1 ended at "));
    // Each share is 30 batches; the one that was killed had read some of its own.
    assert!((30..60).contains(&first) && second == first + 30, "{chief}");
    assert!(chief.contains(&format!("done: {second} updates, {second} took effect")), "{chief}");
    running.trainers[1].expect(0, LONG);
}

#[test]
fn a_chief_that_is_killed_is_followed_by_one_that_goes_on_in_its_epoch() {
    let job = job(&["--epochs=3", "--steps=80"]);
    let mut running = job.start_all();
    running.trainers[0].wait_for_line(&["epoch 1 begins"], LONG);
    let former = running.restart_trainer(&job, 0).text;
    assert!(former.contains("epoch 0 ended at 80\n"), "{former}");
    let chief = running.expect_good_end(LONG).text;
    assert!(chief.contains("continuing after ") && !chief.contains("epoch 0 begins"), "{chief}");
    assert!(chief.contains("epoch 1 ended at 160\n"), "{chief}");
    assert!(chief.contains("done: 240 updates, 240 took effect, 2 epochs here"), "{chief}");
}

#[test]
fn a_chief_that_is_killed_in_its_second_fit_does_not_repeat_the_first() {
    let job = job(&["--epochs=2", "--steps=60", "--fits=2"]);
    let mut running = job.start_all();
    running.trainers[0].wait_for_line(&["fit 1 begins"], LONG);
    running.trainers[0].wait_for_line(&["batch 20"], LONG);
    running.restart_trainer(&job, 0);
    let chief = running.expect_good_end(LONG).text;
    // The second fit has 120 updates before it, and continues where the former chief was in it.
    let first = chief.split("fit 1 begins").next().unwrap_or_default();
    assert!(!first.contains("batch "), "{chief}");
    assert!(chief.contains("done: 240 updates, 240 took effect"), "{chief}");
}

#[test]
fn every_row_of_a_table_has_each_step_once_when_a_worker_or_the_chief_is_killed() {
    for killed in [2, 0] {
        let job = job(&["--epochs=2", "--steps=80", "--table"]);
        let mut running = job.start_all();
        running.trainers[0].wait_for_line(&["batch 20"], LONG);
        running.restart_trainer(&job, killed);
        let chief = running.expect_good_end_without(&[2], LONG).text;
        assert!(chief.contains("done: 160 updates, 160 took effect"), "{chief}");
    }
}

/// A custom loop, and the file that ends it.
fn custom_loop(consistency: &str) -> (Job, tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let end = folder.path().join("end");
    let job = job(&[&format!("--loop-until={}", end.display()), &format!("--consistency={consistency}")]);
    (job, folder, end)
}

/// Checks that every update of a custom loop is on every server and was counted once. Returns their number and the steps of
/// the task that printed the text.
fn counted_once(text: &str) -> (u64, u64) {
    let line = text.lines().find_map(|line| line.strip_prefix("done: ")).unwrap_or_else(|| panic!("{text}"));
    let numbers: Vec<u64> =
        line.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect();
    let [updates, of_bias, of_kernel, own] = numbers[..] else { panic!("{line}") };
    assert!(updates > 0 && updates == of_bias && updates == of_kernel, "{text}");
    (updates, own)
}

/// Waits for the end of every task, which must be a good one. Returns the number of updates, and the steps of all trainers.
fn end_of_loop(mut running: Running) -> (u64, u64) {
    let trainers: Vec<(u64, u64)> =
        running.trainers.iter_mut().map(|task| counted_once(&task.expect(0, LONG).text)).collect();
    running.ps.iter_mut().for_each(|server| drop(server.expect(0, LONG)));
    let updates = trainers[0].0;
    assert!(trainers.iter().all(|(same, _)| *same == updates), "every task has the same values: {trainers:?}");
    (updates, trainers.iter().map(|(_, own)| own).sum())
}

/// Kills a trainer in its custom loop, and ends the loop when the one that followed takes steps.
fn kill_in_loop(consistency: &str, trainer: usize) {
    let (job, _folder, end) = custom_loop(consistency);
    let mut running = job.start_all();
    running.trainers.iter().for_each(|task| task.wait_for_line(&["step 10"], LONG));
    let former = running.restart_trainer(&job, trainer).text;
    running.trainers[trainer].wait_for_line(&["step 10"], LONG);
    std::fs::write(end, "").unwrap();
    let (updates, steps) = end_of_loop(running);
    if consistency != "sync" {
        let steps = steps + former.lines().filter(|line| line.starts_with("step ")).count() as u64;
        // The gradients of the last step that was printed went with the next message, if there was one.
        assert!((steps - 1..=steps).contains(&updates), "{updates} updates, {steps} steps");
    }
}

#[test]
fn a_custom_loop_survives_a_worker_that_is_killed_and_returns() {
    ["async", "ssp:4", "sync"].iter().for_each(|consistency| kill_in_loop(consistency, 2));
}

#[test]
fn a_custom_loop_survives_a_chief_that_is_killed_and_returns() {
    ["async", "sync"].iter().for_each(|consistency| kill_in_loop(consistency, 0));
}

#[test]
fn a_custom_loop_goes_on_without_a_worker_that_is_killed() {
    let (job, _folder, end) = custom_loop("sync");
    let mut running = job.start_all();
    running.trainers.iter().for_each(|task| task.wait_for_line(&["step 10"], LONG));
    let killed = running.trainers.remove(2).kill().text;
    let more = killed.lines().filter(|line| line.starts_with("step ")).count() + 50;
    running.trainers[1].wait_for_line(&[&format!("step {more}")], LONG);
    std::fs::write(end, "").unwrap();
    end_of_loop(running);
}
