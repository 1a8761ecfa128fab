//! Starts launchers and finds their processes.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// An environment variable by which the processes of a test are found.
const MARK: &str = "PHALANX_TEST_MARK";

/// The example `launch`, which cargo builds with the tests.
fn launcher() -> PathBuf {
    let own = std::env::current_exe().expect("a test has an executable");
    let profile = own.parent().and_then(Path::parent).expect("it is in target/PROFILE/deps");
    profile.join("examples").join("launch")
}

/// A launcher to start, and its run directory.
pub(crate) struct Job {
    pub(crate) dir: tempfile::TempDir,
    mark: String,
}

impl Job {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let mark = format!("mark-{}-{number}", std::process::id());
        Self { dir: tempfile::tempdir().expect("a directory"), mark }
    }

    /// A launcher with these flags. Every task runs `script` in a shell with `$role` and `$index` set.
    pub(crate) fn command(&self, flags: &[&str], script: &str) -> Command {
        let mut command = Command::new(launcher());
        let read = r#"role=$(printf %s "$TF_CONFIG" | sed 's/.*"type": "\([a-z]*\)".*/\1/')
            index=$(printf %s "$TF_CONFIG" | sed 's/.*"index": \([0-9]*\).*/\1/')"#;
        if !flags.contains(&"--progress") {
            command.args(["--progress", "plain"]);
        }
        command
            .arg("--run-dir")
            .arg(self.dir.path())
            .args(flags)
            .args(["--", "sh", "-c", &format!("{read}\n{script}")])
            .env(MARK, &self.mark)
            .env_remove("PHALANX_TOKEN")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, flags: &[&str], script: &str) -> Output {
        Self::output(self.command(flags, script))
    }

    pub(crate) fn output(mut command: Command) -> Output {
        let mut child = command.spawn().expect("the launcher starts");
        let (out, err) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
        let read = |mut stream: Box<dyn Read + Send>| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                stream.read_to_end(&mut bytes).expect("output can be read");
                bytes
            })
        };
        let (out, err) = (read(Box::new(out)), read(Box::new(err)));
        let status = ends_within(&mut child, Duration::from_secs(60));
        Output { status, stdout: out.join().expect("read"), stderr: err.join().expect("read") }
    }

    /// The processes of this job that exist.
    pub(crate) fn left(&self) -> Vec<u32> {
        let wanted = format!("{MARK}={}", self.mark);
        let entries = std::fs::read_dir("/proc").expect("there is /proc").flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.filter(|pid| {
            let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ.split(|&byte| byte == 0).any(|one| one == wanted.as_bytes())
        })
        .collect()
    }

    /// Waits until no process is left, and returns how long that took.
    pub(crate) fn none_left_within(&self, limit: Duration) -> Duration {
        let from = Instant::now();
        loop {
            let left = self.left();
            if left.is_empty() {
                return from.elapsed();
            }
            if from.elapsed() > limit {
                let name = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                let names: Vec<String> =
                    left.iter().map(|pid| format!("{pid} {}", name(pid).replace('\0', " "))).collect();
                for pid in left {
                    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a process id");
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                }
                panic!("left after {limit:?}: {names:?}");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        for pid in self.left() {
            if let Some(pid) = rustix::process::Pid::from_raw(pid.cast_signed()) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

pub(crate) fn ends_within(child: &mut Child, limit: Duration) -> std::process::ExitStatus {
    let until = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait().expect("a child can be watched") {
            return status;
        }
        if Instant::now() > until {
            child.kill().expect("a child can be killed");
            panic!("the launcher did not end within {limit:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The parent of a process.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}
