//! Keeps a [`Board`] up to date with the files of a run.

use super::curves::Curves;
use super::loads::Loads;
use super::tail::Tail;
use super::{Board, JobState, LogLine, TaskState, TaskView, checkpoints};
use crate::clock::{now_ms, read_stamp};
use crate::{Kind, Outcome, RunDir};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often directories are listed and processes looked at.
const SLOW: Duration = Duration::from_secs(1);
/// A task's word is old after this.
const FRESH: Duration = Duration::from_secs(10);

/// Reads a run as it grows. Nothing that is missing or damaged is an error: it is not shown.
#[derive(Debug)]
pub struct Follower {
    run: RunDir,
    with_lines: bool,
    board: Board,
    events: Tail,
    logs: BTreeMap<String, Tail>,
    curves: Curves,
    loads: Loads,
    slow: Option<Instant>,
    /// The step of the newest evaluation of each run below the model directory.
    evaluated: BTreeMap<String, i64>,
}

impl Follower {
    /// Follows the run at `run`; `with_lines`: its logs too.
    #[must_use]
    pub fn new(run: &RunDir, with_lines: bool) -> Self {
        Self {
            events: Tail::new(run.events_file()),
            run: run.clone(),
            with_lines,
            board: Board::default(),
            logs: BTreeMap::new(),
            curves: Curves::default(),
            loads: Loads::default(),
            slow: None,
            evaluated: BTreeMap::new(),
        }
    }

    /// What is known.
    #[must_use]
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// Reads what is new.
    pub fn poll(&mut self) {
        let slow = self.slow.is_none_or(|at| at.elapsed() >= SLOW);
        if self.board.job.is_null() {
            self.read_job();
        }
        self.read_events();
        self.read_statuses();
        if slow {
            self.slow = Some(Instant::now());
            let model_dir = self.model_dir();
            self.curves.look(&model_dir);
            self.note_checkpoints(&model_dir);
            self.look_at_processes();
        }
        self.curves.read(&mut self.board.curves);
        self.note_evaluations();
        if self.with_lines {
            self.read_logs();
        }
    }

    fn read_job(&mut self) {
        let Some(job) = read_json(&self.run.job_file()) else { return };
        for task in job["tasks"].as_array().into_iter().flatten() {
            let text = |key: &str| task[key].as_str().unwrap_or_default().to_owned();
            let (node, address) = (text("node"), text("address"));
            self.board.tasks.push(TaskView { task: text("task"), node, address, ..TaskView::default() });
        }
        self.board.job = job;
    }

    fn read_events(&mut self) {
        let mut lines = Vec::new();
        while self.events.read(|line| lines.push(line.to_owned())) {}
        for event in lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            self.apply(&event);
            self.board.add_event(event);
        }
    }

    fn apply(&mut self, event: &Value) {
        let at = event["at"].as_u64().unwrap_or(0);
        let Some(kind) = event["kind"].as_str().and_then(Kind::parse) else { return };
        match (kind, event["task"].as_str()) {
            (Kind::Launched, _) => {
                // The directory is used again: what was before is history.
                self.board.job = Value::Null;
                self.board.tasks.clear();
                self.read_job();
                (self.board.state, self.board.ended_ms) = (JobState::Running, None);
            }
            (Kind::Finished, _) => {
                self.board.ended_ms = Some(at);
                self.board.state = event["outcome"].as_str().and_then(Outcome::parse).into();
            }
            (kind, Some(task)) => {
                let index = self.board.index(task);
                change(&mut self.board.tasks[index], kind, at, event);
            }
            _ => {}
        }
    }

    fn read_statuses(&mut self) {
        let now = std::time::SystemTime::now();
        for view in &mut self.board.tasks {
            let path = self.run.status().join(format!("{}.json", view.task.replace('/', "-")));
            let about = std::fs::metadata(&path).and_then(|about| about.modified());
            let fresh = about.is_ok_and(|at| now.duration_since(at).unwrap_or_default() < FRESH);
            let over = !matches!(view.state, TaskState::Running | TaskState::Waiting);
            let Some(mut status) = read_json(&path) else { continue };
            status["stale"] = json!(!fresh || over);
            if over || !fresh {
                status["steps_per_s"] = Value::Null;
            }
            view.status = status;
        }
    }

    /// Where the program keeps its files. It may come into being after the launcher's; and a run that was copied elsewhere has
    /// them beside its logs.
    fn model_dir(&self) -> PathBuf {
        let text = |key: &str| self.board.job[key].as_str().map_or_else(PathBuf::new, PathBuf::from);
        let told = text("directory").join(text("model_dir"));
        if told.is_dir() && told.is_absolute() { told } else { self.run.root().to_owned() }
    }

    fn note_checkpoints(&mut self, model_dir: &Path) {
        let found = checkpoints::list(model_dir);
        let known = |step: u64| self.board.checkpoints.iter().any(|old| old.step == step);
        let new: Vec<Value> = found
            .iter()
            .filter(|one| !known(one.step))
            .map(|one| {
                let text = format!("step {}, {:.1} MiB", one.step, one.bytes as f64 / 1_048_576.0);
                json!({ "at": one.at_ms, "kind": "checkpoint", "step": one.step, "text": text })
            })
            .collect();
        new.into_iter().for_each(|event| self.board.add_event(event));
        self.board.checkpoints = found;
    }

    /// A point of a curve below the run is an evaluation; one number of it is told.
    fn note_evaluations(&mut self) {
        let told = |tag: &str| {
            ["auc", "accuracy", "epoch_accuracy", "average_loss", "loss", "epoch_loss"]
                .iter()
                .position(|one| *one == tag)
        };
        let mut newest: BTreeMap<&str, (usize, &str, super::Point)> = BTreeMap::new();
        for curve in self.board.curves.iter().filter(|curve| !curve.run.is_empty()) {
            if let (Some(rank), Some(point)) = (told(&curve.tag), curve.points.last())
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
            let at = (point.wall_time.max(0.0) * 1000.0) as u64;
            self.board.add_event(json!({ "at": at, "kind": "evaluation", "step": point.step, "text": text }));
            self.evaluated.insert(run, point.step);
        }
    }

    fn look_at_processes(&mut self) {
        let running = self.board.state == JobState::Running;
        for view in &mut self.board.tasks {
            let pid = view.pid.filter(|_| running && view.state == TaskState::Running && view.node.is_empty());
            let load = pid.and_then(|pid| self.loads.of(pid));
            (view.cpu, view.memory) = (load.map(|(cpu, _)| cpu), load.map(|(_, memory)| memory));
        }
        let launcher = self.board.job["launcher_pid"].as_u64();
        let here = self.board.job["host"].as_str().is_some_and(|host| host == crate::run_dir::host());
        if running && here && launcher.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            self.board.state = JobState::Abandoned;
            self.board.ended_ms = Some(now_ms());
            for view in self.board.tasks.iter_mut().filter(|view| view.state == TaskState::Running) {
                (view.state, view.last_error) = (TaskState::Stopped, "its launcher has gone".to_owned());
            }
        }
    }

    fn read_logs(&mut self) {
        for view in &self.board.tasks {
            let path = self.run.logs().join(format!("{}.log", view.task.replace('/', "-")));
            self.logs.entry(view.task.clone()).or_insert_with(|| Tail::new(path));
        }
        let mut lines = Vec::new();
        for (task, tail) in &mut self.logs {
            let Some(index) = self.board.tasks.iter().position(|view| view.task == *task) else { continue };
            while tail.read(|line| lines.push(parse(index, line))) {}
        }
        lines.sort_by_key(|line| line.at_ms);
        lines.into_iter().for_each(|line| self.board.add_line(line));
    }
}

fn change(view: &mut TaskView, kind: Kind, at: u64, event: &Value) {
    let text = || event["text"].as_str().unwrap_or_default().to_owned();
    match kind {
        Kind::Started => {
            view.state = TaskState::Running;
            view.pid = event["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
            view.attempt = event["attempt"].as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(1);
            view.since_ms = at;
        }
        Kind::Told | Kind::Killed => view.told = true,
        Kind::Exited => {
            view.exit = event["exit"].as_i64();
            view.since_ms = at;
            (view.cpu, view.memory) = (None, None);
            (view.state, view.last_error) = match view.exit {
                Some(0) => (TaskState::Done, String::new()),
                _ if view.told => (TaskState::Stopped, text()),
                _ => (TaskState::Failed, text()),
            };
        }
        Kind::Restarting => view.state = TaskState::Restarting,
        Kind::GivenUp | Kind::Launched | Kind::Finished => {}
    }
}

/// A line of a log file behind its time.
fn parse(task: usize, line: &str) -> LogLine {
    let stamped = line.split_once(' ').and_then(|(time, text)| Some((read_stamp(time)?, text)));
    let (at_ms, text) = stamped.unwrap_or((0, line));
    LogLine { at_ms, task, text: text.to_owned() }
}

/// Small files only: whoever wrote a larger one did not mean us.
fn read_json(path: &Path) -> Option<Value> {
    if std::fs::metadata(path).ok()?.len() > 4 << 20 {
        return None;
    }
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ending, Happened};

    #[test]
    fn a_model_directory_that_comes_late_is_found_and_a_used_run_starts_anew() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::at(dir.path().join("run"));
        std::fs::create_dir_all(run.logs()).unwrap();
        let model = dir.path().join("model");
        let job = json!({ "directory": dir.path(), "model_dir": "model", "tasks": [{ "task": "chief/0" }] });
        std::fs::write(run.job_file(), job.to_string()).unwrap();
        let mut follower = Follower::new(&run, true);
        let mut poll = |events: &str| {
            let old = std::fs::read_to_string(run.events_file()).unwrap_or_default();
            std::fs::write(run.events_file(), old + events).unwrap();
            follower.slow = None;
            follower.poll();
            let board = follower.board();
            (board.state, board.checkpoints.len(), board.tasks[0].state)
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

    /// The state of a job whose event file ends with this event.
    fn state_after(last: &Value) -> JobState {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::at(dir.path());
        std::fs::create_dir_all(run.logs()).unwrap();
        std::fs::write(run.events_file(), format!("{}\n{last}\n", json!({ "at": 1, "kind": "launched" }))).unwrap();
        let mut follower = Follower::new(&run, false);
        follower.poll();
        follower.board().state
    }

    #[test]
    fn the_outcome_is_a_field_and_no_sentence_changes_it() {
        let exit = crate::Exit::Code(1);
        let endings = [
            (Ending::Success, JobState::Succeeded),
            (Ending::Failed("ps/0".parse().unwrap(), exit), JobState::Failed),
            (Ending::Stopped(true), JobState::Stopped),
            (Ending::Stopped(false), JobState::Stopped),
        ];
        for (ending, state) in endings {
            for text in ["the job succeeded after 0:01", "the job failed", "stopped by Ctrl-C", "Erfolg", ""] {
                let event = Happened::now(Kind::Finished, None, 0, text);
                let event = Happened { outcome: Some(ending.outcome()), ..event };
                assert_eq!(state_after(&event.to_json()), state, "{ending:?}: {text:?}");
            }
        }
        // A launcher from before the field wrote a sentence only: nothing is guessed from it.
        for text in ["the job succeeded after 0:01", "the job failed after 0:01", "stopped by Ctrl-C after 0:01"] {
            let event = Happened::now(Kind::Finished, None, 0, text).to_json();
            assert_eq!(state_after(&event), JobState::Ended, "{text}");
        }
        assert_eq!(state_after(&json!({ "at": 2, "kind": "finished", "outcome": "new" })), JobState::Ended);
    }
}
