//! Launchers whose machine, disk or user causes trouble.

// A process of this program prints what the test that started it reads.
#![allow(clippy::print_stdout)]

use crate::support::{Job, ends_within, parent, text};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit, setrlimit};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Output};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// Waits until `condition` holds.
fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let last = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < last, "{what} did not happen within {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed()).expect("a process id")
}

fn number(path: &Path) -> Option<u32> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The contents of a stream so far, collected by a thread.
struct Collected {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: std::thread::JoinHandle<()>,
}

impl Collected {
    fn of(mut stream: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&bytes);
        let reader = std::thread::spawn(move || {
            let mut some = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut some) {
                into.lock().expect("no panic").extend(&some[..count]);
            }
        });
        Self { bytes, reader }
    }

    fn text(&self) -> String {
        text(&self.bytes.lock().expect("no panic"))
    }

    fn all(self) -> Vec<u8> {
        self.reader.join().expect("read");
        self.bytes.lock().expect("no panic").clone()
    }
}

/// A launcher whose output is collected while it runs.
struct Running {
    child: Child,
    out: Collected,
    err: Collected,
}

impl Running {
    fn start(job: &Job, flags: &[&str], script: &str) -> Self {
        let mut child = job.command(flags, script).spawn().expect("the launcher starts");
        let (out, err) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
        Self { child, out: Collected::of(out), err: Collected::of(err) }
    }

    fn stderr(&self) -> String {
        self.err.text()
    }

    fn ends(mut self, limit: Duration) -> Output {
        let status = ends_within(&mut self.child, limit);
        Output { status, stdout: self.out.all(), stderr: self.err.all() }
    }
}

#[test]
fn only_its_owner_may_read_what_a_job_leaves() {
    let job = Job::new();
    // A directory that an older launcher created for all users.
    std::fs::create_dir_all(job.dir.path().join("logs")).unwrap();
    std::fs::set_permissions(job.dir.path().join("logs"), PermissionsExt::from_mode(0o755)).unwrap();
    let output = job.run(&["--ps", "0", "--workers", "0"], "echo secret");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let mode = |path: &str| {
        let about = std::fs::metadata(job.dir.path().join(path)).expect(path);
        about.permissions().mode() & 0o777
    };
    for dir in ["logs", "logs/status"] {
        assert_eq!(mode(dir), 0o700, "{dir}");
    }
    for file in ["logs/job.json", "logs/events.jsonl", "logs/chief-0.log", "logs/lock"] {
        assert_eq!(mode(file), 0o600, "{file}");
    }
}

#[test]
fn a_second_launcher_in_one_directory_is_refused() {
    let job = Job::new();
    let mut first = Running::start(&job, &["--ps", "0", "--workers", "0"], "echo up >&2; sleep 600");
    let log = job.dir.path().join("logs/chief-0.log");
    until("the first launcher's task", || std::fs::read_to_string(&log).is_ok_and(|text| text.contains("up")));
    let described = std::fs::read_to_string(job.dir.path().join("logs/job.json")).unwrap();
    let second = job.run(&["--ps", "0", "--workers", "0"], "echo mine");
    let err = text(&second.stderr);
    assert_eq!(second.status.code(), Some(2), "{err}");
    assert!(err.contains("PX0117") && err.contains(&format!("process {}", first.child.id())), "{err}");
    assert_eq!(std::fs::read_to_string(job.dir.path().join("logs/job.json")).unwrap(), described);
    kill_process(pid_of(&first.child), Signal::INT).expect("it runs");
    assert_eq!(ends_within(&mut first.child, LIMIT).code(), Some(130));
}

/// Runs as a task in its own process: listens on its `TF_CONFIG` address until it is killed.
#[test]
fn a_task_that_listens() {
    if std::env::var_os("PHALANX_TEST_LISTEN").is_none() {
        return;
    }
    let config: serde_json::Value = serde_json::from_str(&std::env::var("TF_CONFIG").unwrap()).unwrap();
    let index = usize::try_from(config["task"]["index"].as_u64().unwrap()).unwrap();
    let role = config["task"]["type"].as_str().unwrap();
    let address = config["cluster"][role][index].as_str().unwrap();
    let listener = std::net::TcpListener::bind(address);
    println!("{} {address}", if listener.is_ok() { "listening" } else { "refused" });
    std::thread::sleep(Duration::from_secs(if role == "chief" { 2 } else { 600 }));
    listener.unwrap();
}

#[test]
fn no_port_is_lost_to_a_program_that_takes_all_free_ports() {
    const TASKS: usize = 24;
    let most = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: most.maximum, maximum: most.maximum }).expect("more files");
    let (over, grabbed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    // Takes ports as fast as possible, keeps each for a moment, and takes others.
    let grab = |_| {
        let (over, grabbed) = (Arc::clone(&over), Arc::clone(&grabbed));
        std::thread::spawn(move || {
            let mut held = std::collections::VecDeque::new();
            while !over.load(Ordering::Acquire) {
                held.extend(std::net::TcpListener::bind("127.0.0.1:0").ok());
                grabbed.store(held.len(), Ordering::Release);
                if held.len() > 2500 {
                    held.pop_front();
                }
            }
        })
    };
    let grabbers: Vec<_> = (0..2).map(grab).collect();
    until("the first ports", || grabbed.load(Ordering::Acquire) > 500);
    let job = Job::new();
    let own = std::env::current_exe().expect("a test has an executable");
    let own = own.to_str().expect("text").to_owned();
    let script = format!("exec {own} --exact trouble::a_task_that_listens --nocapture");
    let workers = (TASKS - 2).to_string();
    let mut command = job.command(&["--ps", "1", "--workers", &workers, "--worker-grace", "0"], &script);
    let child = command.env("PHALANX_TEST_LISTEN", "1").spawn().expect("the launcher starts");
    let output = child.wait_with_output().expect("it ends");
    over.store(true, Ordering::Release);
    grabbers.into_iter().for_each(|grabber| grabber.join().expect("no panic"));
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(out.matches("| listening").count(), TASKS, "{out}{err}");
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert!(!err.contains("no task listened"), "{err}");
}

#[test]
fn a_log_that_blocks_stops_neither_restarts_nor_ctrl_c() {
    let job = Job::new();
    std::fs::create_dir_all(job.dir.path().join("logs")).unwrap();
    // Opening it for writing blocks until somebody reads, which nobody does.
    let fifo = job.dir.path().join("logs/worker-0.log");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo runs").success());
    let script = r#"[ $role = chief ] && sleep 600
        seq 6000; echo attempt $PHALANX_ATTEMPT; [ $PHALANX_ATTEMPT = 2 ] && sleep 600; kill -9 $$"#;
    let running = Running::start(&job, &["--ps", "0", "--workers", "1"], script);
    until("the restart", || running.stderr().contains("Restarting worker/0"));
    // The terminal has every line.
    until("the second attempt", || running.out.text().contains("worker/0 | attempt 2"));
    until("the warning about dropped lines", || running.stderr().contains("is too slow"));
    kill_process(pid_of(&running.child), Signal::INT).expect("it runs");
    let output = running.ends(Duration::from_secs(30));
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{err}");
    let missing = err.lines().find(|line| line.contains("log lines and events were dropped from")).expect("a count");
    let count: u32 = missing.split_whitespace().nth(1).expect("a number").parse().expect(missing);
    assert!(count > 6000, "{missing}");
    assert!(err.contains("the disk under") && err.contains("is not responding"), "{err}");
    job.none_left_within(LIMIT);
}

#[test]
fn every_line_is_kept_if_the_disk_keeps_up() {
    let job = Job::new();
    let output = job.run(&["--ps", "0", "--workers", "0"], "seq 100000");
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{err}");
    let log = std::fs::read_to_string(job.dir.path().join("logs/chief-0.log")).unwrap();
    let numbers: Vec<u32> = log.lines().map(|line| line.split_once(' ').unwrap().1.parse().expect(line)).collect();
    assert!(numbers.into_iter().eq(1..=100_000), "{err}");
}

#[test]
fn a_stopped_guard_is_killed_with_its_task() {
    let job = Job::new();
    let pids = job.dir.path().join("pid");
    let script = format!("echo $$ > {}; trap '' INT; while :; do sleep 0.1; done", pids.display());
    let running = Running::start(&job, &["--ps", "0", "--workers", "0", "--kill-after", "0.2"], &script);
    until("the task's start", || number(&pids).is_some());
    let task = number(&pids).expect("a process id");
    let guard = parent(task).expect("a task has a guard");
    kill_process(Pid::from_raw(guard.cast_signed()).expect("a process id"), Signal::STOP).expect("it runs");
    kill_process(pid_of(&running.child), Signal::INT).expect("it runs");
    let output = running.ends(Duration::from_secs(40));
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{err}");
    assert!(err.contains(&format!("killing its guard (process {guard}, for process {task})")), "{err}");
    assert!(err.contains("nothing left running"), "{err}");
    job.none_left_within(LIMIT);
}

#[test]
fn a_start_that_the_system_refuses_is_retried() {
    let job = Job::new();
    let go = job.dir.path().join("go");
    let script = format!(
        r#"[ $role = chief ] && {{ while [ ! -e {0}.done ]; do sleep 0.05; done; exit 0; }}
        [ $PHALANX_ATTEMPT = 1 ] && {{ while [ ! -e {0} ]; do sleep 0.05; done; kill -9 $$; }}
        echo back; echo > {0}.done"#,
        go.display()
    );
    // One restart is allowed; refused starts do not count.
    let running = Running::start(&job, &["--ps", "0", "--workers", "1", "--max-restarts", "1"], &script);
    until("the worker's start", || running.stderr().contains("Started worker/0"));
    let pid = Some(pid_of(&running.child));
    let before = prlimit(pid, Resource::Nofile, Rlimit { current: Some(3), maximum: Some(1024) }).expect("its limits");
    std::fs::write(&go, "").unwrap();
    until("two refusals", || running.stderr().matches("could not be started: Too many open files").count() >= 2);
    prlimit(pid, Resource::Nofile, Rlimit { current: Some(1024), maximum: Some(1024) }).expect("its limits");
    let output = running.ends(LIMIT);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{before:?} {err}");
    assert!(out.contains("worker/0 | back"), "{out}{err}");
}

#[test]
fn a_worker_that_is_killed_too_often_is_given_up_and_the_job_succeeds() {
    let job = Job::new();
    let script = r#"[ $role = worker ] && kill -9 $$; [ $role = chief ] && sleep 2; exit 0"#;
    let output = job.run(&["--ps", "1", "--workers", "2", "--max-restarts", "0"], script);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{err}");
    for worker in ["worker/0", "worker/1"] {
        assert!(
            err.contains(&format!("{worker} failed too often and is given up; the job continues without it")),
            "{err}"
        );
        assert!(err.contains(&format!("{worker} failed: signal 9 (killed)")), "{err}");
    }
}

#[test]
fn a_removed_run_directory_is_created_again_and_reported_once() {
    let job = Job::new();
    let logs = job.dir.path().join("logs");
    let script = r#"while :; do echo here; sleep 0.1; done"#;
    let running = Running::start(&job, &["--ps", "0", "--workers", "0"], script);
    let log = logs.join("chief-0.log");
    let has_lines = || std::fs::metadata(&log).is_ok_and(|about| about.len() > 0);
    until("a log", has_lines);
    std::fs::remove_dir_all(job.dir.path()).unwrap();
    until("the warning", || running.stderr().contains("was removed while the job is running"));
    until("a new log", has_lines);
    assert!(logs.join("job.json").exists() && logs.join("status").is_dir());
    kill_process(pid_of(&running.child), Signal::INT).expect("it runs");
    let err = text(&running.ends(LIMIT).stderr);
    assert_eq!(err.matches("was removed while the job is running").count(), 1, "{err}");
    let events = std::fs::read_to_string(logs.join("events.jsonl")).unwrap();
    assert!(events.contains(r#""outcome":"stopped""#), "{events}");
}

#[test]
fn a_task_that_relayed_a_failure_is_not_the_root_cause() {
    let job = Job::new();
    let script = r#"trap '' TERM; if [ $role = ps ]; then
            while [ ! -e "$PHALANX_STATUS_DIR/chief" ]; do sleep 0.05; done
            echo "{\"attempt\": 1, \"code\": 503, \"relayed\": true}" > "$PHALANX_STATUS_DIR/ps-0.end"
            echo "the job failed"; exit 1
        fi
        echo > "$PHALANX_STATUS_DIR/chief"; while [ ! -e "$PHALANX_STATUS_DIR/ps-0.end" ]; do sleep 0.05; done
        sleep 1.5; echo "the disk is full"; exit 2"#;
    let output = job.run(&["--ps", "1", "--workers", "0"], script);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{err}");
    let report = err.split_once("job FAILED").expect("a headline").1;
    assert!(
        report.contains("root cause    chief/0: exit code 2 (usage or configuration)\n    the disk is full"),
        "{err}"
    );
    assert!(report.contains("also failed   ps/0 (exit code 1)"), "{err}");
}

#[test]
fn success_without_having_taken_part_is_a_failure() {
    let job = Job::new();
    // The server and the worker take part; the chief trains alone.
    let script = r#"[ $role = chief ] && { sleep 1; exit 0; }
        echo "{}" > "$PHALANX_STATUS_DIR/$role-$index.json"; sleep 600"#;
    let output = job.run(&["--ps", "1", "--workers", "1"], script);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("root cause    chief/0: PX0214: exit code 0, but it never joined the job"), "{err}");
    // Other programs report no status. If none of them listens either, a warning is due.
    let output = Job::new().run(&["--ps", "1", "--workers", "1"], "exit 0");
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert!(err.contains("3 independent programs ran"), "{err}");
    let err = text(&Job::new().run(&["--ps", "0", "--workers", "0"], "exit 0").stderr);
    assert!(!err.contains("independent programs"), "{err}");
}
