//! A job that runs: carries out what [`Supervision`] decides, and hears its processes.

use crate::guard::Order;
use crate::process::{Heard, Process, Program};
use crate::run_dir::Journal;
use crate::supervise::{Do, Ending, Supervision};
use crate::{Happened, Kind, Launch, Placed, STATUS_DIR, Signals, TaskEnd, Watcher};
use phalanx_base::{Code, Error, Result, TaskId};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// How often the launcher looks at the clock.
const ROUND: Duration = Duration::from_millis(20);
/// Output that waits to be shown; a task that prints faster is slowed down.
const QUEUE: usize = 4096;
/// Lines kept of each task for the report of a failure.
const LAST_LINES: usize = 12;

pub(crate) struct Running<'a> {
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

impl<'a> Running<'a> {
    /// A job of which nothing runs yet, and where its processes are heard.
    pub(crate) fn new(
        launch: &'a Launch,
        watcher: &'a mut dyn Watcher,
        journal: Journal,
        supervision: Supervision,
    ) -> (Self, Receiver<Heard>) {
        let (heard, listen) = sync_channel(QUEUE);
        let running = Self {
            launch,
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
        (running, listen)
    }

    /// How the job ended, once it has.
    pub(crate) fn ending(&self) -> Option<Ending> {
        self.supervision.ending().cloned()
    }

    /// How each task ended, and the last that it said.
    pub(crate) fn take_ends(&mut self) -> (BTreeMap<TaskId, TaskEnd>, BTreeMap<TaskId, Vec<String>>) {
        (std::mem::take(&mut self.ends), std::mem::take(&mut self.last_lines))
    }

    /// Runs it to its end.
    pub(crate) fn go(&mut self, listen: &Receiver<Heard>, signals: &Signals) -> Result<()> {
        loop {
            self.hear_signals(signals);
            for order in self.supervision.next(Instant::now()) {
                self.carry_out(order)?;
            }
            if self.supervision.is_over() && self.processes.is_empty() {
                // Nobody is left who could say more.
                while let Ok(heard) = listen.try_recv() {
                    self.take(heard);
                }
                self.keep(Journal::flush);
                return Ok(());
            }
            match listen.recv_timeout(ROUND) {
                Ok(heard) => {
                    self.take(heard);
                    // A burst is taken at once, but not for ever: the clock and Ctrl-C wait.
                    for heard in listen.try_iter().take(QUEUE) {
                        self.take(heard);
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
        self.happened(Happened::now(kind, Some(task), self.attempt(task), text));
        Ok(())
    }

    fn attempt(&self, task: TaskId) -> u32 {
        self.attempts.get(&task).copied().unwrap_or(1)
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

    fn take(&mut self, heard: Heard) {
        match heard {
            Heard::Line { task, at_ms, text } => self.line(task, at_ms, &text),
            Heard::Started { task, pid } => {
                let event = Happened::now(Kind::Started, Some(task), self.attempt(task), format!("process {pid}"));
                self.happened(Happened { pid: Some(pid), ..event });
            }
            Heard::Ended { task, exit } => self.ended(task, exit),
        }
    }

    fn line(&mut self, task: TaskId, at_ms: u64, text: &str) {
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
    }

    fn ended(&mut self, task: TaskId, exit: crate::Exit) {
        self.processes.remove(&task);
        let attempt = self.attempt(task);
        let told = self.supervision.was_told(task);
        let pause = self.supervision.ended(Instant::now(), task, &exit);
        let event = Happened::now(Kind::Exited, Some(task), attempt, exit.to_string());
        self.happened(Happened { exit: Some(exit.clone()), ..event });
        self.ends.insert(task, TaskEnd { task, attempts: attempt, exit, told });
        if let Some(pause) = pause {
            let text = format!("starts again in {:.1} s", pause.as_secs_f32());
            self.happened(Happened::now(Kind::Restarting, Some(task), attempt + 1, text));
        }
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

    /// Writes down what happened, and shows it.
    pub(crate) fn happened(&mut self, event: Happened) {
        self.keep(|journal| journal.flush().and_then(|()| journal.event(&event)));
        self.watcher.event(&event);
    }
}

/// A line without the name of its task at its beginning.
fn own_words(task: TaskId, text: &str) -> &str {
    text.strip_prefix(&task.to_string()).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(text)
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
