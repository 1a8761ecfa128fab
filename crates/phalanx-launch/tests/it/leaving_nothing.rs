//! However a launcher ends, its tasks end with it.
//!
//! `PHALANX_KILLS=50 PHALANX_CTRL_C=20 cargo test -p phalanx-launch --test it leaving_nothing -- --nocapture` repeats it often and
//! checks the documented times: nothing left 2 s after `kill -9`, back within 5 s after Ctrl-C.

use crate::support::{Job, ends_within, parent};
use rustix::process::{Pid, Signal, kill_process};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Tasks that obey signals, that ignore them, that have children in their own sessions, and that die all the time.
const SCRIPT: &str = r#"
case $role in
  worker) trap '' INT TERM; setsid sleep 600 & while :; do sleep 0.1; done ;;
  ps) (setsid sh -c 'sleep 600 & sleep 600' &); sleep 600 ;;
  evaluator) sleep 0.1; kill -9 $$ ;;
  *) sleep 600 & wait ;;
esac"#;
const FLAGS: [&str; 8] = ["--ps", "2", "--workers", "2", "--evaluator", "--max-restarts", "1000", "--no-dashboard"];

/// How often to repeat, and the time limit: the documented one if the variable is set, else a generous one.
fn rounds(variable: &str, few: u32, documented: Duration) -> (u32, Duration) {
    match std::env::var(variable).ok().and_then(|text| text.parse().ok()) {
        Some(count) => (count, documented),
        None => (few, Duration::from_secs(30)),
    }
}

/// Moments from 0 to 1.5 s, the same in every run.
fn moments(count: u32) -> impl Iterator<Item = Duration> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    (0..count).map(move |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        Duration::from_micros(state % 1_500_000)
    })
}

fn signal_after(signal: Signal, moment: Duration) -> (Job, std::process::Child) {
    let job = Job::new();
    let mut command = job.command(&FLAGS, SCRIPT);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the launcher starts");
    std::thread::sleep(moment);
    let pid = Pid::from_raw(child.id().cast_signed()).expect("a process id");
    kill_process(pid, signal).expect("it runs");
    (job, child)
}

#[test]
fn nothing_is_left_when_the_launcher_is_killed() {
    let (count, limit) = rounds("PHALANX_KILLS", 4, Duration::from_secs(2));
    let mut longest = Duration::ZERO;
    for moment in moments(count) {
        let (job, mut child) = signal_after(Signal::KILL, moment);
        child.wait().expect("it was killed");
        longest = longest.max(job.none_left_within(limit));
    }
    eprintln!("kill -9 at {count} moments: nothing left after at most {longest:.2?}");
}

#[test]
fn ctrl_c_comes_back_with_nothing_left() {
    let (count, limit) = rounds("PHALANX_CTRL_C", 2, Duration::from_secs(5));
    let mut longest = Duration::ZERO;
    for moment in moments(count) {
        let from = Instant::now();
        let (job, mut child) = signal_after(Signal::INT, moment);
        let asked = from + moment;
        let status = ends_within(&mut child, limit);
        longest = longest.max(asked.elapsed());
        assert!(matches!(status.code(), Some(130) | None), "{status}");
        job.none_left_within(limit.saturating_sub(asked.elapsed()).max(Duration::from_millis(500)));
    }
    eprintln!("Ctrl-C at {count} moments: back after at most {longest:.2?}");
}

#[test]
fn a_task_whose_guard_is_killed_dies_with_it_and_is_restarted() {
    let job = Job::new();
    let script = r#"echo $$ > "$0.$PHALANX_ATTEMPT"; [ $PHALANX_ATTEMPT = 2 ] && exit 0; sleep 600"#;
    let pids = job.dir.path().join("pid");
    let mut command = job.command(&["--ps", "0", "--workers", "0"], script);
    let mut child =
        command.arg(&pids).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the launcher starts");
    let file = pids.with_extension("1");
    let until = Instant::now() + Duration::from_secs(30);
    let first = loop {
        if let Some(pid) = std::fs::read_to_string(&file).ok().and_then(|text| text.trim().parse::<u32>().ok()) {
            break pid;
        }
        assert!(Instant::now() < until, "the task did not start");
        std::thread::sleep(Duration::from_millis(10));
    };
    let guard = parent(first).expect("a task has a guard");
    assert_ne!(guard, child.id(), "the guard is between launcher and task");
    kill_process(Pid::from_raw(guard.cast_signed()).expect("a process id"), Signal::KILL).expect("it runs");
    let status = ends_within(&mut child, Duration::from_secs(30));
    assert_eq!(status.code(), Some(0), "the task's second attempt succeeded");
    assert!(pids.with_extension("2").exists());
    job.none_left_within(Duration::from_secs(30));
}
