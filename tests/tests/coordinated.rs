//! A coordinator, workers and servers as processes that are killed at random moments. `PHALANX_CHAOS` says how often.

use phalanx_tests::faults::Random;
use phalanx_tests::job::{Job, LONG, Running};
use rustix::process::Signal;
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_phalanx_coordinated_task");

fn runs() -> u64 {
    std::env::var("PHALANX_CHAOS").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

fn job(more: &[&str]) -> Job {
    let mut job = Job::new(PROGRAM, 2, 4, more);
    job.by_tf_config = true;
    job
}

/// Waits for the job's end; the chief's words. Those who were `restarted` may have come too late to hear of it.
fn end(mut running: Running, restarted: &[usize]) -> String {
    let chief = running.trainers[0].expect(0, LONG);
    let others = running.trainers.iter_mut().enumerate().skip(1).filter(|(index, _)| !restarted.contains(index));
    others.map(|(_, task)| task).chain(&mut running.ps).for_each(|task| drop(task.expect(0, LONG)));
    chief.text
}

/// Says how long recoveries took.
fn say_times(what: &str, mut times: Vec<Duration>) {
    assert!(!times.is_empty(), "nobody was killed in time");
    times.sort_unstable();
    let at = |part: f64| times[((times.len() - 1) as f64 * part).round() as usize].as_millis();
    eprintln!("{what}: {} kills, recovery median {} ms, p99 {} ms", times.len(), at(0.5), at(0.99));
}

#[test]
fn whichever_workers_are_killed_every_step_counts_once() {
    let mut times = Vec::new();
    for run in 0..runs() {
        let mut random = Random::new(1000 + run);
        let consistency = ["async", "ssp:2", "async", "sync"][run as usize % 4];
        let steps = if consistency == "sync" { "--steps=120" } else { "--steps=400" };
        let job = job(&[steps, "--step-ms=2", &format!("--consistency={consistency}")]);
        let mut running = job.start_all();
        running.trainers[0].wait_for_line(&["scheduled 0"], LONG);
        let mut restarted = Vec::new();
        for _ in 0..1 + random.below(2) {
            std::thread::sleep(Duration::from_millis(random.below(250)));
            let victim = 1 + random.below(3) as usize;
            if running.trainers[0].text().contains("done: ") {
                break;
            }
            running.trainers[victim].signal(Signal::KILL);
            restarted.push(victim);
            let killed = Instant::now();
            running.trainers[victim].wait(LONG);
            let seen = running.trainers[0].text().matches("its steps go to other workers").count();
            running.trainers[victim] = job.start_trainer(victim);
            while running.trainers[0].text().matches("its steps go to other workers").count() == seen {
                assert!(killed.elapsed() < LONG, "run {run}:\n{}", running.trainers[0].text());
                if running.trainers[0].text().contains("done: ") {
                    break;
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            if !running.trainers[0].text().contains("done: ") {
                times.push(killed.elapsed());
            }
        }
        let chief = end(running, &restarted);
        assert!(chief.contains("exact") && !chief.contains("NOT EXACT"), "run {run} ({consistency}):\n{chief}");
        assert!(chief.contains(&format!("done: {}", &steps[8..])), "run {run} ({consistency}):\n{chief}");
    }
    say_times("workers", times);
}

#[test]
fn a_server_that_is_killed_comes_back_and_what_was_lost_is_said() {
    let mut times = Vec::new();
    for run in 0..runs() {
        let mut random = Random::new(2000 + run);
        let folder = tempfile::tempdir().unwrap();
        let dir = format!("--model-dir={}", folder.path().display());
        let job = job(&["--steps=600", "--step-ms=2", "--save-steps=40", &dir]);
        let mut running = job.start_all();
        running.trainers[0].wait_for_line(&["scheduled 0"], LONG);
        std::thread::sleep(Duration::from_millis(random.below(300)));
        let victim = random.below(2) as usize;
        running.ps[victim].signal(Signal::KILL);
        let killed = Instant::now();
        running.ps[victim].wait(LONG);
        running.ps[victim] = job.start_ps(victim);
        running.trainers[0]
            .wait_for_line(&[&format!("ps/{victim} is back with its part of model.ckpt-"), "at most"], LONG);
        times.push(killed.elapsed());
        let chief = end(running, &[]);
        let reported = chief.split("is lost, at most ").nth(1).and_then(|rest| rest.split(' ').next());
        let reported: f32 = reported.unwrap().parse().unwrap();
        // What each number lacks is what was lost, and no more than was said.
        let done: f32 = chief.split("done: ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        for line in chief.lines().filter(|line| line.starts_with("held ")) {
            let numbers = line.split('[').nth(1).unwrap().trim_end_matches(']').split(", ");
            for number in numbers.map(|number| number.parse::<f32>().unwrap()) {
                let lost = (done + number).abs();
                assert!(lost <= reported, "run {run}: {lost} lost, {reported} said:\n{chief}");
            }
        }
    }
    say_times("servers", times);
}

#[test]
fn a_chief_that_is_killed_is_followed_by_one_that_takes_the_job_over() {
    let mut times = Vec::new();
    for run in 0..runs() {
        let mut random = Random::new(3000 + run);
        let job = job(&["--steps=400", "--step-ms=2"]);
        let mut running = job.start_all();
        running.trainers[0].wait_for_line(&["scheduled 0"], LONG);
        std::thread::sleep(Duration::from_millis(random.below(250)));
        running.trainers[0].signal(Signal::KILL);
        let killed = Instant::now();
        let former = running.trainers[0].wait(LONG).text;
        if former.contains("done: ") {
            continue;
        }
        running.trainers[0] = job.start_trainer(0);
        running.trainers[0].wait_for_line(&["begins at step "], LONG);
        times.push(killed.elapsed());
        let chief = end(running, &[]);
        assert!(chief.contains("done: 400 steps, exact"), "run {run}:\n{chief}");
    }
    say_times("chiefs", times);
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
    let chief = end(running, &[2]);
    assert!(chief.contains("done: 2000 steps, exact"), "{chief}");
}

/// How long the machine's owner stops a process, where `PHALANX_STOP_SECS` says so.
fn stop_secs() -> Option<f64> {
    std::env::var("PHALANX_STOP_SECS").ok().and_then(|text| text.parse().ok())
}

#[test]
fn a_chief_that_is_stopped_for_longer_than_the_lease_throws_nobody_out() {
    let job = job(&["--steps=2000", "--step-ms=20"]);
    let running = job.start_all();
    running.trainers[0].wait_for_line(&["scheduled 40"], LONG);
    for rest in [4000, 0] {
        running.trainers[0].signal(Signal::STOP);
        std::thread::sleep(Duration::from_secs_f64(stop_secs().unwrap_or(7.5)));
        running.trainers[0].signal(Signal::CONT);
        std::thread::sleep(Duration::from_millis(rest));
    }
    // Every worker ends well, none was replaced.
    let chief = end(running, &[]);
    assert!(chief.contains("done: 2000 steps, exact"), "{chief}");
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
        let chief = end(running, &[]);
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
        running.trainers[worker].signal(Signal::KILL);
        running.trainers[worker].wait(LONG);
    }
    std::thread::sleep(Duration::from_millis(300));
    running.trainers[2] = job.start_trainer(2);
    let chief = end(running, &[1, 3]);
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
