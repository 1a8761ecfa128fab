//! What a person sees of a job in a terminal: verbs as cargo has them, every task's lines, one line at the bottom.

mod live;
mod paint;

use crate::{Happened, Kind, Report, RunDir, Watcher};
use live::Live;
use paint::Paint;
use phalanx_base::TaskId;
use serde_json::json;
use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Progress {
    /// A line at the bottom in a terminal, plain lines elsewhere.
    #[default]
    Auto,
    /// A line at the bottom, rewritten in place.
    Bar,
    /// A line now and then.
    Plain,
    /// One JSON object per line for everything.
    Json,
    /// The tasks' own lines only.
    None,
}

/// How often the bottom line is written anew, and how often a plain one comes.
const REDRAW: Duration = Duration::from_millis(200);
const PLAIN: Duration = Duration::from_secs(10);

/// Shows a job in this terminal.
pub struct Screen {
    progress: Progress,
    paint: Paint,
    live: Live,
    width: usize,
    tasks: Vec<TaskId>,
    drawn: bool,
    next: Instant,
    /// Whether the bottom line waits for the files to be read.
    due: bool,
    kills: Vec<(TaskId, u64)>,
    looked: Instant,
    /// Whether standard output is ours to write to.
    owns_stdout: bool,
    /// Asked to go: how they end is no news.
    told: BTreeSet<TaskId>,
}

impl Screen {
    /// A screen for these tasks; `Auto` is decided here. Colours follow the terminal, `NO_COLOR` and `TERM`.
    #[must_use]
    pub fn new(progress: Progress, run: &RunDir, tasks: &[TaskId]) -> Self {
        let terminal = std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let progress = match progress {
            Progress::Auto if terminal => Progress::Bar,
            Progress::Auto => Progress::Plain,
            chosen => chosen,
        };
        let width = tasks.iter().map(|task| task.to_string().len()).max().unwrap_or(0);
        let next = Instant::now() + if progress == Progress::Bar { REDRAW } else { PLAIN };
        let live = Live::new(run);
        Self {
            progress,
            paint: Paint::of_terminal(terminal),
            live,
            width,
            tasks: tasks.to_vec(),
            drawn: false,
            next,
            due: false,
            kills: Vec::new(),
            looked: Instant::now(),
            owns_stdout: true,
            told: BTreeSet::new(),
        }
    }

    /// Leaves standard output to the caller: what would go there goes to standard error.
    pub fn leave_stdout(&mut self) {
        self.owns_stdout = false;
        self.paint.out_is_err();
    }

    /// Has tasks killed when the job reaches a step, to show what happens then.
    pub fn kill_at(&mut self, kills: &[(TaskId, u64)]) {
        self.kills.extend(kills);
    }

    /// Those of the kills that are due. Each comes once.
    fn victims(&mut self) -> Vec<TaskId> {
        if self.kills.is_empty() || self.looked.elapsed() < REDRAW {
            return Vec::new();
        }
        self.looked = Instant::now();
        let Some(step) = self.live.seen().map(|view| view.step()) else {
            self.live.look();
            return Vec::new();
        };
        self.live.look();
        let due = self.kills.extract_if(.., |(_, at)| step >= *at).map(|(task, _)| task).collect::<Vec<_>>();
        due.iter().for_each(|task| self.warn(&format!("{task} is killed at step {step}, as was asked")));
        due
    }

    /// A line of the launcher itself: a verb and what it is about.
    pub fn say(&mut self, verb: &str, text: &str) {
        match self.progress {
            Progress::Json => self.put(&json!({ "kind": "message", "verb": verb, "text": text }).to_string()),
            Progress::None => {}
            _ => self.above(|screen| put_err(&format!("{} {text}", screen.paint.verb(verb)))),
        }
    }

    /// Something that should not be overlooked.
    pub fn warn(&mut self, text: &str) {
        match self.progress {
            Progress::Json => self.put(&json!({ "kind": "warning", "text": text }).to_string()),
            _ => self.above(|screen| put_err(&format!("{} {text}", screen.paint.warning("warning")))),
        }
    }

    /// The end of the job: what failed and why, or that all is well.
    pub fn finish(&mut self, report: &Report) {
        self.erase();
        for warning in report.warnings() {
            self.warn(&warning);
        }
        if self.progress == Progress::Json {
            let codes = report.tasks.iter().map(|(task, end)| (task.to_string(), json!(end.exit.code())));
            let codes: serde_json::Map<_, _> = codes.collect();
            let seconds = report.elapsed.as_secs_f64();
            let end =
                json!({ "kind": "end", "exit_code": report.exit_code(), "seconds": seconds, "exit_codes": codes });
            return self.put(&end.to_string());
        }
        match report.failure() {
            Some(failure) => put_err(&format!("\n{}", self.paint.failure(&failure))),
            None if report.exit_code() == 0 => self.say("Finished", &report.in_one_line()),
            None => self.say("Job", &report.in_one_line()),
        }
        let left = report.left();
        let rest = if left.is_empty() {
            "nothing left running".to_owned()
        } else {
            let pids: Vec<String> = left.iter().map(u32::to_string).collect();
            format!("left running, stuck in the kernel: process {}", pids.join(", "))
        };
        self.say("Stopped", &format!("{} tasks, {rest}", report.tasks.len()));
        self.say("Next", &format!("phalanx dashboard {}", report.run.root().display()));
    }

    fn above(&mut self, print: impl FnOnce(&Self)) {
        self.erase();
        print(self);
    }

    /// A line on standard output, where it is ours.
    fn put(&self, line: &str) {
        if self.owns_stdout { put_out(line) } else { put_err(line) }
    }

    fn erase(&mut self) {
        if std::mem::take(&mut self.drawn) {
            let _ = std::io::stderr().lock().write_all(b"\r\x1b[2K");
        }
    }

    /// Draws the bottom line, if the files were read since it was due.
    fn draw(&mut self) {
        let Some(view) = self.live.seen() else { return };
        let (line, trained, mut object) = (view.line(), view.trained(), view.json());
        drop(view);
        self.due = false;
        if line.is_empty() {
            return;
        }
        match self.progress {
            Progress::Bar => {
                // A terminal that does not know its width says 0.
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
    }
}

impl Watcher for Screen {
    fn event(&mut self, event: &Happened) {
        if self.progress == Progress::Json {
            return self.put(&event.to_json().to_string());
        }
        let Some(task) = event.task else { return };
        let text = format!("{task} {}", event.text);
        if matches!(event.kind, Kind::Told | Kind::Killed) {
            self.told.insert(task);
        }
        match (event.kind, &event.exit) {
            (Kind::Started, _) => self.say("Started", &format!("{task} ({})", event.text)),
            (Kind::Exited, Some(exit)) if exit.success() => self.say("Ended", &task.to_string()),
            (Kind::Exited, _) if self.told.contains(&task) => self.say("Ended", &format!("{task} ({})", event.text)),
            (Kind::Exited, _) => self.warn(&format!("{task} ended: {}", event.text)),
            (Kind::Restarting, _) => self.say("Restarting", &text),
            (Kind::Told, _) => self.say("Stopping", &text),
            (Kind::Killed | Kind::GivenUp, _) => self.warn(&text),
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

    fn tick(&mut self) -> Vec<TaskId> {
        if self.progress != Progress::None && Instant::now() >= self.next {
            self.next = Instant::now() + if self.progress == Progress::Bar { REDRAW } else { PLAIN };
            self.due = true;
            self.live.look();
        }
        if self.due {
            self.draw();
        }
        self.victims()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.erase();
    }
}

/// A line that a launcher printed for a task, taken apart: whose it is and what it says.
pub(crate) fn unprefixed(line: &str) -> Option<(TaskId, &str)> {
    let (label, text) = line.split_once(" | ")?;
    Some((label.trim_end().parse().ok()?, text))
}

/// A line on standard output; a closed pipe is no reason to fail.
fn put_out(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn put_err(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
