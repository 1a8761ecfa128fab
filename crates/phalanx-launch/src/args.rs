//! The launcher's flags. They live here so that the launcher's own tests run the real command.

use crate::launch::Launch;
use crate::{Layout, Placed, Progress, Restart, Rules, RunDir, Shape, Ssh, new_token};
use phalanx_base::{Code, Error, Result, Role, TaskId};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Which tasks a job has.
#[derive(Clone, Debug, clap::Args)]
pub struct LayoutArgs {
    /// Parameter servers [default: 1 without --nodes]
    #[arg(long, value_name = "N", conflicts_with = "nodes")]
    pub ps: Option<usize>,
    /// Workers beside the chief [default: 1 without --nodes]
    #[arg(long, value_name = "N", conflicts_with = "nodes")]
    pub workers: Option<usize>,
    /// An evaluator too
    #[arg(long)]
    pub evaluator: bool,
    /// Call the chief `master`, as older programs do
    #[arg(long, conflicts_with = "nodes")]
    pub master: bool,
    /// The machines of the job: a parameter server on each, the first one's trainer is `master`, the others are `worker`s
    #[arg(long, value_name = "IP,IP,…", value_delimiter = ',', requires_all = ["worker_port", "ps_port"])]
    pub nodes: Vec<String>,
    /// The trainers' port on every node
    #[arg(long, value_name = "PORT", requires = "nodes")]
    pub worker_port: Option<u16>,
    /// The parameter servers' port on every node
    #[arg(long, value_name = "PORT", requires = "nodes")]
    pub ps_port: Option<u16>,
}

impl LayoutArgs {
    /// The cluster.
    ///
    /// # Errors
    /// When the flags contradict each other, or there are no ports.
    pub fn layout(&self) -> Result<Layout> {
        match (self.worker_port, self.ps_port) {
            (Some(worker_port), Some(ps_port)) => Layout::nodes(&self.nodes, worker_port, ps_port, self.evaluator),
            _ => Layout::local(&Shape {
                ps: self.ps.unwrap_or(1),
                workers: self.workers.unwrap_or(1),
                evaluator: self.evaluator,
                chief: if self.master { "master" } else { "chief" },
            }),
        }
    }
}

/// `phalanx launch`.
#[derive(Clone, Debug, clap::Args)]
pub struct LaunchArgs {
    /// Which tasks.
    #[command(flatten)]
    pub layout: LayoutArgs,
    /// Which of the nodes this is: start its tasks only
    #[arg(long, value_name = "I", requires = "nodes")]
    pub node: Option<usize>,
    /// Start the tasks of every node there, over ssh; this program must be at the same path on all
    #[arg(long, requires = "nodes", conflicts_with = "node")]
    pub ssh: bool,
    /// How to reach a node, with --ssh
    #[arg(long, value_name = "COMMAND", default_value = "ssh -o BatchMode=yes", requires = "ssh")]
    pub ssh_command: String,
    /// Print every task's TF_CONFIG and start nothing
    #[arg(long)]
    pub print: bool,
    /// Where logs go [default: runs/PROGRAM-TIME]
    #[arg(long, value_name = "DIR")]
    pub run_dir: Option<PathBuf>,
    /// Where the program keeps checkpoints and event files, which the page shows [default: the run directory]
    #[arg(long, value_name = "DIR")]
    pub model_dir: Option<PathBuf>,
    /// Who is started again after a failure, as worker=on-failure,ps=never; the default is exit-code for all
    #[arg(long, value_name = "ROLE=WHEN,…", value_delimiter = ',', value_parser = restart_rule)]
    pub restart: Vec<(Role, Restart)>,
    /// How often one task is started again within --restart-window
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub max_restarts: u32,
    /// Seconds after which a restart counts no more
    #[arg(long, value_name = "S", default_value_t = 600.0, value_parser = seconds)]
    pub restart_window: f64,
    /// Seconds that workers have after the chief's success
    #[arg(long, value_name = "S", default_value_t = 10.0, value_parser = seconds)]
    pub worker_grace: f64,
    /// Seconds that the evaluator has
    #[arg(long, value_name = "S", default_value_t = 120.0, value_parser = seconds)]
    pub evaluator_grace: f64,
    /// Seconds that parameter servers have when nobody trains any more [default: 3; no limit where the chief is elsewhere]
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub ps_grace: Option<f64>,
    /// Seconds between being asked to stop and being killed, after Ctrl-C and after the chief's success
    #[arg(long, value_name = "S", default_value_t = 2.5, value_parser = seconds)]
    pub kill_after: f64,
    /// The same after SIGTERM or another task's failure: time for a checkpoint
    #[arg(long, value_name = "S", default_value_t = 25.0, value_parser = seconds)]
    pub save_time: f64,
    /// How progress is shown
    #[arg(long, value_enum, default_value_t = Progress::Auto)]
    pub progress: Progress,
    /// Kill a task when the job reaches a step, as ps/0@500, to see what happens then
    #[arg(long, value_name = "TASK@STEP", value_delimiter = ',', value_parser = kill_at)]
    pub kill: Vec<(TaskId, u64)>,
    /// Where the page listens
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub listen: std::net::SocketAddr,
    /// No web page
    #[arg(long)]
    pub no_page: bool,
    /// This is a node's launcher at the end of a connection: the token is the first line of standard input, and its end is
    /// the end of the job
    #[arg(long, hide = true)]
    pub remote: bool,
    /// The program that every task runs, and its arguments
    #[arg(last = true, required_unless_present = "print", value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// The token in `PHALANX_TOKEN`. One that is not UTF-8 is an error: the job would run without a token.
fn token_of_environment() -> Result<Option<String>> {
    match std::env::var("PHALANX_TOKEN") {
        Ok(token) => Ok(Some(token)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => Err(Error::new(Code::WrongToken, "the job token cannot be used")
            .at("PHALANX_TOKEN")
            .because("it is not UTF-8")
            .help("set it to a long random text of visible ASCII characters")),
    }
}

impl LaunchArgs {
    /// The job that these flags describe. `token`: the one to use instead of a new one.
    ///
    /// # Errors
    /// When the flags contradict each other, there are no ports, or no random bytes.
    pub fn launch(&self, token: Option<String>) -> Result<Launch> {
        let layout = self.layout.layout()?;
        if !self.layout.nodes.is_empty() && self.node.is_none() && !self.ssh && !self.print {
            return Err(Error::new(Code::Flags, "--nodes does not say which tasks to start here")
                .help("add --node 0 (and 1, 2, … on the others), or --ssh to start all of them from here"));
        }
        let here: Vec<Placed> = match self.node {
            Some(node) => layout.on_node(node)?,
            None => layout.tasks().to_vec(),
        };
        let has_chief = layout.chief().is_some_and(|chief| here.iter().any(|placed| placed.task == chief));
        let token = token.map_or_else(token_of_environment, |token| Ok(Some(token)))?;
        let token = match token.filter(|token| !token.is_empty()) {
            Some(token) => Some(token),
            // Nodes that are started one by one cannot agree on a new one.
            None if self.node.is_some() => None,
            None => Some(new_token()?),
        };
        let run = RunDir::at(self.run_dir.clone().unwrap_or_else(|| default_run(&self.program)));
        let model_dir = self.model_dir.clone().unwrap_or_else(|| run.root().to_owned());
        let rules = self.rules(has_chief);
        let ssh = self.ssh.then(|| self.over_ssh());
        Ok(Launch { layout, here, program: self.program.clone(), env: Vec::new(), run, model_dir, token, rules, ssh })
    }

    fn rules(&self, has_chief: bool) -> Rules {
        let mut rules = Rules {
            max_restarts: self.max_restarts,
            restart_window: Duration::from_secs_f64(self.restart_window),
            worker_grace: Duration::from_secs_f64(self.worker_grace),
            evaluator_grace: Duration::from_secs_f64(self.evaluator_grace),
            server_grace: self.ps_grace.or(has_chief.then_some(3.0)).map(Duration::from_secs_f64),
            kill_after: Duration::from_secs_f64(self.kill_after),
            save_time: Duration::from_secs_f64(self.save_time),
            ..Rules::default()
        };
        for (role, when) in &self.restart {
            if let Some(at) = Role::ALL.iter().position(|one| one == role) {
                rules.restart[at] = *when;
            }
        }
        if self.ssh {
            // A connection that breaks has ended a whole node; the launchers there restart tasks.
            rules.restart = [Restart::Never; 4];
        }
        rules
    }

    fn over_ssh(&self) -> Ssh {
        let launcher = std::env::current_exe().map_or_else(|_| "phalanx".to_owned(), |path| path.display().to_string());
        let mut options = vec![format!("--nodes={}", self.layout.nodes.join(","))];
        options.extend(self.layout.worker_port.map(|port| format!("--worker-port={port}")));
        options.extend(self.layout.ps_port.map(|port| format!("--ps-port={port}")));
        options.extend(self.layout.evaluator.then(|| "--evaluator".to_owned()));
        options.push(format!("--max-restarts={}", self.max_restarts));
        options.push(format!("--restart-window={}", self.restart_window));
        options.push(format!("--kill-after={}", self.kill_after));
        options.push(format!("--save-time={}", self.save_time));
        options.push("--progress=none".to_owned());
        options.push("--no-page".to_owned());
        let command = self.ssh_command.split_whitespace().map(str::to_owned).collect();
        Ssh { command, launcher, options }
    }

    /// Every task's `TF_CONFIG`, a line each behind the task's name.
    ///
    /// # Errors
    /// As [`LaunchArgs::launch`].
    pub fn printed(&self) -> Result<String> {
        let launch = self.launch(None)?;
        Ok(print_tf_configs(&launch.layout, &launch.here))
    }
}

/// `worker/0  TF_CONFIG='{…}'`, to be pasted into a shell.
#[must_use]
pub fn print_tf_configs(layout: &Layout, tasks: &[Placed]) -> String {
    let width = tasks.iter().map(|placed| placed.task.to_string().len()).max().unwrap_or(0);
    let line =
        |placed: &Placed| format!("{:<width$}  TF_CONFIG='{}'\n", placed.task.to_string(), layout.tf_config(placed));
    tasks.iter().map(line).collect()
}

/// `runs/train-20261115-170303`.
fn default_run(program: &[OsString]) -> PathBuf {
    // `python train.py` is known by its script.
    let named = |word: &OsString| {
        let path = std::path::Path::new(word);
        let stem = path.file_stem()?.to_string_lossy().into_owned();
        let interpreter = ["python", "bash", "sh", "env"].iter().any(|name| stem.starts_with(name));
        (!stem.starts_with('-') && !interpreter).then_some(stem)
    };
    let name = program.iter().take(3).find_map(named).unwrap_or_else(|| "job".to_owned());
    let time: String =
        crate::clock::stamp(crate::clock::now_ms()).chars().filter(|c| c.is_ascii_digit() || *c == 'T').collect();
    PathBuf::from("runs").join(format!("{name}-{}", time.replace('T', "-").get(..15).unwrap_or("0")))
}

fn restart_rule(text: &str) -> Result<(Role, Restart), String> {
    let (role, when) = text.split_once('=').ok_or("write worker=never, ps=exit-code or chief=on-failure")?;
    let role = role.parse::<Role>().map_err(|error| error.to_string())?;
    let when = match when {
        "never" => Restart::Never,
        "exit-code" => Restart::ExitCode,
        "on-failure" => Restart::OnFailure,
        other => return Err(format!("{other:?} is not never, exit-code or on-failure")),
    };
    Ok((role, when))
}

/// Reads `ps/0@500`: a task, and the step at which it is killed.
///
/// # Errors
/// Says what is wrong.
pub fn kill_at(text: &str) -> Result<(TaskId, u64), String> {
    let parts = text.split_once('@').and_then(|(task, step)| Some((task.parse().ok()?, step.parse().ok()?)));
    parts.ok_or_else(|| "write ps/0@500: a task, and the step at which it is killed".to_owned())
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text:?} is not a number of seconds"))?;
    if (0.0..=1e6).contains(&seconds) { Ok(seconds) } else { Err("between 0 and 1000000 seconds".to_owned()) }
}
