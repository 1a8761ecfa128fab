//! Keeps a [`RunState`] up to date with the files of a run.

use crate::curves::Curves;
use crate::loads::Loads;
use crate::summary::METRIC_TAGS;
use crate::tail::Tail;
use crate::timestamp::parse_timestamp;
use crate::{Event, EventKind, JobFile, JobState, JobUsage, LogLine, RunDir, RunState, TaskState, TaskView};
use crate::{Point, Setting, checkpoints, format, now_ms, settings, statistics};
use phalanx_base::{Result, TaskId};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// How often directories are listed and processes looked at.
const SLOW: Duration = Duration::from_secs(1);
/// A task's report is stale after this time.
const FRESH: Duration = Duration::from_secs(10);

/// Reads the files of a run while they grow, or after the run has ended.
///
/// Files are the interface: the reader may be in the launcher's process, in another one, or on another machine. Missing or
/// damaged files are no error; what they would contain is not shown.
#[derive(Debug)]
pub struct RunTailer {
    run: RunDir,
    with_lines: bool,
    state: RunState,
    events: Tail,
    logs: BTreeMap<TaskId, Tail>,
    curves: Curves,
    loads: Loads,
    slow: Option<Instant>,
    /// When the placement of each task was written that has been read.
    placed: BTreeMap<TaskId, SystemTime>,
    /// The step of the newest evaluation of each run below the model directory.
    evaluated: BTreeMap<String, i64>,
}

impl RunTailer {
    /// Follows `run`, including its logs if `with_lines` is set. Nothing is read before [`poll`](Self::poll).
    #[must_use]
    pub fn new(run: &RunDir, with_lines: bool) -> Self {
        Self {
            events: Tail::new(run.events_file()),
            run: run.clone(),
            with_lines,
            state: RunState::default(),
            logs: BTreeMap::new(),
            curves: Curves::default(),
            loads: Loads::default(),
            slow: None,
            placed: BTreeMap::new(),
            evaluated: BTreeMap::new(),
        }
    }

    /// What is known about the run.
    #[must_use]
    pub fn state(&self) -> &RunState {
        &self.state
    }

    /// The settings that the run was started with, to compare runs by: its command line, the keys of its job file, and the number
    /// of its tasks.
    #[must_use]
    pub fn settings(&self) -> Vec<Setting> {
        settings::read(self.state.job.as_ref(), self.run.root(), &self.model_dir())
    }

    /// The run.
    #[must_use]
    pub fn run(&self) -> &RunDir {
        &self.run
    }

    /// Follows the logs too, from now on.
    pub fn follow_lines(&mut self) {
        self.with_lines = true;
    }

    /// Reads what has been added to the files.
    pub fn poll(&mut self) {
        let slow = self.slow.is_none_or(|at| at.elapsed() >= SLOW);
        if self.state.job.is_none() {
            self.read_job();
        }
        self.read_events();
        self.read_statuses();
        if slow {
            self.slow = Some(Instant::now());
            let model_dir = self.model_dir();
            self.curves.look(&model_dir);
            self.find_checkpoints(&model_dir);
            self.state.statistics = statistics::read(&model_dir, self.state.statistics.take());
            self.read_placements();
            self.read_usage();
            self.look_at_processes();
        }
        self.curves.read(&mut self.state.curves);
        self.find_evaluations();
        if self.with_lines {
            self.read_logs();
        }
    }

    /// Takes what was read; keeps the first error, because a newer version of Phalanx explains all that follow.
    fn keep<T>(problem: &mut Option<phalanx_base::Error>, read: Result<Option<T>>) -> Option<T> {
        read.unwrap_or_else(|error| {
            problem.get_or_insert(error);
            None
        })
    }

    fn read_job(&mut self) {
        let Some(job) = Self::keep(&mut self.state.problem, self.run.read_job()) else { return };
        for task in &job.tasks {
            let (node, address) = (task.node.clone(), task.address.clone());
            self.state.tasks.push(TaskView { node, address, ..TaskView::new(task.task) });
        }
        self.state.job = Some(job);
    }

    fn read_events(&mut self) {
        let mut lines = Vec::new();
        while self.events.read(|line| lines.push(line.to_owned())) {}
        for event in lines.iter().filter_map(|line| serde_json::from_str::<Event>(line).ok()) {
            self.apply(&event);
            self.state.add_event(event);
        }
    }

    fn apply(&mut self, event: &Event) {
        match (event.kind, event.task) {
            (EventKind::Launched, _) => {
                // The directory is used again: what was before is history.
                let version = format::check(event.format_version.unwrap_or(0).into(), &self.run.events_file());
                (self.state.problem, self.state.job) = (version.err(), None);
                self.state.tasks.clear();
                self.state.placements.clear();
                self.placed.clear();
                self.state.usage = None;
                self.read_job();
                (self.state.state, self.state.ended_ms) = (JobState::Running, None);
            }
            (EventKind::Finished, _) => {
                self.state.ended_ms = Some(event.at_ms);
                self.state.state = event.outcome.into();
            }
            (_, Some(task)) => {
                let index = self.state.index(task);
                update(&mut self.state.tasks[index], event);
            }
            _ => {}
        }
    }

    fn read_statuses(&mut self) {
        let (now, status_dir) = (SystemTime::now(), self.run.status());
        let RunState { tasks, problem, .. } = &mut self.state;
        for view in tasks {
            let Some((mut status, written)) = Self::keep(problem, status_dir.read(view.task)) else { continue };
            let old = now.duration_since(written).unwrap_or_default() >= FRESH;
            view.stale = old || !matches!(view.state, TaskState::Running | TaskState::Waiting);
            if view.stale {
                status.steps_per_s = None;
            }
            view.status = Some(status);
        }
    }

    /// Reads where the variables lie. Tasks write that once, when they have created them, and again after a restart.
    fn read_placements(&mut self) {
        let status_dir = self.run.status();
        let RunState { tasks, placements, problem, .. } = &mut self.state;
        for task in tasks.iter().map(|view| view.task) {
            let written = status_dir.placement_written(task);
            if written.is_none() || self.placed.get(&task) == written.as_ref() {
                continue;
            }
            if let Some(placement) = Self::keep(problem, status_dir.read_placement(task)) {
                placements.insert(task, placement);
                self.placed.extend(written.map(|written| (task, written)));
            }
        }
    }

    /// Reads what the job used, which the launcher writes just before its end.
    fn read_usage(&mut self) {
        let RunState { usage, state, problem, .. } = &mut self.state;
        let ended = !matches!(state, JobState::Unknown | JobState::Running | JobState::Abandoned);
        if ended && usage.is_none() {
            *usage = Self::keep(problem, JobUsage::read(&self.run));
        }
    }

    /// Where the program keeps its files. The directory may appear after the launcher's; a run that was copied to another
    /// machine has the files beside its logs.
    fn model_dir(&self) -> PathBuf {
        let given = self.state.job.as_ref().map(|job| Path::new(&job.directory).join(&job.model_dir));
        given.filter(|dir| dir.is_dir() && dir.is_absolute()).unwrap_or_else(|| self.run.root().to_owned())
    }

    fn find_checkpoints(&mut self, model_dir: &Path) {
        let found = checkpoints::list(model_dir);
        let known = std::mem::replace(&mut self.state.checkpoints, found.clone());
        for new in found.iter().filter(|new| known.iter().all(|old| old.step != new.step)) {
            let text = format!("step {}, {:.1} MiB", new.step, new.bytes as f64 / 1_048_576.0);
            self.add_derived(EventKind::Checkpoint, new.at_ms, new.step.cast_signed(), text);
        }
    }

    /// Turns new points of curves below the run, which are evaluations, into events.
    fn find_evaluations(&mut self) {
        let mut newest: BTreeMap<&str, (usize, &str, Point)> = BTreeMap::new();
        for curve in self.state.curves.iter().filter(|curve| !curve.run.is_empty()) {
            let rank = METRIC_TAGS.iter().position(|tag| *tag == curve.tag);
            if let (Some(rank), Some(point)) = (rank, curve.points.last())
                && newest.get(curve.run.as_str()).is_none_or(|(best, ..)| rank < *best)
            {
                newest.insert(&curve.run, (rank, &curve.tag, *point));
            }
        }
        let mut events = Vec::new();
        for (run, (_, tag, point)) in newest {
            if self.evaluated.get(run).is_none_or(|&step| point.step > step) {
                let text = format!("{run}: step {}, {tag} {:.4}", point.step, point.value);
                events.push((run.to_owned(), point, text));
            }
        }
        for (run, point, text) in events {
            let at_ms = (point.wall_time.max(0.0) * 1000.0) as u64;
            self.add_derived(EventKind::Evaluation, at_ms, point.step, text);
            self.evaluated.insert(run, point.step);
        }
    }

    fn add_derived(&mut self, kind: EventKind, at_ms: u64, step: i64, text: String) {
        self.state.add_event(Event { at_ms, step: Some(step), ..Event::now(kind, None, 0, text) });
    }

    fn look_at_processes(&mut self) {
        let running = self.state.state == JobState::Running;
        for view in &mut self.state.tasks {
            let pid = view.pid.filter(|_| running && view.state == TaskState::Running && view.node.is_empty());
            (view.cpu, view.memory) = pid.and_then(|pid| self.loads.of(pid)).unzip();
        }
        let job = self.state.job.as_ref().filter(|_| running);
        if job.and_then(JobFile::launcher_is_alive) == Some(false) {
            self.state.state = JobState::Abandoned;
            self.state.ended_ms = Some(now_ms());
            for view in self.state.tasks.iter_mut().filter(|view| view.state == TaskState::Running) {
                (view.state, view.last_error) = (TaskState::Stopped, "its launcher is gone".to_owned());
            }
        }
    }

    fn read_logs(&mut self) {
        let mut lines = Vec::new();
        for (index, view) in self.state.tasks.iter().enumerate() {
            let tail = self.logs.entry(view.task).or_insert_with(|| Tail::new(self.run.log_of(view.task)));
            while tail.read(|line| lines.push(parse(index, line))) {}
        }
        lines.sort_by_key(|line| line.at_ms);
        lines.into_iter().for_each(|line| self.state.add_line(line));
    }
}

fn update(view: &mut TaskView, event: &Event) {
    match event.kind {
        EventKind::Started => {
            view.state = TaskState::Running;
            (view.pid, view.attempt, view.since_ms) = (event.pid, event.attempt.max(1), event.at_ms);
        }
        EventKind::StopRequested | EventKind::Killed => view.stop_requested = true,
        EventKind::Exited => {
            (view.exit, view.since_ms) = (event.exit, event.at_ms);
            (view.cpu, view.memory) = (None, None);
            (view.state, view.last_error) = match view.exit {
                Some(0) => (TaskState::Done, String::new()),
                _ if view.stop_requested => (TaskState::Stopped, event.text.clone()),
                _ => (TaskState::Failed, event.text.clone()),
            };
        }
        EventKind::Restarting => view.state = TaskState::Restarting,
        _ => {}
    }
}

/// Parses a line of a log: its time, a space, its text.
fn parse(task: usize, line: &str) -> LogLine {
    let stamped = line.split_once(' ').and_then(|(time, text)| Some((parse_timestamp(time)?, text)));
    let (at_ms, text) = stamped.unwrap_or((0, line));
    LogLine { at_ms, task, text: text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FORMAT_VERSION, Outcome};
    use serde_json::{Value, json};

    #[test]
    fn a_model_directory_that_appears_late_is_found_and_a_used_directory_starts_again() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::at(dir.path().join("run"));
        std::fs::create_dir_all(run.logs()).unwrap();
        let model = dir.path().join("model");
        let job = json!({ "directory": dir.path(), "model_dir": "model", "tasks": [{ "task": "chief/0" }] });
        std::fs::write(run.job_file(), job.to_string()).unwrap();
        let mut tailer = RunTailer::new(&run, true);
        let mut poll = |events: &str| {
            let old = std::fs::read_to_string(run.events_file()).unwrap_or_default();
            std::fs::write(run.events_file(), old + events).unwrap();
            tailer.slow = None;
            tailer.poll();
            let state = tailer.state();
            (state.state, state.checkpoints.len(), state.tasks[0].state)
        };
        let launched = "{\"at\":1,\"kind\":\"launched\"}\n";
        assert_eq!(poll(launched), (JobState::Running, 0, TaskState::Waiting));
        std::fs::create_dir_all(&model).unwrap();
        std::fs::write(model.join("model.ckpt-3.index"), "x").unwrap();
        let started = "{\"at\":2,\"kind\":\"started\",\"task\":\"chief/0\",\"attempt\":1}\n";
        assert_eq!(poll(started), (JobState::Running, 1, TaskState::Running));
        let exited = "{\"at\":3,\"kind\":\"exited\",\"task\":\"chief/0\",\"exit\":1}\n";
        let finished = "{\"at\":4,\"kind\":\"finished\",\"outcome\":\"failed\",\"text\":\"x\"}\n";
        assert_eq!(poll(&format!("{exited}not JSON\n{finished}")), (JobState::Failed, 1, TaskState::Failed));
        assert_eq!(poll(launched), (JobState::Running, 1, TaskState::Waiting));
    }

    /// The state of a run whose event file contains these lines.
    fn state_of(lines: &[String]) -> RunState {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::at(dir.path());
        std::fs::create_dir_all(run.logs()).unwrap();
        std::fs::write(run.events_file(), lines.join("\n") + "\n").unwrap();
        let mut tailer = RunTailer::new(&run, false);
        tailer.poll();
        tailer.state
    }

    #[test]
    fn the_outcome_is_a_field_and_no_sentence_changes_it() {
        let launched = || json!({ "at": 1, "kind": "launched" }).to_string();
        let state_after = |last: &Value| state_of(&[launched(), last.to_string()]).state;
        let outcomes = [
            (Some(Outcome::Succeeded), JobState::Succeeded),
            (Some(Outcome::Failed), JobState::Failed),
            (Some(Outcome::Stopped), JobState::Stopped),
            // A launcher from before the field wrote a sentence only: nothing is guessed from it.
            (None, JobState::Ended),
        ];
        for (outcome, state) in outcomes {
            for text in ["the job succeeded after 0:01", "the job failed", "stopped by Ctrl-C", "Erfolg", ""] {
                let event = Event { outcome, ..Event::now(EventKind::Finished, None, 0, text) };
                assert_eq!(state_after(&json!(event)), state, "{outcome:?}: {text:?}");
            }
        }
        assert_eq!(state_after(&json!({ "at": 2, "kind": "finished", "outcome": "new" })), JobState::Ended);
    }

    #[test]
    fn events_of_a_newer_version_are_a_problem_until_the_directory_is_used_again() {
        let launched = |version: u32| {
            let event = Event::now(EventKind::Launched, None, 0, "");
            Event { format_version: Some(version), ..event }.to_line()
        };
        let newer = state_of(&[launched(FORMAT_VERSION + 1)]);
        assert!(newer.problem.is_some() && newer.to_json()["problem"].is_string());
        let again = state_of(&[launched(FORMAT_VERSION + 1), launched(FORMAT_VERSION)]);
        assert!(again.problem.is_none() && again.to_json().get("problem").is_none());
    }
}
