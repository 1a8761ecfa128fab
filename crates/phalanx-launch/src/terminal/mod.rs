//! The display of a job in a terminal: status lines like cargo's, the tasks' output, one line of progress at the bottom.

mod live;
mod paint;

use crate::{Observer, Report};
use live::Live;
use paint::Paint;
use phalanx_base::TaskId;
use phalanx_run::{Event, EventKind, SharedTailer};
use serde_json::json;
use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// How progress is displayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Progress {
    /// A line at the bottom of a terminal, plain lines elsewhere.
    #[default]
    Auto,
    /// A line at the bottom that is updated in place.
    Bar,
    /// A line every 10 seconds.
    Plain,
    /// Everything as JSON, one object per line.
    Json,
    /// Only the tasks' output.
    None,
}

/// How often the bottom line is redrawn, and how often a plain line is printed.
const REDRAW: Duration = Duration::from_millis(200);
const PLAIN: Duration = Duration::from_secs(10);

/// Displays a job in this terminal.
pub struct TerminalUi {
    progress: Progress,
    paint: Paint,
    tailer: Option<SharedTailer>,
    started: Instant,
    width: usize,
    tasks: Vec<TaskId>,
    drawn: bool,
    next: Instant,
    /// Whether standard output may be written.
    owns_stdout: bool,
    /// Tasks that were asked to stop, so that their exit is no warning.
    stop_requested: BTreeSet<TaskId>,
    problem_shown: bool,
}

impl Progress {
    /// Replaces `Auto` by what suits standard error.
    pub(crate) fn resolve(self) -> Self {
        match self {
            Self::Auto if is_terminal() => Self::Bar,
            Self::Auto => Self::Plain,
            chosen => chosen,
        }
    }

    /// The time between two displays.
    pub(crate) fn interval(self) -> Duration {
        if self == Self::Bar { REDRAW } else { PLAIN }
    }
}

fn is_terminal() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

impl TerminalUi {
    /// A display for these tasks. Without a `tailer` it shows no progress. Colours follow the terminal, `NO_COLOR` and `TERM`.
    #[must_use]
    pub fn new(progress: Progress, tailer: Option<SharedTailer>, tasks: &[TaskId]) -> Self {
        let progress = progress.resolve();
        Self {
            progress,
            paint: Paint::of_terminal(is_terminal()),
            tailer,
            started: Instant::now(),
            width: tasks.iter().map(|task| task.to_string().len()).max().unwrap_or(0),
            tasks: tasks.to_vec(),
            drawn: false,
            next: Instant::now() + progress.interval(),
            owns_stdout: true,
            stop_requested: BTreeSet::new(),
            problem_shown: false,
        }
    }

    /// Leaves standard output to the caller: everything goes to standard error.
    pub fn leave_stdout(&mut self) {
        self.owns_stdout = false;
        self.paint.out_is_err();
    }

    /// Prints a status line: a verb and its object.
    pub fn status(&mut self, verb: &str, text: &str) {
        match self.progress {
            Progress::Json => self.put(&json!({ "kind": "message", "verb": verb, "text": text }).to_string()),
            Progress::None => {}
            _ => self.above(|ui| put_err(&format!("{} {text}", ui.paint.verb(verb)))),
        }
    }

    /// Prints a warning.
    pub fn warn(&mut self, text: &str) {
        match self.progress {
            Progress::Json => self.put(&json!({ "kind": "warning", "text": text }).to_string()),
            _ => self.above(|ui| put_err(&format!("{} {text}", ui.paint.warning("warning")))),
        }
    }

    /// Prints how the job ended, and why if it failed.
    pub fn finish(&mut self, report: &Report) {
        self.erase();
        for warning in report.warnings() {
            self.warn(&warning);
        }
        if self.progress == Progress::Json {
            let codes = report.tasks.iter().map(|(task, end)| (task.to_string(), json!(end.exit.code())));
            let codes: serde_json::Map<_, _> = codes.collect();
            let seconds = report.elapsed.as_secs_f64();
            let end = json!({ "kind": "end", "exit_code": report.exit_code(), "seconds": seconds, "exit_codes": codes, "usage": report.usage.roles });
            return self.put(&end.to_string());
        }
        match report.failure() {
            Some(failure) => put_err(&format!("\n{}", self.paint.failure(&failure))),
            None if report.exit_code() == 0 => self.status("Finished", &report.in_one_line()),
            None => self.status("Job", &report.in_one_line()),
        }
        report.usage.lines().iter().for_each(|line| self.status("Used", line));
        let left = report.left();
        let rest = if left.is_empty() {
            "nothing left running".to_owned()
        } else {
            let pids: Vec<String> = left.iter().map(u32::to_string).collect();
            format!("left running, stuck in the kernel: process {}", pids.join(", "))
        };
        self.status("Stopped", &format!("{} tasks, {rest}", report.tasks.len()));
        self.status("Next", &format!("phalanx dashboard {}", report.run.root().display()));
    }

    fn above(&mut self, print: impl FnOnce(&Self)) {
        self.erase();
        print(self);
    }

    /// Prints a line on standard output, if that may be written.
    fn put(&self, line: &str) {
        if self.owns_stdout { put_out(line) } else { put_err(line) }
    }

    fn erase(&mut self) {
        if std::mem::take(&mut self.drawn) {
            let _ = std::io::stderr().lock().write_all(b"\r\x1b[2K");
        }
    }

    /// Shows the progress and returns whether it could be read.
    fn draw(&mut self) -> bool {
        let Some(state) = self.tailer.as_ref().and_then(SharedTailer::try_state) else { return false };
        let live = Live { state: &state, started: self.started };
        let (line, trained, mut object) = (live.line(), live.trained(), live.json());
        let problem = state.problem.as_ref().map(ToString::to_string);
        drop(state);
        if let Some(problem) = problem
            && !std::mem::replace(&mut self.problem_shown, true)
        {
            self.warn(&problem);
        }
        if line.is_empty() {
            return true;
        }
        match self.progress {
            Progress::Bar => {
                // A terminal of unknown width reports 0.
                let columns = rustix::termios::tcgetwinsize(std::io::stderr()).map_or(0, |size| size.ws_col);
                let columns = if columns == 0 { 80 } else { columns.max(20) };
                let cut: String = line.chars().take(columns as usize - 1).collect();
                let text = format!("\r\x1b[2K{}", self.paint.bottom(&cut));
                let mut err = std::io::stderr().lock();
                let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
                self.drawn = true;
            }
            Progress::Plain if trained => {}
            Progress::Plain => put_err(&format!("{} {line}", self.paint.verb("Training"))),
            Progress::Json => {
                object["kind"] = json!("progress");
                self.put(&object.to_string());
            }
            Progress::Auto | Progress::None => {}
        }
        true
    }
}

impl Observer for TerminalUi {
    fn event(&mut self, event: &Event) {
        if self.progress == Progress::Json {
            return self.put(&event.to_line());
        }
        let Some(task) = event.task else { return };
        let text = format!("{task} {}", event.text);
        if matches!(event.kind, EventKind::StopRequested | EventKind::Killed) {
            self.stop_requested.insert(task);
        }
        match (event.kind, event.exit) {
            (EventKind::Started, _) => self.status("Started", &format!("{task} ({})", event.text)),
            (EventKind::Exited, Some(0)) => self.status("Ended", &task.to_string()),
            (EventKind::Exited, _) if self.stop_requested.contains(&task) => {
                self.status("Ended", &format!("{task} ({})", event.text));
            }
            (EventKind::Exited, _) => self.warn(&format!("{task} ended: {}", event.text)),
            (EventKind::Restarting, _) => self.status("Restarting", &text),
            (EventKind::StopRequested, _) => self.status("Stopping", &text),
            (EventKind::Killed | EventKind::GivenUp, _) => self.warn(&text),
            _ => {}
        }
    }

    fn line(&mut self, task: TaskId, text: &str) {
        if self.progress == Progress::Json {
            return self.put(&json!({ "kind": "line", "task": task.to_string(), "text": text }).to_string());
        }
        self.erase();
        let at = self.tasks.iter().position(|&one| one == task).unwrap_or(0);
        let label = format!("{:<width$}", task.to_string(), width = self.width);
        self.put(&format!("{} | {text}", self.paint.task(at, &label)));
    }

    fn warn(&mut self, text: &str) {
        Self::warn(self, text);
    }

    fn tick(&mut self) {
        // While files are being read, the display waits for the next call.
        if self.progress != Progress::None && Instant::now() >= self.next && self.draw() {
            self.next = Instant::now() + self.progress.interval();
        }
    }
}

impl Drop for TerminalUi {
    fn drop(&mut self) {
        self.erase();
    }
}

/// Splits a line that a launcher printed for a task into the task and its text.
pub(crate) fn unprefixed(line: &str) -> Option<(TaskId, &str)> {
    let (label, text) = line.split_once(" | ")?;
    Some((label.trim_end().parse().ok()?, text))
}

/// Prints a line on standard output. A closed pipe is ignored.
fn put_out(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn put_err(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
