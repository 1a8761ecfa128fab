//! A coordinator, workers and servers as processes that are killed at random moments. `PHALANX_CHAOS` sets how often.

use phalanx_base::SplitMix;
use phalanx_tests::job::{Job, LONG, random_pause, repetitions};
use phalanx_tests::wait_until;
use rustix::process::Signal;
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_phalanx_coordinated_task");

fn runs() -> u64 {
    repetitions("PHALANX_CHAOS", 3)
}

fn job(more: &[&str]) -> Job {
    let mut job = Job::new(PROGRAM, 2, 4, more);
    job.by_tf_config = true;
    job
}

/// Prints how long recoveries took.
fn print_times(what: &str, mut times: Vec<Duration>) {
    assert!(!times.is_empty(), "nobody was killed in time");
    times.sort_unstable();
    let at = |part: f64| times[((times.len() - 1) as f64 * part).round() as usize].as_millis();
    eprintln!("{what}: {} kills, recovery median {} ms, p99 {} ms", times.len(), at(0.5), at(0.99));
}

#[test]
fn whichever_workers_are_killed_every_step_counts_once() {
    let mut times = Vec::new();
    for run in 0..runs() {
        let mut random = SplitMix::new(1000 + run);
        let consistency = ["async", "ssp:2", "async", "sync"][run as usize % 4];
        let steps = if consistency == "sync" { "--steps=120" } else { "--steps=400" };
        let job = job(&[steps, "--step-ms=2", &format!("--consistency={consistency}")]);
        let mut running = job.start_all();
        running.trainers[0].wait_for_line(&["scheduled 0"], LONG);
        let mut restarted = Vec::new();
        for _ in 0..1 + random.below(2) {
            random_pause(&mut random, 250);
            let victim = 1 + random.below(3);
            if running.trainers[0].text().contains("done: ") {
                break;
            }
            let taken_over = |text: &str| text.matches("its steps go to other workers").count();
            let (seen, killed) = (taken_over(&running.trainers[0].text()), Instant::now());
            running.restart_trainer(&job, victim);
            restarted.push(victim);
            let chief = &running.trainers[0];
            let what = || format!("run {run}: the steps of a killed worker are not taken over:\n{}", chief.text());
            let is_done = wait_until(LONG, what, || {
                let text = chief.text();
                let is_done = text.contains("done: ");
                (is_done || taken_over(&text) > seen).then_some(is_done)
            });
            if !is_done {
                times.push(killed.elapsed());
            }
        }
        let chief = running.expect_good_end_without(&restarted, LONG).text;
        assert!(chief.contains("exact") && !chief.contains("NOT EXACT"), "run {run} ({consistency}):\n{chief}");
        assert!(chief.contains(&format!("done: {}", &steps[8..])), "run {run} ({consistency}):\n{chief}");
        // A step that ran on two workers counts once in metrics, too.
        let counted = if consistency == "sync" { "counted 360 of 360" } else { "counted 400 of 400" };
        assert!(chief.contains(counted), "run {run} ({consistency}):\n{chief}");
    }
    print_times("workers", times);
}

#[test]
fn a_server_that_is_killed_comes_back_and_what_was_lost_is_logged() {
    let mut times = Vec::new();
    for run in 0..runs() {
        let mut random = SplitMix::new(2000 + run);
        let folder = tempfile::tempdir().unwrap();
        let dir = format!("--model-dir={}", folder.path().display());
        let job = job(&["--steps=600", "--step-ms=2", "--save-steps=40", &dir]);
        let mut running = job.start_all();
        running.trainers[0].wait_for_line(&["scheduled 0"], LONG);
        random_pause(&mut random, 300);
        let victim = random.below(2);
        let killed = Instant::now();
        running.restart_ps(&job, victim);
        running.trainers[0]
            .wait_for_line(&[&format!("ps/{victim} is back with its part of model.ckpt-"), "at most"], LONG);
        times.push(killed.elapsed());
        let chief = running.expect_good_end(LONG).text;
        let reported = chief.split("is lost, at most ").nth(1).and_then(|rest| rest.split(' ').next());
        let reported: f32 = reported.unwrap().parse().unwrap();
        // What each number lacks is what was lost, and no more than was logged.
        let done: f32 = chief.split("done: ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        for line in chief.lines().filter(|line| line.starts_with("held ")) {
            let numbers = line.split('[').nth(1).unwrap().trim_end_matches(']').split(", ");
            for number in numbers.map(|number| number.parse::<f32>().unwrap()) {
                let lost = (done + number).abs();
                assert!(lost <= reported, "run {run}: {lost} lost, {reported} logged:\n{chief}");
            }
        }
    }
    print_times("servers", times);
}

#[test]
fn a_chief_that_is_killed_is_followed_by_one_that_takes_the_job_over() {
    let mut times = Vec::new();
    for run in 0..runs() {
        let mut random = SplitMix::new(3000 + run);
        let job = job(&["--steps=400", "--step-ms=2"]);
        let mut running = job.start_all();
        running.trainers[0].wait_for_line(&["scheduled 0"], LONG);
        random_pause(&mut random, 250);
        let killed = Instant::now();
        let former = running.trainers[0].kill().text;
        if former.contains("done: ") {
            continue;
        }
        running.trainers[0] = job.start_trainer(0);
        running.trainers[0].wait_for_line(&["begins at step "], LONG);
        times.push(killed.elapsed());
        let chief = running.expect_good_end(LONG).text;
        assert!(chief.contains("done: 400 steps, exact"), "run {run}:\n{chief}");
    }
    print_times("chiefs", times);
}

#[test]
fn a_job_begins_with_one_worker_and_takes_others_whenever_they_come() {
    let job = job(&["--steps=600", "--step-ms=5"]);
    let ps: Vec<_> = (0..2).map(|index| job.start_ps(index)).collect();
    let trainers: Vec<_> = [0, 1].iter().map(|&index| job.start_trainer(index)).collect();
    trainers[0].wait_for_line(&["scheduled 40"], LONG);
    // One that the cluster lists, and one that only its own cluster lists.
    let listed = job.start_trainer(2);
    let mut larger = job.clone();
    larger.trainers.push(phalanx_tests::ports::free());
    let unlisted = larger.start_trainer(4);
    let mut tasks: Vec<_> = trainers.into_iter().chain(ps).chain([listed, unlisted]).collect();
    let chief = tasks[0].expect(0, LONG).text;
    tasks[1..].iter_mut().for_each(|task| drop(task.expect(0, LONG)));
    assert!(chief.contains("done: 600 steps, exact"), "{chief}");
    for worker in ["worker/0 did ", "worker/1 did ", "worker/3 did "] {
        let did = chief.split(worker).nth(1).and_then(|rest| rest.lines().next()).and_then(|n| n.parse::<u64>().ok());
        assert!(did.is_some_and(|did| did > 10), "{worker}{did:?}:\n{chief}");
    }
}

#[test]
fn a_worker_that_stood_still_for_too_long_is_shut_out_when_it_goes_on() {
    let job = job(&["--steps=2000", "--step-ms=5", "--lease-ms=1000"]);
    let mut running = job.start_all();
    // A job begins without it, and who never came is not lost.
    running.trainers[2].wait_for_line(&["takes part"], LONG);
    running.trainers[2].signal(Signal::STOP);
    running.trainers[0].wait_for_line(&["worker/1 is lost"], LONG);
    running.trainers[2].signal(Signal::CONT);
    let zombie = running.trainers[2].wait(LONG);
    assert_eq!(zombie.code, Some(138), "{}", zombie.text);
    let chief = running.expect_good_end_without(&[2], LONG).text;
    assert!(chief.contains("done: 2000 steps, exact"), "{chief}");
}

/// How long a process is stopped, if `PHALANX_STOP_SECS` is set.
fn stop_secs() -> Option<f64> {
    std::env::var("PHALANX_STOP_SECS").ok().and_then(|text| text.parse().ok())
}

#[test]
fn a_chief_that_is_stopped_for_longer_than_the_lease_throws_nobody_out() {
    let job = job(&["--steps=1000", "--step-ms=20", "--lease-ms=2000"]);
    let running = job.start_all();
    running.trainers[0].wait_for_line(&["scheduled 40"], LONG);
    for rest in [1500, 0] {
        running.trainers[0].stop_for(Duration::from_secs_f64(stop_secs().unwrap_or(3.0)));
        running.trainers[0].run_for(Duration::from_millis(rest));
    }
    // Every worker ends well, none was replaced.
    let chief = running.expect_good_end(LONG).text;
    assert!(chief.contains("done: 1000 steps, exact"), "{chief}");
    assert!(!chief.contains("is lost"), "{chief}");
    assert_eq!(chief.matches("this process did not run for").count(), 2, "{chief}");
}

#[test]
fn a_server_that_is_stopped_for_longer_than_the_lease_is_back_with_what_it_held() {
    for server in 0..2 {
        let folder = tempfile::tempdir().unwrap();
        let dir = format!("--model-dir={}", folder.path().display());
        let job = job(&["--steps=900", "--step-ms=5", "--lease-ms=1000", "--save-steps=200", &dir]);
        let running = job.start_all();
        running.trainers[0].wait_for_line(&["scheduled 40"], LONG);
        running.ps[server].signal(Signal::STOP);
        running.trainers[0].wait_for_line(&[&format!("ps/{server} is lost; waiting")], LONG);
        std::thread::sleep(Duration::from_secs_f64(stop_secs().unwrap_or(0.0)));
        running.ps[server].signal(Signal::CONT);
        running.trainers[0].wait_for_line(&[&format!("ps/{server} is back, with everything that it held")], LONG);
        let chief = running.expect_good_end(LONG).text;
        // Exact: nothing was restored, and what waited in its sockets and was sent again counts once.
        assert!(chief.contains("done: 900 steps, exact"), "{chief}");
        assert!(!chief.contains("is back with its part"), "{chief}");
        assert!(!chief.contains("its steps go to other workers"), "{chief}");
    }
}

#[test]
fn when_all_workers_are_killed_steps_wait_for_those_who_come_back() {
    let job = job(&["--steps=300", "--step-ms=2"]);
    let mut running = job.start_all();
    running.trainers[0].wait_for_line(&["scheduled 40"], LONG);
    for worker in 1..4 {
        running.trainers[worker].kill();
    }
    running.trainers[2] = job.start_trainer(2);
    let chief = running.expect_good_end_without(&[1, 3], LONG).text;
    assert!(chief.contains("done: 300 steps, exact"), "{chief}");
}

#[test]
fn a_chief_that_is_asked_to_stop_saves_before_the_job_ends() {
    let folder = tempfile::tempdir().unwrap();
    let dir = format!("--model-dir={}", folder.path().display());
    // Nothing else saves meanwhile.
    let job = job(&["--steps=100000", "--step-ms=2", "--save-steps=1000000", &dir]);
    let mut running = job.start_all();
    running.trainers[0].wait_for_line(&["scheduled 80"], LONG);
    running.trainers[0].signal(Signal::TERM);
    let chief = running.trainers[0].expect(143, LONG).text;
    let saved = chief.split("saved model.ckpt-").last().and_then(|rest| rest.split(':').next());
    assert!(saved.and_then(|step| step.parse::<u64>().ok()).is_some_and(|step| step >= 20), "{chief}");
    running.trainers[1..].iter_mut().chain(&mut running.ps).for_each(|task| drop(task.expect(0, LONG)));
}
