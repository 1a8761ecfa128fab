//! How a job ended, with the first failure as the headline.

use crate::{Ending, Exit, ExitClass};
use phalanx_base::{Role, TaskId};
use phalanx_run::{JobUsage, RunDir};
use std::collections::BTreeMap;
use std::time::Duration;

/// How one task ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskEnd {
    /// The task.
    pub task: TaskId,
    /// How often it was started.
    pub attempts: u32,
    /// The exit of its last process.
    pub exit: Exit,
    /// Whether the launcher had asked it to stop.
    pub stop_requested: bool,
}

/// How a job ended.
#[derive(Clone, Debug)]
pub struct Report {
    /// Why it ended.
    pub ending: Ending,
    /// How each task ended.
    pub tasks: BTreeMap<TaskId, TaskEnd>,
    /// How long it took.
    pub elapsed: Duration,
    /// Where the logs are.
    pub run: RunDir,
    /// What its processes used, by role; empty for a job over ssh, whose nodes have a `usage.json` each.
    pub usage: JobUsage,
    last_lines: BTreeMap<TaskId, Vec<String>>,
    joined: bool,
}

impl Report {
    pub(crate) fn new(
        ending: Ending,
        tasks: BTreeMap<TaskId, TaskEnd>,
        last_lines: BTreeMap<TaskId, Vec<String>>,
        elapsed: Duration,
        run: RunDir,
        joined: bool,
    ) -> Self {
        Self { ending, tasks, elapsed, run, usage: JobUsage::default(), last_lines, joined }
    }

    /// The launcher's own exit code: 0 if the chief succeeded, else the code of the first failure as schedulers read it.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match &self.ending {
            Ending::Success => 0,
            Ending::Failed(_, exit) => match exit.code() {
                code @ (2 | 126 | 127) => code as u8,
                _ if exit.class() == ExitClass::Retryable => 138,
                _ => 1,
            },
            Ending::Stopped(true) => 130,
            Ending::Stopped(false) => 143,
        }
    }

    /// The end of the job in one line.
    #[must_use]
    pub fn in_one_line(&self) -> String {
        match &self.ending {
            Ending::Success => format!("the job succeeded after {}", clock(self.elapsed)),
            Ending::Failed(task, exit) => format!("the job failed after {}: {task}, {exit}", clock(self.elapsed)),
            Ending::Stopped(true) => format!("stopped by Ctrl-C after {}", clock(self.elapsed)),
            Ending::Stopped(false) => format!("stopped by SIGTERM after {}", clock(self.elapsed)),
        }
    }

    /// The report of a failed job in several lines; `None` for other jobs.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        let Ending::Failed(root, exit) = &self.ending else { return None };
        let attempts = self.tasks.get(root).map_or(1, |end| end.attempts);
        let attempt = if attempts > 1 { format!(", attempt {attempts}") } else { String::new() };
        let mut text = format!("job FAILED after {}\n\nroot cause    {root}{attempt}: {exit}\n", clock(self.elapsed));
        for line in self.last_lines.get(root).into_iter().flatten() {
            text += &format!("    {line}\n");
        }
        let (mut stopped, mut failed) = (Vec::new(), Vec::new());
        for end in self.tasks.values().filter(|end| end.task != *root) {
            let how = if end.exit.success() { "done".to_owned() } else { end.exit.to_string() };
            let list = if end.stop_requested || end.exit.success() { &mut stopped } else { &mut failed };
            list.push(format!("{} ({how})", end.task));
        }
        for (label, list) in [("also failed", failed), ("also stopped", stopped)] {
            if !list.is_empty() {
                text += &format!("{label:<14}{}\n", list.join(", "));
            }
        }
        text += &format!("{:<14}{}\n", "not retried", self.why_not_restarted(exit, attempts));
        text += &format!("{:<14}{}\n", "log", self.run.log_of(*root).display());
        Some(text)
    }

    fn why_not_restarted(&self, exit: &Exit, attempts: u32) -> String {
        match (exit, exit.class()) {
            (Exit::NoResources(_), _) => "it could not be started for as long as --restart-window allows".to_owned(),
            (Exit::Stuck(_), _) => "its process is still there and may hold its port".to_owned(),
            (_, ExitClass::Retryable) if attempts > 1 => {
                format!("it was started {attempts} times (--max-restarts within --restart-window)")
            }
            (_, ExitClass::Retryable) => "restarts are off (--restart, --max-restarts)".to_owned(),
            (Exit::Signal(_), _) => "it would crash again; --restart ROLE=on-failure restarts it anyway".to_owned(),
            (Exit::NotStarted(_), _) => "the program cannot be executed".to_owned(),
            (Exit::NeverJoined, _) => "a restart would not help; check that the program reads TF_CONFIG".to_owned(),
            _ => "this exit code marks a permanent failure".to_owned(),
        }
    }

    /// Processes that were killed and have not exited.
    #[must_use]
    pub fn left(&self) -> Vec<u32> {
        let stuck = |end: &TaskEnd| if let Exit::Stuck(pid) = end.exit { Some(pid) } else { None };
        self.tasks.values().filter_map(stuck).collect()
    }

    /// Failures that did not end the job, such as an evaluator's, and tasks that did not form a job.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let failed = self.tasks.values().filter(|end| !end.exit.success() && !end.stop_requested);
        let failed = failed.filter(|end| end.task.role == Role::Evaluator || self.ending == Ending::Success);
        let log = |task| self.run.log_of(task).display().to_string();
        let mut warnings: Vec<String> =
            failed.map(|end| format!("{} failed: {}; see {}", end.task, end.exit, log(end.task))).collect();
        if self.ending == Ending::Success && !self.joined {
            let count = self.tasks.len();
            warnings.push(format!(
                "no task listened on its TF_CONFIG address: {count} independent programs ran, not one job; check that the \
                 program reads TF_CONFIG"
            ));
        }
        warnings
    }
}

/// Formats a duration as `0:41` or `1:02:03`.
pub(crate) fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_is_the_headline() {
        let id = |text: &str| text.parse::<TaskId>().unwrap();
        let end = |task: &str, exit, stop_requested| {
            (id(task), TaskEnd { task: id(task), attempts: 1, exit, stop_requested })
        };
        let tasks = [
            end("worker/2", Exit::Code(1), false),
            end("chief/0", Exit::Code(138), false),
            end("ps/0", Exit::Signal(15), true),
        ];
        let lines = [(id("worker/2"), vec!["labels contain NaN".to_owned()])];
        let ending = Ending::Failed(id("worker/2"), Exit::Code(1));
        let time = Duration::from_secs(2470);
        let report = Report::new(ending, tasks.into(), lines.into(), time, RunDir::at("runs/x"), true);
        assert_eq!(
            report.failure().unwrap(),
            "job FAILED after 41:10\n\nroot cause    worker/2: exit code 1\n    labels contain NaN\n\
             also failed   chief/0 (exit code 138 (infrastructure))\nalso stopped  ps/0 (signal 15 (terminated))\n\
             not retried   this exit code marks a permanent failure\n\
             log           runs/x/logs/worker-2.log\n"
        );
        assert_eq!(report.exit_code(), 1);
    }
}
