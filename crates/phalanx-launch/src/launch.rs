//! Runs a job: starts its tasks, listens, carries out what [`crate::Supervision`] decides.

use crate::guard::Order;
use crate::process::{Heard, Process, Program};
use crate::run_dir::{Journal, describe};
use crate::supervise::{Do, Ending, Supervision};
use crate::{Happened, Kind, Layout, Placed, Report, Rules, RunDir, STATUS_DIR, Signals, TaskEnd};
use phalanx_base::{Code, Error, Result, TaskId};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// How often the launcher looks at the clock.
const ROUND: Duration = Duration::from_millis(20);
/// Output that waits to be shown; a task that prints faster is slowed down.
const QUEUE: usize = 4096;
/// Lines kept of each task for the report of a failure.
const LAST_LINES: usize = 12;

/// Sees what happens, for a terminal.
pub trait Watcher {
    /// Something happened to the job or a task.
    fn event(&mut self, event: &Happened);
    /// A task printed a line.
    fn line(&mut self, task: TaskId, text: &str);
    /// Something is not as it should be, and the job goes on.
    fn warn(&mut self, text: &str);
    /// Some time has passed; names tasks that are to be killed now, to show what happens then.
    fn tick(&mut self) -> Vec<TaskId> {
        Vec::new()
    }
}

/// A job to be launched.
///
/// ```no_run
/// use phalanx_launch::{Launch, Layout, Progress, Rules, RunDir, Screen, Shape, Signals, new_token};
/// // A program that launches itself: its `main` begins with `phalanx_launch::guard_if_asked()`.
/// let layout = Layout::local(&Shape { ps: 2, workers: 2, evaluator: true, chief: "chief" })?;
/// let run = RunDir::at("runs/demo");
/// let launch = Launch {
///     here: layout.tasks().to_vec(),
///     layout,
///     program: vec!["/proc/self/exe".into(), "demo-task".into()],
///     env: Vec::new(),
///     model_dir: run.root().into(),
///     run,
///     token: Some(new_token()?),
///     rules: Rules::default(),
///     ssh: None,
/// };
/// let tasks: Vec<_> = launch.here.iter().map(|placed| placed.task).collect();
/// let mut screen = Screen::new(Progress::Auto, &launch.run, &tasks);
/// screen.kill_at(&[("ps/0".parse()?, 500)]);
/// let report = launch.run(&Signals::listen()?, &mut screen)?;
/// screen.finish(&report);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Launch {
    /// The whole job.
    pub layout: Layout,
    /// Those of its tasks that are launched here.
    pub here: Vec<Placed>,
    /// The program and its arguments, the same for every task.
    pub program: Vec<OsString>,
    /// More of their environment.
    pub env: Vec<(String, String)>,
    /// Where logs go.
    pub run: RunDir,
    /// Where the program keeps checkpoints and event files; only noted.
    pub model_dir: PathBuf,
    /// What every call between tasks must carry; handed on as `PHALANX_TOKEN`.
    pub token: Option<String>,
    /// Who is started again, and how patient everybody is.
    pub rules: Rules,
    /// Start the tasks of every node on that node.
    pub ssh: Option<crate::Ssh>,
}

struct Running<'a> {
    launch: &'a Launch,
    watcher: &'a mut dyn Watcher,
    journal: Journal,
    supervision: Supervision,
    processes: BTreeMap<TaskId, Process>,
    heard: SyncSender<Heard>,
    attempts: BTreeMap<TaskId, u32>,
    last_lines: BTreeMap<TaskId, Vec<String>>,
    ends: BTreeMap<TaskId, TaskEnd>,
    asked: (u32, u32),
    complained: bool,
}

impl Launch {
    /// Runs the job to its end; nothing is left when this returns.
    ///
    /// # Errors
    /// When the run directory cannot be written or a guard cannot be started. A job that fails is no error here: see
    /// [`Report::ending`].
    pub fn run(&self, signals: &Signals, watcher: &mut dyn Watcher) -> Result<Report> {
        if self.here.is_empty() {
            return Err(Error::new(Code::Flags, "there is no task to launch"));
        }
        let words: Vec<String> = self.program.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let journal = Journal::open(&self.run, &describe(&self.layout, &words, &self.model_dir))?;
        let started = Instant::now();
        let units = self.units();
        let supervision = Supervision::new(started, &units, self.layout.chief(), self.rules.clone());
        let (heard, listen) = sync_channel(QUEUE);
        let mut running = Running {
            launch: self,
            watcher,
            journal,
            supervision,
            processes: BTreeMap::new(),
            heard,
            attempts: BTreeMap::new(),
            last_lines: BTreeMap::new(),
            ends: BTreeMap::new(),
            asked: (0, 0),
            complained: false,
        };
        running.happened(Happened::now(Kind::Launched, None, 0, self.layout.in_words()))?;
        running.go(&listen, signals)?;
        let Some(ending) = running.supervision.ending().cloned() else {
            return Err(Error::new(Code::Internal, "the job ended without an end"));
        };
        let (ends, last_lines) = (std::mem::take(&mut running.ends), std::mem::take(&mut running.last_lines));
        let report = Report::new(ending, ends, last_lines, started.elapsed(), self.run.clone());
        let text = report.in_one_line();
        let finished = Happened::now(Kind::Finished, None, 0, text);
        running.keep(|journal| journal.event(&finished));
        running.watcher.event(&finished);
        Ok(report)
    }

    /// Who is started: every task here, or over ssh one process for each node, named after its trainer.
    fn units(&self) -> Vec<TaskId> {
        let mut nodes = std::collections::BTreeSet::new();
        let first = |placed: &&Placed| self.ssh.is_none() || nodes.insert(placed.node);
        self.here.iter().filter(first).map(|placed| placed.task).collect()
    }
}

impl Running<'_> {
    fn go(&mut self, listen: &Receiver<Heard>, signals: &Signals) -> Result<()> {
        loop {
            self.hear_signals(signals);
            for order in self.supervision.next(Instant::now()) {
                self.carry_out(order)?;
            }
            if self.supervision.is_over() && self.processes.is_empty() {
                // Nobody is left who could say more.
                while let Ok(heard) = listen.try_recv() {
                    self.take(heard)?;
                }
                self.keep(Journal::flush);
                return Ok(());
            }
            match listen.recv_timeout(ROUND) {
                Ok(heard) => {
                    self.take(heard)?;
                    // A burst is taken at once, but not for ever: the clock and Ctrl-C wait.
                    for heard in listen.try_iter().take(QUEUE) {
                        self.take(heard)?;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(Error::new(Code::Internal, "nobody is heard")),
            }
            self.keep(Journal::flush);
            for victim in self.watcher.tick() {
                if let Some(process) = self.processes.get_mut(&victim) {
                    process.order(Order::Kill);
                }
            }
        }
    }

    fn hear_signals(&mut self, signals: &Signals) {
        let seen = signals.seen();
        let (before_c, before_term) = self.asked;
        for _ in before_c..seen.0 {
            self.supervision.stop(Instant::now(), true);
        }
        for _ in before_term..seen.1 {
            self.supervision.stop(Instant::now(), false);
        }
        self.asked = seen;
    }

    fn carry_out(&mut self, order: Do) -> Result<()> {
        let (task, order, kind, text) = match order {
            Do::Start(task, attempt) => return self.start(task, attempt),
            Do::Interrupt(task) => (task, Order::Interrupt, Kind::Told, "asked to stop (SIGINT)"),
            Do::Tell(task) => (task, Order::Terminate, Kind::Told, "asked to stop (SIGTERM)"),
            Do::Kill(task) => (task, Order::Kill, Kind::Killed, "did not go by itself and was killed"),
        };
        if let Some(process) = self.processes.get_mut(&task) {
            process.order(order);
        }
        let attempt = self.attempts.get(&task).copied().unwrap_or(1);
        self.happened(Happened::now(kind, Some(task), attempt, text))
    }

    fn start(&mut self, task: TaskId, attempt: u32) -> Result<()> {
        let Some(placed) = self.launch.here.iter().find(|placed| placed.task == task) else { return Ok(()) };
        let program = match &self.launch.ssh {
            Some(ssh) => ssh.program(self.launch, placed),
            None => self.program(placed, attempt),
        };
        self.attempts.insert(task, attempt);
        self.processes.insert(task, Process::spawn(task, &program, &self.heard)?);
        Ok(())
    }

    fn program(&self, placed: &Placed, attempt: u32) -> Program {
        let launch = self.launch;
        let status = std::path::absolute(launch.run.status()).unwrap_or_else(|_| launch.run.status());
        let mut env = vec![
            ("TF_CONFIG".to_owned(), launch.layout.tf_config(placed)),
            (STATUS_DIR.to_owned(), status.display().to_string()),
            ("PHALANX_ATTEMPT".to_owned(), attempt.to_string()),
            // Python keeps lines back when nobody seems to read them.
            ("PYTHONUNBUFFERED".to_owned(), "1".to_owned()),
        ];
        env.extend(launch.token.iter().map(|token| ("PHALANX_TOKEN".to_owned(), token.clone())));
        env.extend(launch.env.iter().cloned());
        Program { words: launch.program.clone(), env, feed: None }
    }

    fn take(&mut self, heard: Heard) -> Result<()> {
        match heard {
            Heard::Line { task, at_ms, text } => self.line(task, at_ms, &text),
            Heard::Started { task, pid } => {
                let attempt = self.attempts.get(&task).copied().unwrap_or(1);
                let event = Happened::now(Kind::Started, Some(task), attempt, format!("process {pid}"));
                self.happened(Happened { pid: Some(pid), ..event })
            }
            Heard::Ended { task, exit } => self.ended(task, exit),
        }
    }

    fn line(&mut self, task: TaskId, at_ms: u64, text: &str) -> Result<()> {
        // A node's launcher says whose line it is.
        let (task, text) = match self.launch.ssh.as_ref().and_then(|_| crate::screen::unprefixed(text)) {
            Some((of, rest)) if self.launch.here.iter().any(|placed| placed.task == of) => (of, rest),
            _ => (task, text),
        };
        // Programs of ours begin a line with their task's name, which stands before it anyway.
        let text = own_words(task, text);
        self.keep(|journal| journal.line(task, at_ms, text));
        let last = self.last_lines.entry(task).or_default();
        if last.len() == LAST_LINES {
            last.remove(0);
        }
        last.push(text.to_owned());
        self.watcher.line(task, text);
        Ok(())
    }

    fn ended(&mut self, task: TaskId, exit: crate::Exit) -> Result<()> {
        self.processes.remove(&task);
        let attempt = self.attempts.get(&task).copied().unwrap_or(1);
        let told = self.supervision.was_told(task);
        let pause = self.supervision.ended(Instant::now(), task, &exit);
        let event = Happened::now(Kind::Exited, Some(task), attempt, exit.to_string());
        self.happened(Happened { exit: Some(exit.clone()), ..event })?;
        self.ends.insert(task, TaskEnd { task, attempts: attempt, exit, told });
        if let Some(pause) = pause {
            let text = format!("starts again in {:.1} s", pause.as_secs_f32());
            self.happened(Happened::now(Kind::Restarting, Some(task), attempt + 1, text))?;
        }
        Ok(())
    }

    /// Writes something down. A disk that is full does not stop training: it is said once, and tried again.
    fn keep(&mut self, write: impl FnOnce(&mut Journal) -> Result<()>) {
        match write(&mut self.journal) {
            Err(error) if !self.complained => {
                self.complained = true;
                self.watcher.warn(&format!("the job goes on, but not all of its logs are kept: {error}"));
            }
            _ => {}
        }
    }

    fn happened(&mut self, event: Happened) -> Result<()> {
        self.keep(|journal| journal.flush().and_then(|()| journal.event(&event)));
        self.watcher.event(&event);
        Ok(())
    }
}

/// A line without the name of its task at its beginning.
fn own_words(task: TaskId, text: &str) -> &str {
    text.strip_prefix(&task.to_string()).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(text)
}

/// The exit code of the launcher itself.
#[must_use]
pub(crate) fn exit_code(ending: &Ending) -> u8 {
    match ending {
        Ending::Success => 0,
        Ending::Failed(_, exit) => match exit.code() {
            code @ (2 | 126 | 127) => code as u8,
            _ if exit.class() == crate::Class::Retryable => 138,
            _ => 1,
        },
        Ending::Stopped(true) => 130,
        Ending::Stopped(false) => 143,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_s_name_stands_before_its_line_once() {
        let task: TaskId = "worker/1".parse().unwrap();
        for (line, shown) in [("worker/1: saved", "saved"), ("worker/10: saved", "worker/10: saved"), ("a: b", "a: b")]
        {
            assert_eq!(own_words(task, line), shown);
        }
    }
}
