//! Kills in the middle: what is published always loads, and a parameter server that comes back goes on with its part.

use phalanx_ps::checkpoint::Checkpoint;
use phalanx_storage::Dir;
use phalanx_tests::faults::Random;
use phalanx_tests::job::{Job, LONG};
use phalanx_train::checkpoint::{Catalog, Retention};
use rustix::process::Signal;
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_phalanx_test_task");

fn job(model_dir: &std::path::Path, more: &[&str]) -> Job {
    let dir = format!("--model-dir={}", model_dir.display());
    let mut arguments = vec![dir.as_str(), "--lease-ms=1000"];
    arguments.extend(more);
    Job::new(PROGRAM, 2, 2, &arguments)
}

/// Kills a server in the middle and starts it again; the job ends well, and says what was lost.
fn survives_a_returning_server(server: usize, more: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let mut arguments = vec!["--max-steps=1500", "--step-ms=2"];
    arguments.extend(more);
    let job = job(folder.path(), &arguments);
    let mut running = job.start_all();
    running.wait_until_training();
    running.trainers[0].wait_for_line(&["saved model.ckpt-"], LONG);
    running.ps[server].signal(Signal::KILL);
    running.ps[server].wait(LONG);
    running.trainers[0].wait_for_line(&[&format!("ps/{server} is lost; waiting")], LONG);
    running.ps[server] = job.start_ps(server);
    running.trainers[0].wait_for_line(&[&format!("ps/{server} is back with its part of model.ckpt-"), "at most"], LONG);
    let (chief, _) = running.expect_good_end(LONG);
    assert!(chief.text.contains("done: 15"), "{}", chief.text);
    let newest = newest(folder.path()).expect("there are checkpoints");
    assert!(newest.global_step().unwrap() >= 1500);
}

#[test]
fn a_job_goes_on_when_a_server_is_killed_and_comes_back() {
    survives_a_returning_server(1, &[]);
}

#[test]
fn a_job_goes_on_when_the_server_that_counts_is_killed_and_comes_back() {
    survives_a_returning_server(0, &[]);
}

#[test]
fn a_synchronous_job_goes_on_when_a_server_is_killed_and_comes_back() {
    survives_a_returning_server(1, &["--sync"]);
    survives_a_returning_server(0, &["--sync"]);
}

#[test]
fn a_server_that_does_not_come_back_ends_the_job() {
    let folder = tempfile::tempdir().unwrap();
    let job = job(folder.path(), &["--max-steps=1000000", "--step-ms=2", "--server-grace-ms=1500"]);
    let mut running = job.start_all();
    running.wait_until_training();
    running.ps[1].signal(Signal::KILL);
    let chief = running.trainers[0].expect(138, LONG);
    assert!(chief.text.contains("ps/1 is gone and did not come back"), "{}", chief.text);
}

fn newest(dir: &std::path::Path) -> Option<Checkpoint> {
    let dir = Dir::local(dir);
    let catalog = Catalog::open(&dir, "model.ckpt", Retention::default()).unwrap();
    let name = catalog.newest_first().into_iter().next()?;
    Some(Checkpoint::open(&dir, &name).unwrap())
}

/// Kills somebody at a random moment of a job that saves all the time, then everybody; then the next life goes on from
/// what is there. `PHALANX_KILLS` says how often.
#[test]
fn whoever_is_killed_while_saving_the_newest_checkpoint_loads() {
    let kills = std::env::var("PHALANX_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(8);
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random::new(7);
    let (mut last, mut moments) = (0, Vec::new());
    for kill in 0..kills {
        let job = job(folder.path(), &["--max-steps=100000000", "--save-steps=1", "--ballast=200000"]);
        let running = job.start_all();
        running.trainers[0].wait_for_line(&["saved model.ckpt-"], LONG);
        let moment = random.below(400);
        std::thread::sleep(Duration::from_millis(moment));
        let victim = random.below(3) as usize;
        moments.push((victim, moment));
        let victim = if victim == 0 { &running.trainers[0] } else { &running.ps[victim - 1] };
        victim.signal(Signal::KILL);
        // The others go on for a moment: what they do must not spoil anything either.
        std::thread::sleep(Duration::from_millis(20));
        drop(running);
        let newest = newest(folder.path()).expect("a checkpoint was published");
        let name = newest.name().to_owned();
        newest.tensors().verify().unwrap_or_else(|error| panic!("kill {kill}: {name}: {error}"));
        let step = newest.global_step().unwrap();
        assert!(step >= last, "kill {kill}: {name} after step {last}");
        last = step;
    }
    eprintln!("{kills} kills (0 is the chief, then the servers; and after how many ms): {moments:?}; at step {last}");
}
