//! The launcher's flags. They are in this crate so that its tests run the real command.

use crate::launch::Launch;
use crate::layout_args::{LayoutArgs, print_tf_configs};
use crate::{Placed, Progress, Restart, Rules, Ssh, ThisProgram};
use phalanx_base::{Address, Code, Error, Result, Role, TaskId};
use phalanx_run::{RunDir, new_token, now_ms, timestamp};
use phalanx_wal::Durability;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The flags of `phalanx launch`.
#[derive(Clone, Debug, clap::Args)]
pub struct LaunchArgs {
    /// The tasks of the job.
    #[command(flatten)]
    pub layout: LayoutArgs,
    /// Start only the tasks of this node, counted from 0
    #[arg(long, value_name = "I", requires = "nodes")]
    pub node: Option<usize>,
    /// Start the tasks of every node over ssh; programs have the same path on all nodes (see --stage)
    #[arg(long, requires = "nodes", conflicts_with = "node")]
    pub ssh: bool,
    /// Command that reaches a node, with --ssh
    #[arg(long, value_name = "COMMAND", default_value = "ssh -o BatchMode=yes", requires = "ssh")]
    pub ssh_command: String,
    /// Copy this file or folder to the same path on every node before anything is started, with --ssh; may be repeated. Also copies phalanx itself where it is missing
    #[arg(long, value_name = "PATH", requires = "ssh")]
    pub stage: Vec<PathBuf>,
    /// Print the TF_CONFIG of every task and start nothing
    #[arg(long)]
    pub print: bool,
    /// Directory for the logs [default: runs/PROGRAM-TIME]
    #[arg(long, value_name = "DIR")]
    pub run_dir: Option<PathBuf>,
    /// Directory of checkpoints and event files, which every TF_CONFIG names [default: what the program chooses, or else the run directory]
    #[arg(long, value_name = "DIR")]
    pub model_dir: Option<PathBuf>,
    /// When to restart failed tasks, as in worker=on-failure,ps=never [default: exit-code for all roles]
    #[arg(long, value_name = "ROLE=WHEN,…", value_delimiter = ',', value_parser = restart_rule)]
    pub restart: Vec<(Role, Restart)>,
    /// Restarts allowed per task within --restart-window
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub max_restarts: u32,
    /// Seconds after which a restart no longer counts
    #[arg(long, value_name = "S", default_value_t = 600.0, value_parser = seconds)]
    pub restart_window: f64,
    /// Seconds that workers may continue after the chief has succeeded
    #[arg(long, value_name = "S", default_value_t = 10.0, value_parser = seconds)]
    pub worker_grace: f64,
    /// Seconds that the evaluator may continue after the chief has succeeded
    #[arg(long, value_name = "S", default_value_t = 120.0, value_parser = seconds)]
    pub evaluator_grace: f64,
    /// Seconds that parameter servers may continue without trainers [default: 3; no limit if the chief runs on another node]
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub ps_grace: Option<f64>,
    /// Seconds between the request to stop and SIGKILL, after Ctrl-C and after the chief has succeeded
    #[arg(long, value_name = "S", default_value_t = 2.5, value_parser = seconds)]
    pub kill_after: f64,
    /// The same after SIGTERM and after the failure of another task: time for a checkpoint
    #[arg(long, value_name = "S", default_value_t = 25.0, value_parser = seconds)]
    pub save_time: f64,
    /// How to display progress
    #[arg(long, value_enum, default_value_t = Progress::Auto)]
    pub progress: Progress,
    /// Without PHALANX_TOKEN, let tasks listen where anybody on the network can take part; for nodes that are started one by one
    #[arg(long, requires = "node")]
    pub insecure: bool,
    /// Kill a task when the job reaches a step, as in ps/0@500, to test recovery
    #[arg(long, value_name = "TASK@STEP", value_delimiter = ',', value_parser = kill_at)]
    pub kill: Vec<(TaskId, u64)>,
    /// What happens to updates when a parameter server is killed: those since the newest checkpoint are lost, or none, because a log in memory has them [default: log where there is memory for it]
    #[arg(long, value_name = "TIER", value_parser = durability)]
    pub durability: Option<Durability>,
    /// Address on which the dashboard listens
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub listen: std::net::SocketAddr,
    /// Do not serve the dashboard
    #[arg(long, alias = "no-page")]
    pub no_dashboard: bool,
    /// Run as the launcher of a node: standard input contains the token, and the job ends when it closes
    #[arg(long, hide = true)]
    pub remote: bool,
    /// How to start the command `phalanx` itself; see [`LaunchArgs::started_by`].
    #[arg(skip)]
    this: ThisProgram,
    /// Program that every task runs, and its arguments
    #[arg(last = true, required_unless_present = "print", value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// The token in `PHALANX_TOKEN`. Ignoring one that is not UTF-8 would run the job without a token.
fn token_from_env() -> Result<Option<String>> {
    match std::env::var("PHALANX_TOKEN") {
        Ok(token) => Ok(Some(token)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => Err(Error::new(Code::WrongToken, "the job token cannot be used")
            .at("PHALANX_TOKEN")
            .because("it is not UTF-8")
            .help("set it to a long random string of printable ASCII characters")),
    }
}

fn is_loopback(node: &str) -> bool {
    format!("{node}:1").parse().is_ok_and(|address: Address| address.is_loopback())
}

/// Nodes that are started one by one cannot agree on a new token.
fn no_common_token() -> Error {
    Error::new(Code::WrongToken, "the nodes of this job have no token in common")
        .because("without one, anybody on the network could take part in it, and nothing would be encrypted")
        .help(
            "set PHALANX_TOKEN to the same long random text on every node, or start all nodes with --ssh; on a network \
             that you trust, --insecure goes without",
        )
}

impl LaunchArgs {
    /// Sets how to start the command that these flags are for. By default, it is the running executable.
    #[must_use]
    pub fn started_by(mut self, this: &ThisProgram) -> Self {
        self.this = this.clone();
        self
    }

    /// The job that these flags describe, with `token` instead of a new one if given.
    ///
    /// # Errors
    /// If the flags contradict each other, no ports are free, or there are no random bytes.
    pub fn launch(&self, token: Option<String>) -> Result<Launch> {
        let given = self.model_dir.as_ref().map(|dir| dir.to_string_lossy().into_owned());
        if given.as_deref() == Some("") {
            return Err(
                Error::new(Code::ConfigModelDir, "model_dir is empty").help("name a directory, or leave it out")
            );
        }
        let layout = self.layout.layout()?.model_dir(given);
        if !self.layout.nodes.is_empty() && self.node.is_none() && !self.ssh && !self.print {
            return Err(Error::new(Code::Flags, "--nodes does not determine which tasks to start here")
                .help("add --node 0 (and 1, 2, … on the other nodes), or --ssh to start all of them from here"));
        }
        let here: Vec<Placed> = match self.node {
            Some(node) => layout.on_node(node)?,
            None => layout.tasks().to_vec(),
        };
        let has_chief = layout.chief().is_some_and(|chief| here.iter().any(|placed| placed.task == chief));
        let token = token.map_or_else(token_from_env, |token| Ok(Some(token)))?;
        let token = match token.filter(|token| !token.is_empty()) {
            Some(token) => Some(token),
            None if self.node.is_some()
                && (self.insecure || self.layout.nodes.iter().all(|node| is_loopback(node))) =>
            {
                None
            }
            None if self.node.is_some() => return Err(no_common_token()),
            None => Some(new_token()?),
        };
        let run = RunDir::at(self.run_dir.clone().unwrap_or_else(|| default_run(&self.program)));
        let model_dir = self.model_dir.clone().unwrap_or_else(|| run.root().to_owned());
        let rules = self.rules(has_chief);
        let ssh = self.ssh.then(|| self.over_ssh());
        let kills = self.kill.clone();
        if let Some((task, _)) = kills.iter().find(|(task, _)| here.iter().all(|placed| placed.task != *task)) {
            return Err(Error::new(Code::NoSuchTask, format!("--kill names {task}, which is not started here")));
        }
        let program = self.program.clone();
        let this = self.this.clone();
        let env = self.insecure.then(|| ("PHALANX_INSECURE".to_owned(), "1".to_owned())).into_iter().collect();
        Ok(Launch {
            layout,
            here,
            program,
            this,
            env,
            run,
            model_dir,
            token,
            rules,
            ssh,
            kills,
            durability: self.durability,
        })
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
            // A broken connection ends a whole node; the launchers there restart tasks.
            rules.restart = [Restart::Never; 4];
        }
        rules
    }

    fn over_ssh(&self) -> Ssh {
        let words = self.this.words().unwrap_or_else(|_| vec!["phalanx".into()]);
        let launcher = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let mut options = self.layout.words();
        options.extend(self.model_dir.as_ref().map(|dir| format!("--model-dir={}", dir.display())));
        options.push(format!("--max-restarts={}", self.max_restarts));
        options.push(format!("--restart-window={}", self.restart_window));
        options.push(format!("--kill-after={}", self.kill_after));
        options.push(format!("--save-time={}", self.save_time));
        options.extend(self.durability.map(|tier| format!("--durability={tier}")));
        options.push("--progress=none".to_owned());
        options.push("--no-dashboard".to_owned());
        let command = self.ssh_command.split_whitespace().map(str::to_owned).collect();
        Ssh { command, launcher, options, stage: self.stage.clone() }
    }

    /// The `TF_CONFIG` of every task, one per line.
    ///
    /// # Errors
    /// See [`LaunchArgs::launch`].
    pub fn printed(&self) -> Result<String> {
        let launch = self.launch(None)?;
        Ok(print_tf_configs(&launch.layout, &launch.here))
    }
}

/// The default run directory, such as `runs/train-20261115-170303`.
fn default_run(program: &[OsString]) -> PathBuf {
    // `python train.py` is named after its script.
    let named = |word: &OsString| {
        let path = std::path::Path::new(word);
        let stem = path.file_stem()?.to_string_lossy().into_owned();
        let interpreter = ["python", "bash", "sh", "env"].iter().any(|name| stem.starts_with(name));
        (!stem.starts_with('-') && !interpreter).then_some(stem)
    };
    let name = program.iter().take(3).find_map(named).unwrap_or_else(|| "job".to_owned());
    let time: String = timestamp(now_ms()).chars().filter(|c| c.is_ascii_digit() || *c == 'T').collect();
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

/// Parses `ps/0@500`: a task, and the step at which it is killed.
///
/// # Errors
/// A description of the expected form.
pub fn kill_at(text: &str) -> Result<(TaskId, u64), String> {
    let parts = text.split_once('@').and_then(|(task, step)| Some((task.parse().ok()?, step.parse().ok()?)));
    parts.ok_or_else(|| "write ps/0@500: a task, and the step at which it is killed".to_owned())
}

/// Parses a durability.
///
/// # Errors
/// A description of the choices.
pub fn durability(text: &str) -> Result<Durability, String> {
    text.parse().map_err(|error: Error| format!("{}; {}", error.what(), error.next().unwrap_or_default()))
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text:?} is not a number of seconds"))?;
    if (0.0..=1e6).contains(&seconds) { Ok(seconds) } else { Err("between 0 and 1000000 seconds".to_owned()) }
}
