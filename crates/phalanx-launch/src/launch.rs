//! A job to launch, from the first process to the report.

use crate::durability::Logs;
use crate::kills::Kills;
use crate::running::Running;
use crate::staging::Staging;
use crate::supervise::Supervision;
use crate::{Layout, NodeCopy, Observer, Placed, Report, Rules, Signals, ThisProgram};
use phalanx_base::{Code, Error, Result, Role, TaskId};
use phalanx_run::{Event, EventKind, JobFile, JobTask, Journal, RunDir, SharedTailer};
use phalanx_wal::Durability;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Instant;

/// A job to launch.
///
/// ```no_run
/// use phalanx_launch::{JobShape, Launch, Layout, Progress, Rules, Signals, TerminalUi, ThisProgram, tailer};
/// use phalanx_run::{RunDir, new_token};
/// // A program that launches itself: its `main` begins with `phalanx_launch::guard_if_asked()`.
/// let layout = Layout::local(&JobShape { ps: 2, workers: 2, evaluator: true, chief: "chief" })?;
/// let run = RunDir::at("runs/demo");
/// let launch = Launch {
///     here: layout.tasks().to_vec(),
///     layout,
///     program: vec!["/proc/self/exe".into(), "demo-task".into()],
///     this: ThisProgram::default(),
///     env: Vec::new(),
///     model_dir: run.root().into(),
///     run,
///     token: Some(new_token()?),
///     rules: Rules::default(),
///     ssh: None,
///     kills: vec![("ps/0".parse()?, 500)],
///     durability: None,
/// };
/// let tailer = tailer(&launch, Progress::Auto, false)?;
/// let mut ui = TerminalUi::new(Progress::Auto, tailer.clone(), &launch.tasks());
/// let report = launch.run(&Signals::listen()?, tailer.as_ref(), &mut ui)?;
/// ui.finish(&report);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Launch {
    /// All tasks of the job.
    pub layout: Layout,
    /// The tasks that are launched here.
    pub here: Vec<Placed>,
    /// The program and its arguments, the same for every task.
    pub program: Vec<OsString>,
    /// How to start this launcher's own program, for the guards of the tasks.
    pub this: ThisProgram,
    /// Additional environment variables.
    pub env: Vec<(String, String)>,
    /// The directory for the logs.
    pub run: RunDir,
    /// Where the program keeps checkpoints and event files. It is recorded for the dashboard.
    pub model_dir: PathBuf,
    /// The job token, passed to the tasks as `PHALANX_TOKEN`.
    pub token: Option<String>,
    /// Restarts and grace periods.
    pub rules: Rules,
    /// How to start the tasks of every node on that node.
    pub ssh: Option<crate::Ssh>,
    /// Tasks to kill when the job reaches a step.
    pub kills: Vec<(TaskId, u64)>,
    /// What servers promise about acknowledged updates; `None`: a log where there is memory for it.
    pub durability: Option<Durability>,
}

impl Launch {
    /// The tasks that are launched here.
    #[must_use]
    pub fn tasks(&self) -> Vec<TaskId> {
        self.here.iter().map(|placed| placed.task).collect()
    }

    /// Copies the files of [`Ssh::stage`](crate::Ssh::stage) to the nodes, and returns what was copied to each.
    ///
    /// # Errors
    /// If a file does not exist, a node cannot be reached or does not get the files, or `signals` has a request to stop.
    pub fn stage(&self, signals: &Signals) -> Result<Vec<NodeCopy>> {
        match &self.ssh {
            Some(ssh) if !ssh.stage.is_empty() => {
                Staging::new(ssh, signals)?.copy_to(self.layout.node_names(), &self.here)
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Runs the job to its end. No process of the job is left when this returns. `tailer` is needed for [`Launch::kills`] only.
    ///
    /// # Errors
    /// If the run directory cannot be written or another launcher uses it. A job that fails is not an error: see
    /// [`Report::ending`].
    pub fn run(&self, signals: &Signals, tailer: Option<&SharedTailer>, observer: &mut dyn Observer) -> Result<Report> {
        if self.here.is_empty() {
            return Err(Error::new(Code::Flags, "there is no task to launch"));
        }
        crate::limits::raise_open_files();
        let journal = Journal::open(&self.run, &self.job_file())?;
        let started = Instant::now();
        let units = self.units();
        // Over ssh, the process of a node is more than a worker.
        let has_servers = self.layout.tasks().iter().any(|placed| placed.task.role == Role::Ps);
        let spares_workers = has_servers && self.ssh.is_none();
        let supervision = Supervision::new(started, &units, self.layout.chief(), spares_workers, self.rules.clone());
        let kills = Kills::new(&self.kills, tailer);
        let logs = Logs::prepare(self)?;
        let (mut running, receiver) = Running::new(self, &logs, (observer, journal), supervision, kills);
        running.record(Event::now(EventKind::Launched, None, 0, self.layout.in_words()));
        running.run(&receiver, signals)?;
        let Some(ending) = running.ending() else {
            return Err(Error::new(Code::Internal, "the job ended without an outcome"));
        };
        let (ends, last_lines) = running.take_ends();
        let joined = !running.no_task_joined();
        let mut report = Report::new(ending, ends, last_lines, started.elapsed(), self.run.clone(), joined);
        report.usage = running.record_usage();
        let event = Event::now(EventKind::Finished, None, 0, report.in_one_line());
        running.record(Event { outcome: Some(report.ending.outcome()), ..event });
        running.close();
        Ok(report)
    }

    fn job_file(&self) -> JobFile {
        let program = self.program.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let cluster = serde_json::from_str(&self.layout.cluster().to_json().to_string()).unwrap_or_default();
        let task = |placed: &Placed| JobTask {
            task: placed.task,
            node: self.layout.node_names().get(placed.node).cloned().unwrap_or_default(),
            address: self.layout.cluster().task_address(placed.job, placed.task.index).unwrap_or("").to_owned(),
        };
        let tasks = self.layout.tasks().iter().map(task).collect();
        JobFile::now(program, self.model_dir.display().to_string(), cluster, tasks)
    }

    /// The processes to start: every task here, or over ssh one process for each node, named after its trainer.
    fn units(&self) -> Vec<TaskId> {
        let mut nodes = std::collections::BTreeSet::new();
        let first = |placed: &&Placed| self.ssh.is_none() || nodes.insert(placed.node);
        self.here.iter().filter(first).map(|placed| placed.task).collect()
    }
}
