//! Tasks as processes: their lines, their ends, their signals.

use crate::job::LONG;
use crate::wait_until;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What a task printed so far, on both streams.
#[derive(Default)]
struct Lines {
    all: Mutex<Vec<String>>,
    more: Condvar,
}

impl Lines {
    fn text(&self) -> String {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).join("\n")
    }
}

/// One process; ended when dropped.
pub struct Task {
    name: String,
    child: Child,
    lines: Arc<Lines>,
    readers: Vec<std::thread::JoinHandle<()>>,
}

/// How a process ended.
#[derive(Debug)]
pub struct End {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Everything it printed.
    pub text: String,
}

impl Task {
    /// Starts `program` with an environment without what the tests' own environment may say about jobs.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn start(name: &str, program: &Path, arguments: &[String], environment: &[(&str, String)]) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).env_remove("TF_CONFIG").env_remove("PHALANX_TOKEN");
        command.envs(environment.iter().map(|(key, value)| (key, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{name} cannot be started: {error}"));
        let lines = Arc::new(Lines::default());
        let streams: [Option<Box<dyn Read + Send>>; 2] = [
            child.stdout.take().map(|stream| Box::new(stream) as _),
            child.stderr.take().map(|stream| Box::new(stream) as _),
        ];
        let read = |stream| {
            let lines = Arc::clone(&lines);
            std::thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    lines.all.lock().unwrap_or_else(PoisonError::into_inner).push(line);
                    lines.more.notify_all();
                }
            })
        };
        let readers = streams.into_iter().flatten().map(read).collect();
        Self { name: name.to_owned(), child, lines, readers }
    }

    /// Everything printed so far.
    #[must_use]
    pub fn text(&self) -> String {
        self.lines.text()
    }

    /// Waits for a line that contains all of `words`.
    ///
    /// # Panics
    /// When it does not come in time.
    pub fn wait_for_line(&self, words: &[&str], deadline: Duration) {
        let until = Instant::now() + deadline;
        let mut all = self.lines.all.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if all.iter().any(|line| words.iter().all(|word| line.contains(word))) {
                return;
            }
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{}: no line with {words:?} in {deadline:?}:\n{}", self.name, all.join("\n"));
            all = self.lines.more.wait_timeout(all, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits for the end.
    ///
    /// # Panics
    /// When it does not come in time.
    pub fn wait(&mut self, deadline: Duration) -> End {
        let lines = Arc::clone(&self.lines);
        let what = || format!("{} still runs:\n{}", self.name, lines.text());
        let status = wait_until(deadline, what, || self.child.try_wait().expect("a child can be watched"));
        self.readers.drain(..).for_each(|reader| drop(reader.join()));
        End { code: status.code(), text: self.text() }
    }

    /// Waits for the end, which must have this exit code.
    ///
    /// # Panics
    /// When it does not come in time, or with another code.
    pub fn expect(&mut self, code: i32, deadline: Duration) -> End {
        let end = self.wait(deadline);
        assert_eq!(end.code, Some(code), "{} ended otherwise:\n{}", self.name, end.text);
        end
    }

    /// Sends a signal to this process alone.
    ///
    /// # Panics
    /// When the process has gone.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a child has an id");
        kill_process(pid, signal).unwrap_or_else(|error| panic!("{} takes no signal: {error}", self.name));
    }
}

impl Task {
    /// Kills this process and waits for its end.
    pub fn kill(&mut self) -> End {
        self.signal(Signal::KILL);
        self.wait(LONG)
    }

    /// Stops this process for a while: it stays, and does nothing.
    pub fn stop_for(&self, time: Duration) {
        self.signal(Signal::STOP);
        std::thread::sleep(time);
        self.signal(Signal::CONT);
    }

    /// Lets this process run for a while.
    pub fn run_for(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        // Already gone is as good as killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
