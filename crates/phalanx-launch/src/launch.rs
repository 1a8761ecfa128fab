//! A job to be launched, and from the first process to the report.

use crate::journal::Journal;
use crate::run_dir::describe;
use crate::running::Running;
use crate::supervise::Supervision;
use crate::{Happened, Kind, Layout, Placed, Report, Rules, RunDir, Signals, Watcher};
use phalanx_base::{Code, Error, Result, Role, TaskId};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Instant;

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

impl Launch {
    /// Runs the job to its end; nothing is left when this returns.
    ///
    /// # Errors
    /// When the run directory cannot be written or is another launcher's. A job that fails is no error here: see
    /// [`Report::ending`].
    pub fn run(&self, signals: &Signals, watcher: &mut dyn Watcher) -> Result<Report> {
        if self.here.is_empty() {
            return Err(Error::new(Code::Flags, "there is no task to launch"));
        }
        crate::limits::raise_open_files();
        let words: Vec<String> = self.program.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let journal = Journal::open(&self.run, &describe(&self.layout, &words, &self.model_dir))?;
        let started = Instant::now();
        let units = self.units();
        // A node's process is more than a worker.
        let has_servers = self.layout.tasks().iter().any(|placed| placed.task.role == Role::Ps);
        let spares_workers = has_servers && self.ssh.is_none();
        let supervision = Supervision::new(started, &units, self.layout.chief(), spares_workers, self.rules.clone());
        let (mut running, listen) = Running::new(self, watcher, journal, supervision);
        running.happened(Happened::now(Kind::Launched, None, 0, self.layout.in_words()));
        running.go(&listen, signals)?;
        let Some(ending) = running.ending() else {
            return Err(Error::new(Code::Internal, "the job ended without an end"));
        };
        let (ends, last_lines) = running.take_ends();
        let joined = !running.nobody_joined();
        let report = Report::new(ending, ends, last_lines, started.elapsed(), self.run.clone(), joined);
        let event = Happened::now(Kind::Finished, None, 0, report.in_one_line());
        running.happened(Happened { outcome: Some(report.ending.outcome()), ..event });
        running.close();
        Ok(report)
    }

    /// Who is started: every task here, or over ssh one process for each node, named after its trainer.
    fn units(&self) -> Vec<TaskId> {
        let mut nodes = std::collections::BTreeSet::new();
        let first = |placed: &&Placed| self.ssh.is_none() || nodes.insert(placed.node);
        self.here.iter().filter(first).map(|placed| placed.task).collect()
    }
}
