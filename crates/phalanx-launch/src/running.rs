//! A running job: carries out what [`Supervision`] decides and reacts to its processes.

use crate::durability::Logs;
use crate::guard::Order;
use crate::kills::Kills;
use crate::listeners::Listeners;
use crate::oom::OomKills;
use crate::participation::Participation;
use crate::process::{KILLED, Overdue, Process, ProcessEvent, Program};
use crate::supervise::{Action, AttemptEnd, Ending, Next, Supervision};
use crate::{Exit, Launch, Observer, Placed, Signals, TaskEnd};
use phalanx_base::{Code, Error, Result, Role, TaskId};
use phalanx_run::{
    ATTEMPT_VAR, Event, EventKind, JobUsage, Journal, OUTPUT_DIR_VAR, ProcessUsage, STATUS_DIR_VAR, StatusDir,
};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// How often the launcher checks what is due.
const ROUND: Duration = Duration::from_millis(20);
/// Lines of output that may wait to be shown; a task that prints faster is slowed down.
const QUEUE: usize = 4096;
/// Lines kept of each task for the report of a failure.
const LAST_LINES: usize = 12;

pub(crate) struct Running<'a> {
    launch: &'a Launch,
    logs: &'a Logs,
    observer: &'a mut dyn Observer,
    journal: Journal,
    supervision: Supervision,
    kills: Kills<'a>,
    processes: BTreeMap<TaskId, Process>,
    sender: SyncSender<ProcessEvent>,
    attempts: BTreeMap<TaskId, u32>,
    last_lines: BTreeMap<TaskId, Vec<String>>,
    ends: BTreeMap<TaskId, TaskEnd>,
    used: BTreeMap<TaskId, ProcessUsage>,
    /// The signals that were handled: Ctrl-C, SIGTERM.
    signals: (u32, u32),
    oom_kills: OomKills,
    listeners: Listeners,
    /// Whether dropped lines have been reported.
    drops_reported: bool,
}

impl<'a> Running<'a> {
    /// A job whose tasks have not been started, and the receiver for [`Running::run`].
    pub(crate) fn new(
        launch: &'a Launch,
        logs: &'a Logs,
        (observer, journal): (&'a mut dyn Observer, Journal),
        supervision: Supervision,
        kills: Kills<'a>,
    ) -> (Self, Receiver<ProcessEvent>) {
        let (sender, receiver) = sync_channel(QUEUE);
        let running = Self {
            launch,
            logs,
            observer,
            journal,
            supervision,
            kills,
            processes: BTreeMap::new(),
            sender,
            attempts: BTreeMap::new(),
            last_lines: BTreeMap::new(),
            ends: BTreeMap::new(),
            used: BTreeMap::new(),
            signals: (0, 0),
            oom_kills: OomKills::watch(),
            listeners: Listeners::of(launch),
            drops_reported: false,
        };
        (running, receiver)
    }

    /// Why the job ended, once it has.
    pub(crate) fn ending(&self) -> Option<Ending> {
        self.supervision.ending().cloned()
    }

    /// Takes how each task ended and its last lines.
    pub(crate) fn take_ends(&mut self) -> (BTreeMap<TaskId, TaskEnd>, BTreeMap<TaskId, Vec<String>>) {
        (std::mem::take(&mut self.ends), std::mem::take(&mut self.last_lines))
    }

    /// Writes what the tasks used into the run directory and returns it. Over ssh, the launchers on the nodes do.
    pub(crate) fn record_usage(&mut self) -> JobUsage {
        if self.launch.ssh.is_some() {
            return JobUsage::default();
        }
        let status = self.status_dir();
        let usage = JobUsage::new(&self.used, |task| status.read(task).ok().flatten().map(|(status, _)| status));
        if let Err(error) = usage.write(&self.launch.run) {
            let file = self.launch.run.usage_file();
            self.observer.warn(&format!("{} cannot be written: {error}", file.display()));
        }
        usage
    }

    /// Whether the job has several tasks of which none took part: no task listened on its `TF_CONFIG` address, and none reported
    /// a status.
    pub(crate) fn no_task_joined(&self) -> bool {
        self.listeners.none_seen() && !self.supervision.any_task_joined()
    }

    /// Runs the job to its end.
    pub(crate) fn run(&mut self, receiver: &Receiver<ProcessEvent>, signals: &Signals) -> Result<()> {
        loop {
            self.handle_signals(signals);
            for action in self.supervision.next(Instant::now()) {
                self.carry_out(action);
            }
            if self.supervision.is_over() && self.processes.is_empty() {
                while let Ok(event) = receiver.try_recv() {
                    self.take(event);
                }
                return Ok(());
            }
            match receiver.recv_timeout(ROUND) {
                Ok(event) => {
                    self.take(event);
                    // Bounded, because timers and Ctrl-C wait meanwhile.
                    for event in receiver.try_iter().take(QUEUE) {
                        self.take(event);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::new(Code::Internal, "the channel of the tasks' processes is closed"));
                }
            }
            self.give_up_stuck_tasks();
            self.report_journal_problems();
            self.listeners.look();
            self.inject_faults();
            self.observer.tick();
        }
    }

    /// Kills the tasks that `--kill` names, once the job has reached their step.
    fn inject_faults(&mut self) {
        let (victims, step) = self.kills.due();
        for task in victims {
            self.observer.warn(&format!("killing {task} at step {step}, as requested"));
            if let Some(process) = self.processes.get_mut(&task) {
                process.order(Order::Kill, Instant::now());
            }
        }
    }

    /// Kills the guards of killed tasks that do not exit, and continues without those that do not exit even then.
    fn give_up_stuck_tasks(&mut self) {
        let now = Instant::now();
        let overdue = self.processes.iter_mut().filter_map(|(task, process)| Some((*task, process.overdue(now)?)));
        for (task, what) in overdue.collect::<Vec<_>>() {
            let Some(process) = self.processes.get(&task) else { continue };
            let seconds = KILLED.as_secs();
            match what {
                Overdue::Guard(guard) => {
                    let program = process.pid.map_or_else(String::new, |pid| format!(", for process {pid}"));
                    self.observer.warn(&format!(
                        "{task} has not exited {seconds} s after SIGKILL: killing its guard (process {guard}{program})"
                    ));
                    process.kill_guard();
                }
                Overdue::Lost(guard) => {
                    let pid = process.pid.unwrap_or(guard);
                    self.ended(task, Exit::Stuck(pid), &Participation::default());
                }
            }
        }
    }

    fn report_journal_problems(&mut self) {
        for problem in self.journal.problems() {
            self.observer.warn(&problem);
        }
        if self.journal.dropped() > 0 && !std::mem::replace(&mut self.drops_reported, true) {
            let logs = self.launch.run.logs();
            let text = format!(
                "the disk under {} is too slow: log lines are being dropped, the job continues",
                logs.display()
            );
            self.observer.warn(&text);
        }
    }

    /// Waits a moment until the last lines are on disk, and reports what is not.
    pub(crate) fn close(&mut self) {
        let written = self.journal.close();
        self.report_journal_problems();
        let logs = self.launch.run.logs();
        let dropped = self.journal.dropped();
        if dropped > 0 {
            self.observer.warn(&format!("{dropped} log lines and events were dropped from {}", logs.display()));
        }
        if !written {
            let text =
                format!("the disk under {} is not responding: the last log lines were not written", logs.display());
            self.observer.warn(&text);
        }
    }

    fn handle_signals(&mut self, signals: &Signals) {
        let received = signals.received();
        for (before, now, ctrl_c) in [(self.signals.0, received.0, true), (self.signals.1, received.1, false)] {
            (before..now).for_each(|_| self.supervision.stop(Instant::now(), ctrl_c));
        }
        self.signals = received;
    }

    fn carry_out(&mut self, action: Action) {
        let (task, order, kind, text) = match action {
            Action::Start(task, attempt) => return self.start(task, attempt),
            Action::Interrupt(task) => (task, Order::Interrupt, EventKind::StopRequested, "asked to stop (SIGINT)"),
            Action::Terminate(task) => (task, Order::Terminate, EventKind::StopRequested, "asked to stop (SIGTERM)"),
            Action::Kill(task) => (task, Order::Kill, EventKind::Killed, "did not stop and was killed"),
        };
        if let Some(process) = self.processes.get_mut(&task) {
            process.order(order, Instant::now());
        }
        self.record(Event::now(kind, Some(task), self.attempt(task), text));
    }

    fn attempt(&self, task: TaskId) -> u32 {
        self.attempts.get(&task).copied().unwrap_or(1)
    }

    /// Starts a task. A start that the operating system refuses counts as an exit of the task.
    fn start(&mut self, task: TaskId, attempt: u32) {
        let Some(placed) = self.launch.here.iter().find(|placed| placed.task == task) else { return };
        let program = match &self.launch.ssh {
            Some(ssh) => ssh.program(self.launch, placed),
            None => self.program(placed, attempt),
        };
        self.attempts.insert(task, attempt);
        let status = self.status_dir();
        let participation = move || Participation::read(&status, task, attempt);
        match Process::spawn((task, attempt), (&program, &self.launch.this), &self.sender, participation) {
            Ok(process) => drop(self.processes.insert(task, process)),
            Err(error) => {
                let why = error.why().unwrap_or(error.what()).to_owned();
                self.ended(task, Exit::NoResources(why), &Participation::default());
            }
        }
    }

    fn status_dir(&self) -> StatusDir {
        let status = self.launch.run.status();
        std::path::absolute(status.path()).map_or(status, StatusDir::at)
    }

    fn program(&self, placed: &Placed, attempt: u32) -> Program {
        let launch = self.launch;
        let mut env = vec![
            ("TF_CONFIG".to_owned(), launch.layout.tf_config(placed)),
            (STATUS_DIR_VAR.to_owned(), self.status_dir().path().display().to_string()),
            (ATTEMPT_VAR.to_owned(), attempt.to_string()),
            // Python buffers its output unless it is a terminal.
            ("PYTHONUNBUFFERED".to_owned(), "1".to_owned()),
        ];
        // Machines that share no disk would each have a directory of their own.
        if launch.layout.node_names().is_empty() {
            let dir = std::path::absolute(&launch.model_dir).unwrap_or_else(|_| launch.model_dir.clone());
            env.push((OUTPUT_DIR_VAR.to_owned(), dir.display().to_string()));
        }
        env.extend(self.logs.env());
        env.extend(launch.token.iter().map(|token| ("PHALANX_TOKEN".to_owned(), token.clone())));
        env.extend(launch.env.iter().cloned());
        Program { words: launch.program.clone(), env, feed: None }
    }

    fn take(&mut self, event: ProcessEvent) {
        match event {
            ProcessEvent::Line { task, at_ms, text } => self.line(task, at_ms, &text),
            ProcessEvent::Started { task, pid } => {
                if let Some(process) = self.processes.get_mut(&task) {
                    process.pid = Some(pid);
                }
                let event = Event::now(EventKind::Started, Some(task), self.attempt(task), format!("process {pid}"));
                self.record(Event { pid: Some(pid), ..event });
            }
            ProcessEvent::Used { task, usage } => self.used.entry(task).or_default().add(usage),
            ProcessEvent::Exited { task, attempt, exit, participation } => {
                // An attempt that was given up may exit after all.
                if self.attempt(task) == attempt && self.processes.contains_key(&task) {
                    self.ended(task, exit, &participation);
                }
            }
        }
    }

    fn line(&mut self, task: TaskId, at_ms: u64, text: &str) {
        // The launcher on a node prefixes each line with its task.
        let (task, text) = match self.launch.ssh.as_ref().and_then(|_| crate::terminal::unprefixed(text)) {
            Some((of, rest)) if self.launch.here.iter().any(|placed| placed.task == of) => (of, rest),
            _ => (task, text),
        };
        let text = without_task(task, text);
        self.journal.line(task, at_ms, text);
        let last = self.last_lines.entry(task).or_default();
        if last.len() == LAST_LINES {
            last.remove(0);
        }
        last.push(text.to_owned());
        self.observer.line(task, text);
    }

    fn ended(&mut self, task: TaskId, exit: Exit, participation: &Participation) {
        self.processes.remove(&task);
        participation.joined.iter().for_each(|&joined| self.supervision.joined(joined));
        let (attempt, stop_requested) = (self.attempt(task), self.supervision.stop_was_requested(task));
        let exit = match exit {
            Exit::Signal(9) if !stop_requested && self.oom_kills.any_new() => Exit::OutOfMemory,
            Exit::Code(0) if task.role != Role::Evaluator && self.supervision.never_joined(task) => Exit::NeverJoined,
            other => other,
        };
        let end = AttemptEnd { exit, relayed: participation.relayed };
        let next = self.supervision.ended(Instant::now(), task, &end);
        let event = Event::now(EventKind::Exited, Some(task), attempt, end.exit.to_string());
        self.record(Event { exit: Some(end.exit.code()), ..event });
        self.ends.insert(task, TaskEnd { task, attempts: attempt, exit: end.exit, stop_requested });
        let (kind, attempt, text) = match next {
            Next::Restart(pause) => (EventKind::Restarting, attempt + 1, format!("in {:.1} s", pause.as_secs_f32())),
            Next::GiveUp => (
                EventKind::GivenUp,
                attempt,
                "failed too often and is given up; the job continues without it".to_owned(),
            ),
            Next::Over => return,
        };
        self.record(Event::now(kind, Some(task), attempt, text));
    }

    /// Records an event and shows it.
    pub(crate) fn record(&mut self, event: Event) {
        self.journal.event(&event);
        self.observer.event(&event);
    }
}

/// A line without the name of its task, with which Phalanx programs begin a line; the launcher adds it anyway.
fn without_task(task: TaskId, text: &str) -> &str {
    text.strip_prefix(&task.to_string()).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_task_is_removed_from_its_lines() {
        let task: TaskId = "worker/1".parse().unwrap();
        for (line, shown) in [("worker/1: saved", "saved"), ("worker/10: saved", "worker/10: saved"), ("a: b", "a: b")]
        {
            assert_eq!(without_task(task, line), shown);
        }
    }
}
