//! A job that runs: carries out what [`Supervision`] decides, and hears its processes.

use crate::guard::Order;
use crate::journal::Journal;
use crate::listeners::Listeners;
use crate::marks::Marks;
use crate::oom::OomKills;
use crate::process::{Heard, KILLED, Overdue, Process, Program};
use crate::supervise::{Do, End, Ending, Next, Supervision};
use crate::{Exit, Happened, Kind, Launch, Placed, STATUS_DIR, Signals, TaskEnd, Watcher};
use phalanx_base::{Code, Error, Result, Role, TaskId};
use std::collections::BTreeMap;
use std::path::PathBuf;
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
    oom_kills: OomKills,
    listeners: Listeners,
    /// Whether it was said that lines are dropped.
    said_dropped: bool,
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
            oom_kills: OomKills::watch(),
            listeners: Listeners::of(launch),
            said_dropped: false,
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

    /// Whether this is a job of several tasks of which none took part in anything: nobody listened at an address that
    /// `TF_CONFIG` gives, and nobody left a mark.
    pub(crate) fn nobody_joined(&self) -> bool {
        self.listeners.none_seen() && !self.supervision.anybody_joined()
    }

    /// Runs it to its end.
    pub(crate) fn go(&mut self, listen: &Receiver<Heard>, signals: &Signals) -> Result<()> {
        loop {
            self.hear_signals(signals);
            for order in self.supervision.next(Instant::now()) {
                self.carry_out(order);
            }
            if self.supervision.is_over() && self.processes.is_empty() {
                // Nobody is left who could say more.
                while let Ok(heard) = listen.try_recv() {
                    self.take(heard);
                }
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
            self.give_up_those_that_do_not_end();
            self.hear_the_journal();
            self.listeners.look();
            for victim in self.watcher.tick() {
                if let Some(process) = self.processes.get_mut(&victim) {
                    process.order(Order::Kill, Instant::now());
                }
            }
        }
    }

    /// Ends the guards of killed tasks that do not end, and goes on without those that do not end even then.
    fn give_up_those_that_do_not_end(&mut self) {
        let now = Instant::now();
        let overdue = self.processes.iter_mut().filter_map(|(task, process)| Some((*task, process.overdue(now)?)));
        for (task, what) in overdue.collect::<Vec<_>>() {
            let Some(process) = self.processes.get(&task) else { continue };
            let seconds = KILLED.as_secs();
            match what {
                Overdue::Guard(guard) => {
                    let program = process.pid.map_or_else(String::new, |pid| format!(", for process {pid}"));
                    self.watcher.warn(&format!(
                        "{task} has not exited {seconds} s after SIGKILL: killing its guard (process {guard}{program})"
                    ));
                    process.kill_guard();
                }
                Overdue::Lost(guard) => {
                    let pid = process.pid.unwrap_or(guard);
                    self.ended(task, Exit::Stuck(pid), &Marks::default());
                }
            }
        }
    }

    fn hear_the_journal(&mut self) {
        for trouble in self.journal.troubles() {
            self.watcher.warn(&trouble);
        }
        if self.journal.dropped() > 0 && !std::mem::replace(&mut self.said_dropped, true) {
            let logs = self.launch.run.logs();
            let text = format!(
                "the disk under {} is too slow: log lines are being dropped, the job continues",
                logs.display()
            );
            self.watcher.warn(&text);
        }
    }

    /// Waits a moment for the last lines to be on the disk; says what is not.
    pub(crate) fn close(&mut self) {
        let written = self.journal.close();
        self.hear_the_journal();
        let logs = self.launch.run.logs();
        let dropped = self.journal.dropped();
        if dropped > 0 {
            self.watcher.warn(&format!("{dropped} log lines and events were dropped from {}", logs.display()));
        }
        if !written {
            let text =
                format!("the disk under {} is not responding: the last log lines were not written", logs.display());
            self.watcher.warn(&text);
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

    fn carry_out(&mut self, order: Do) {
        let (task, order, kind, text) = match order {
            Do::Start(task, attempt) => return self.start(task, attempt),
            Do::Interrupt(task) => (task, Order::Interrupt, Kind::Told, "asked to stop (SIGINT)"),
            Do::Tell(task) => (task, Order::Terminate, Kind::Told, "asked to stop (SIGTERM)"),
            Do::Kill(task) => (task, Order::Kill, Kind::Killed, "did not go by itself and was killed"),
        };
        if let Some(process) = self.processes.get_mut(&task) {
            process.order(order, Instant::now());
        }
        self.happened(Happened::now(kind, Some(task), self.attempt(task), text));
    }

    fn attempt(&self, task: TaskId) -> u32 {
        self.attempts.get(&task).copied().unwrap_or(1)
    }

    /// Starts a task. A start that the operating system refuses is an end like others: the job goes on.
    fn start(&mut self, task: TaskId, attempt: u32) {
        let Some(placed) = self.launch.here.iter().find(|placed| placed.task == task) else { return };
        let program = match &self.launch.ssh {
            Some(ssh) => ssh.program(self.launch, placed),
            None => self.program(placed, attempt),
        };
        self.attempts.insert(task, attempt);
        let status = self.status_dir();
        let marks = move || Marks::read(&status, task, attempt);
        match Process::spawn((task, attempt), &program, &self.heard, marks) {
            Ok(process) => drop(self.processes.insert(task, process)),
            Err(error) => {
                let why = error.why().unwrap_or(error.what()).to_owned();
                self.ended(task, Exit::NoResources(why), &Marks::default());
            }
        }
    }

    fn status_dir(&self) -> PathBuf {
        let status = self.launch.run.status();
        std::path::absolute(&status).unwrap_or(status)
    }

    fn program(&self, placed: &Placed, attempt: u32) -> Program {
        let launch = self.launch;
        let mut env = vec![
            ("TF_CONFIG".to_owned(), launch.layout.tf_config(placed)),
            (STATUS_DIR.to_owned(), self.status_dir().display().to_string()),
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
                if let Some(process) = self.processes.get_mut(&task) {
                    process.pid = Some(pid);
                }
                let event = Happened::now(Kind::Started, Some(task), self.attempt(task), format!("process {pid}"));
                self.happened(Happened { pid: Some(pid), ..event });
            }
            Heard::Ended { task, attempt, exit, marks } => {
                // A life that was given up before may end after all.
                if self.attempt(task) == attempt && self.processes.contains_key(&task) {
                    self.ended(task, exit, &marks);
                }
            }
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
        self.journal.line(task, at_ms, text);
        let last = self.last_lines.entry(task).or_default();
        if last.len() == LAST_LINES {
            last.remove(0);
        }
        last.push(text.to_owned());
        self.watcher.line(task, text);
    }

    fn ended(&mut self, task: TaskId, exit: Exit, marks: &Marks) {
        self.processes.remove(&task);
        marks.joined.iter().for_each(|&joined| self.supervision.joined(joined));
        let (attempt, told) = (self.attempt(task), self.supervision.was_told(task));
        let exit = match exit {
            Exit::Signal(9) if !told && self.oom_kills.any_new() => Exit::OutOfMemory,
            Exit::Code(0) if task.role != Role::Evaluator && self.supervision.stayed_away(task) => Exit::NeverJoined,
            other => other,
        };
        let end = End { exit, relayed: marks.relayed };
        let next = self.supervision.ended(Instant::now(), task, &end);
        let event = Happened::now(Kind::Exited, Some(task), attempt, end.exit.to_string());
        self.happened(Happened { exit: Some(end.exit.clone()), ..event });
        self.ends.insert(task, TaskEnd { task, attempts: attempt, exit: end.exit, told });
        let (kind, attempt, text) = match next {
            Next::Restart(pause) => {
                (Kind::Restarting, attempt + 1, format!("starts again in {:.1} s", pause.as_secs_f32()))
            }
            Next::GiveUp => {
                (Kind::GivenUp, attempt, "failed too often and is given up; the job continues without it".to_owned())
            }
            Next::Over => return,
        };
        self.happened(Happened::now(kind, Some(task), attempt, text));
    }

    /// Writes down what happened, and shows it.
    pub(crate) fn happened(&mut self, event: Happened) {
        self.journal.event(&event);
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
