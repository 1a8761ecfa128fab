//! `fit` with a coordinator, by processes that are killed in the middle of it.

use phalanx_tests::job::{Job, LONG};

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
