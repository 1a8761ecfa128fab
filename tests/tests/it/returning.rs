//! Kills tasks in the middle of a job: what is published always loads, and a parameter server that returns continues with its part.

use phalanx_base::SplitMix;
use phalanx_ps::checkpoint::Checkpoint;
use phalanx_storage::Dir;
use phalanx_tests::job::{Job, LONG, Running, random_pause, repetitions};
use phalanx_tests::process::Task;
use phalanx_tests::wait_until;
use phalanx_train::checkpoint::{CheckpointStore, Retention};
use rustix::process::Signal;
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_phalanx_test_task");

fn job(model_dir: &std::path::Path, more: &[&str]) -> Job {
    let dir = format!("--model-dir={}", model_dir.display());
    let mut arguments = vec![dir.as_str(), "--lease-ms=1000"];
    arguments.extend(more);
    Job::new(PROGRAM, 2, 2, &arguments)
}

/// Kills a server and starts it again; the job ends well, and logs what was lost.
fn survives_a_returning_server(server: usize, more: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let mut arguments = vec!["--max-steps=1500", "--step-ms=2"];
    arguments.extend(more);
    let job = job(folder.path(), &arguments);
    let mut running = job.start_all();
    running.wait_until_training();
    running.trainers[0].wait_for_line(&["saved model.ckpt-"], LONG);
    running.ps[server].kill();
    running.trainers[0].wait_for_line(&[&format!("ps/{server} is lost; waiting")], LONG);
    running.ps[server] = job.start_ps(server);
    running.trainers[0].wait_for_line(&[&format!("ps/{server} is back with its part of model.ckpt-"), "at most"], LONG);
    let chief = running.expect_good_end(LONG);
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
    let catalog = CheckpointStore::open(&dir, "model.ckpt", Retention::default()).unwrap();
    let name = catalog.newest_first().into_iter().next()?;
    Some(Checkpoint::open(&dir, &name).unwrap())
}

/// Kills a task at a random moment of a job that saves all the time, then all tasks; the next job continues from what is there.
/// `PHALANX_KILLS` sets how often.
#[test]
fn whoever_is_killed_while_saving_the_newest_checkpoint_loads() {
    let kills = repetitions("PHALANX_KILLS", 8);
    let folder = tempfile::tempdir().unwrap();
    let mut random = SplitMix::new(7);
    let (mut last, mut victims) = (0, Vec::new());
    for kill in 0..kills {
        let job = job(folder.path(), &["--max-steps=100000000", "--save-steps=1", "--ballast=200000"]);
        let running = job.start_all();
        running.trainers[0].wait_for_line(&["saved model.ckpt-"], LONG);
        random_pause(&mut random, 400);
        let victim = random.below(3);
        victims.push(victim);
        let victim = if victim == 0 { &running.trainers[0] } else { &running.ps[victim - 1] };
        victim.signal(Signal::KILL);
        // The others go on for a moment: what they do must not spoil anything either.
        running.trainers[1].run_for(Duration::from_millis(20));
        drop(running);
        let newest = newest(folder.path()).expect("a checkpoint was published");
        let name = newest.name().to_owned();
        newest.tensors().verify().unwrap_or_else(|error| panic!("kill {kill}: {name}: {error}"));
        let step = newest.global_step().unwrap();
        assert!(step >= last, "kill {kill}: {name} after step {last}");
        last = step;
    }
    eprintln!("{kills} kills (0 is the chief, then the servers): {victims:?}; at step {last}");
}

/// How often each kind of kill is tried.
fn runs() -> u64 {
    repetitions("PHALANX_CHAOS", 1)
}

/// Returns how many steps of all tasks the other server has in the newest checkpoint and `server` lacks in its values.
pub(super) fn really_lost(dir: &std::path::Path, server: usize) -> u64 {
    let newest = newest(dir).expect("there are checkpoints");
    let read = |name: String| newest.tensors().read(&name).unwrap().i64s().unwrap();
    let other: i64 = read(format!("_phalanx/ps-{:05}/applied", 1 - server)).chunks(7).map(|record| record[3]).sum();
    let has = read(format!("_phalanx/ps-{server:05}/counts")).chunks(3).map(|item| item[1]).min().unwrap();
    (other - has).max(0) as u64
}

/// Returns the largest bound that the chief has logged.
fn logged_loss(text: &str) -> u64 {
    let number = |rest: &str| rest.split(' ').next().unwrap().parse::<u64>().unwrap();
    let bounds = text.split("is lost, at most ").skip(1).map(number);
    bounds.max().unwrap_or_else(|| panic!("no bound was given:\n{text}"))
}

/// Two servers, three trainers, and a checkpoint now and then: much is lost with a server.
pub(super) fn losing(folder: &std::path::Path, more: &[&str]) -> Job {
    let dir = format!("--model-dir={}", folder.display());
    let mut arguments = vec![dir.as_str(), "--lease-ms=3000", "--step-ms=1", "--shards=2"];
    arguments.extend(more);
    Job::new(PROGRAM, 2, 3, &arguments)
}

/// Waits until each trainer but the chief has done about `steps` steps more.
pub(super) fn train_on(running: &Running, steps: usize) {
    // They print a line every 20 steps.
    let lines = |task: &Task| task.text().matches(": own step ").count();
    let enough: Vec<usize> = running.trainers.iter().map(|task| lines(task) + steps / 20).collect();
    for (trainer, enough) in running.trainers.iter().zip(enough).skip(1) {
        let what = || format!("training stands still:\n{}", trainer.text());
        wait_until(LONG, what, || (lines(trainer) >= enough).then_some(()));
    }
}

/// The job ends well, and what was lost on `server` is at most what the chief logged. The last checkpoint has every acknowledged
/// update, so its parts can be compared.
fn expect_a_true_bound(running: Running, folder: &std::path::Path, server: usize, what: &str) {
    let chief = running.expect_good_end(LONG);
    let (logged, lost) = (logged_loss(&chief.text), really_lost(folder, server));
    eprintln!("{what}: at most {logged} logged, {lost} lost");
    assert!(lost <= logged, "{what}: {lost} lost, {logged} logged:\n{}", chief.text);
}

#[test]
fn what_is_lost_when_chief_and_server_are_killed_together_is_no_more_than_is_logged() {
    for run in 0..runs() {
        let mut random = SplitMix::new(4000 + run);
        let folder = tempfile::tempdir().unwrap();
        let job = losing(folder.path(), &["--save-steps=1000000", "--max-steps=4000"]);
        let mut running = job.start_all();
        running.wait_until_training();
        train_on(&running, 100 + random.below(100));
        running.trainers[0].signal(Signal::KILL);
        running.ps[0].signal(Signal::KILL);
        running.trainers[0].wait(LONG);
        running.ps[0].wait(LONG);
        running.ps[0] = job.start_ps(0);
        running.trainers[0] = job.start_trainer(0);
        running.trainers[0].wait_for_line(&["ps/0 is back with its part of model.ckpt-", "at most"], LONG);
        let text = running.trainers[0].text();
        assert!(logged_loss(&text) > 20, "training had gone on:\n{text}");
        expect_a_true_bound(running, folder.path(), 0, &format!("together, run {run}"));
    }
}

#[test]
fn what_is_lost_with_a_server_while_the_chief_is_stopped_is_no_more_than_is_logged() {
    for run in 0..runs() {
        let mut random = SplitMix::new(5000 + run);
        let folder = tempfile::tempdir().unwrap();
        let job = losing(folder.path(), &["--save-steps=1000000", "--max-steps=4000"]);
        let mut running = job.start_all();
        running.wait_until_training();
        train_on(&running, random.below(50));
        running.trainers[0].signal(Signal::STOP);
        train_on(&running, 100 + random.below(100));
        running.restart_ps(&job, 0);
        random_pause(&mut random, 200);
        running.trainers[0].signal(Signal::CONT);
        running.trainers[0].wait_for_line(&["ps/0 is back with its part of model.ckpt-", "at most"], LONG);
        expect_a_true_bound(running, folder.path(), 0, &format!("chief stopped, run {run}"));
    }
}

#[test]
fn a_server_that_dies_again_while_it_is_restored_is_restored_again() {
    for run in 0..runs() {
        let mut random = SplitMix::new(6000 + run);
        let folder = tempfile::tempdir().unwrap();
        // Large enough that restoring takes a while.
        let job = losing(folder.path(), &["--save-steps=1000000", "--max-steps=600", "--ballast=4000000"]);
        let mut running = job.start_all();
        running.wait_until_training();
        train_on(&running, 20);
        let server = (run % 2) as usize;
        for _ in 0..4 {
            running.restart_ps(&job, server);
            random_pause(&mut random, 400);
        }
        let back = format!("ps/{server} is back with its part of model.ckpt-");
        running.trainers[0].wait_for_line(&[&back, "at most"], LONG);
        expect_a_true_bound(running, folder.path(), server, &format!("again, run {run}"));
    }
}

/// A worker that had finished, or was killed too, does not keep a restarted chief from continuing.
#[test]
fn a_chief_that_is_started_again_goes_on_without_a_worker_that_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let job = job(folder.path(), &["--max-steps=4000", "--step-ms=2", "--formation-deadline-ms=100000"]);
    let mut running = job.start_all();
    running.wait_until_training();
    // The servers hear with a beat that the job has formed.
    train_on(&running, 500);
    running.trainers[0].signal(Signal::KILL);
    running.trainers[1].signal(Signal::KILL);
    running.trainers[0].wait(LONG);
    running.trainers[1].wait(LONG);
    running.trainers[0] = job.start_trainer(0);
    running.trainers[0].wait_for_line(&["the servers hold the model at step"], LONG);
    let chief = running.trainers[0].expect(0, LONG);
    assert!(chief.text.contains("done: 40"), "{}", chief.text);
    assert!(newest(folder.path()).unwrap().global_step().unwrap() >= 4000);
}

#[test]
fn a_server_that_lost_everything_beside_trained_ones_ends_a_job_without_a_run_directory() {
    let job = Job::new(PROGRAM, 2, 2, &["--max-steps=1000000", "--step-ms=2"]);
    let mut running = job.start_all();
    running.wait_until_training();
    running.trainers[0].signal(Signal::KILL);
    running.ps[1].signal(Signal::KILL);
    running.trainers[0].wait(LONG);
    running.ps[1].wait(LONG);
    running.ps[1] = job.start_ps(1);
    running.trainers[0] = job.start_trainer(0);
    let chief = running.trainers[0].expect(138, LONG);
    assert!(chief.text.contains("PX0211"), "{}", chief.text);
    assert!(chief.text.contains("ps/1 is back without the parameters it held"), "{}", chief.text);
}
