//! The Python package beside Rust, and beside PyTorch: rows pulled and pushed, an estimator, a model with tables. Everything is measured
//! interleaved in one run; the figures are medians.

use crate::job::{self, Tasks};
use crate::local_job::{die_with_parent, local_cluster};
use crate::stats::{digits, median, spread};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use clap::ValueEnum;
use phalanx::prelude::*;
use phalanx::{Code, Error, Result};
use phalanx_base::{Context, SplitMix};
use phalanx_ps::{TableSpec, plan::RowInitializer};
use phalanx_train::StepGradients;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The click model's rows in a step, their numbers, and the rows of its table.
const ROWS: usize = 26_000;
const DIM: usize = 10;
const TABLE: u64 = 1_000_001;
/// Different batches of rows.
const BATCHES: usize = 10;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Pull and push of the click model's 26,000 rows, from Rust and from Python
    Rows,
    /// An estimator: its job file, and a script
    Estimator,
    /// The `embed` model in PyTorch: alone, under DistributedDataParallel, and with parameter servers
    Tables,
}

#[derive(Clone, clap::Args)]
pub(crate) struct Args {
    /// The interpreter that has the packages phalanx and torch
    #[arg(long)]
    python: PathBuf,
    /// The folder of `python_jobs.py`
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR")))]
    scripts: PathBuf,
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["rows", "estimator", "tables"])]
    parts: Vec<Part>,
    /// How often each entrant is measured
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Steps of a measurement; ten times as many of the estimator's, which are short
    #[arg(long, default_value_t = 600)]
    steps: u64,
    /// One line of JSON
    #[arg(long)]
    json: bool,
}

/// One of the programs that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entrant {
    RustRows,
    PythonRows,
    JobFile,
    Script,
    Torch,
    Ddp,
    Tables,
}

impl Part {
    /// The entrants; the last one is ours, and the others are what it is compared with.
    fn entrants(self) -> &'static [Entrant] {
        match self {
            Self::Rows => &[Entrant::RustRows, Entrant::PythonRows],
            Self::Estimator => &[Entrant::JobFile, Entrant::Script],
            Self::Tables => &[Entrant::Torch, Entrant::Ddp, Entrant::Tables],
        }
    }
}

impl Entrant {
    fn name(self) -> &'static str {
        match self {
            Self::RustRows => "rows from Rust",
            Self::PythonRows => "rows from Python",
            Self::JobFile => "job file",
            Self::Script => "estimator in Python",
            Self::Torch => "PyTorch alone",
            Self::Ddp => "PyTorch, DistributedDataParallel",
            Self::Tables => "PyTorch and Phalanx",
        }
    }

    /// What ours has to reach of this one's steps per second.
    fn goal(self) -> Option<f64> {
        match self {
            Self::RustRows => Some(1.0 / 1.1),
            Self::JobFile => Some(0.97),
            Self::Torch => Some(1.5),
            Self::Ddp => Some(2.0),
            Self::PythonRows | Self::Script | Self::Tables => None,
        }
    }
}

/// Measures all, and prints it.
pub(crate) fn measure(args: &Args) -> Result<()> {
    if args.rounds == 0 || args.steps == 0 {
        return Err(Error::new(Code::BadSetting, "--rounds and --steps must be greater than 0"));
    }
    // Some entrants run in another folder. A link is kept: an interpreter finds its packages by where it is.
    let python = std::path::absolute(&args.python).context(Code::BadSetting, "--python is no path")?;
    let args = &Args { python, ..args.clone() };
    let folder = tempfile::tempdir().context(Code::Internal, "there is no temporary folder")?;
    write_job(folder.path())?;
    let entrants: Vec<Entrant> = args.parts.iter().flat_map(|part| part.entrants()).copied().collect();
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); entrants.len()];
    for round in 1..=args.rounds {
        for (entrant, rates) in entrants.iter().zip(&mut rates) {
            let rate = args.rate(*entrant, folder.path())?;
            eprintln!("round {round}: {}: {} steps/s", entrant.name(), digits(rate));
            rates.push(rate);
        }
    }
    let rates_of = |of: Entrant| entrants.iter().position(|one| *one == of).map_or(&[][..], |at| &rates[at]);
    let mut lines = Vec::new();
    for part in &args.parts {
        let Some((ours, others)) = part.entrants().split_last() else { continue };
        let our = median(rates_of(*ours));
        for entrant in part.entrants() {
            let (rates, of_it) = (rates_of(*entrant), median(rates_of(*entrant)));
            let ratio = others.contains(entrant).then(|| our / of_it);
            lines.push(json!({
                "entrant": entrant.name(), "steps_per_s": of_it, "least": spread(rates).0, "most": spread(rates).1,
                "ours_to_this": ratio, "goal": entrant.goal(),
                "reached": ratio.zip(entrant.goal()).map(|(ratio, goal)| ratio >= goal),
            }));
        }
    }
    print(args, &lines);
    Ok(())
}

fn print(args: &Args, lines: &[Value]) {
    if args.json {
        let system = concat!("phalanx ", env!("CARGO_PKG_VERSION"));
        println!("{}", json!({ "system": system, "rounds": args.rounds, "steps": args.steps, "measured": lines }));
        return;
    }
    for line in lines {
        let number = |key: &str| line[key].as_f64();
        let of = |key: &str| digits(number(key).unwrap_or_default());
        let (name, rate) = (line["entrant"].as_str().unwrap_or_default(), of("steps_per_s"));
        let ratio = number("ours_to_this").map_or(String::new(), |ratio| {
            format!("; ours is {ratio:.2} times that (goal {:.2})", number("goal").unwrap_or_default())
        });
        println!("{name}: {rate} steps/s ({} to {}){ratio}", of("least"), of("most"));
    }
}

impl Args {
    /// Steps per second of one measurement.
    fn rate(&self, entrant: Entrant, folder: &Path) -> Result<f64> {
        let (steps, warm_up) = (self.steps.to_string(), (self.steps / 4).to_string());
        let many = (self.steps * 10).to_string();
        let script = |name: &str| {
            let mut command = Command::new(&self.python);
            command.arg(self.scripts.join("python_jobs.py")).arg(name);
            command.args(["--steps", &steps, "--warm-up", &warm_up]);
            command
        };
        let data = folder.join("points.csv");
        let line = match entrant {
            Entrant::RustRows => job::run(Tasks::local(2, 1), "python-rows-task", &[])?.measured,
            Entrant::PythonRows => job::run_as(&local_cluster(2, 1)?, |_| script("rows"))?.measured,
            Entrant::Tables => job::run_as(&local_cluster(2, 2)?, |_| script("tables"))?.measured,
            Entrant::Torch => last_line(script("torch"))?,
            Entrant::Ddp => last_line(script("ddp"))?,
            Entrant::Script => last_line(script("estimator").args(["--steps", &many]).arg("--data").arg(data))?,
            Entrant::JobFile => {
                let run = tempfile::tempdir_in(folder).context(Code::Internal, "there is no temporary folder")?;
                let mut command = Command::new(&self.python);
                command.args(["-m", "phalanx", "train", "job.toml", "--json", "--max-steps", &many]);
                last_line(command.current_dir(folder).arg("--model-dir").arg(run.path()))?
            }
        };
        let measured: Value = serde_json::from_str(line.strip_prefix("best ").unwrap_or(&line))
            .map_err(|error| Error::new(Code::Internal, format!("{}: {line}", entrant.name())).because(error))?;
        let wrong = || Error::new(Code::Internal, format!("{} has no steps_per_s: {line}", entrant.name()));
        measured["steps_per_s"].as_f64().ok_or_else(wrong)
    }
}

/// Runs a program, and returns the last line that it prints.
fn last_line(command: impl std::borrow::BorrowMut<Command>) -> Result<String> {
    let mut command = command;
    let command = command.borrow_mut();
    command.env_remove("TF_CONFIG").stderr(std::process::Stdio::inherit());
    let output = command.output().context(Code::Internal, "a program does not start")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().filter(|_| output.status.success());
    let failed = || Error::new(Code::JobFailed, "a program that is measured failed").because(output.status);
    last.map(str::to_owned).ok_or_else(failed)
}

/// Writes the estimator's job file, and rows of five numbers and three texts.
fn write_job(folder: &Path) -> Result<()> {
    let mut random = SplitMix::new(1);
    let mut rows = "n0,n1,n2,n3,n4,t0,t1,t2,y\n".to_owned();
    for _ in 0..20_000 {
        for _ in 0..5 {
            rows += &format!("{:.4},", random.below(10_000) as f64 / 1e4);
        }
        rows += &format!("a{},b{},c{},{}\n", random.below(500), random.below(50), random.below(5), random.below(2));
    }
    let write =
        |name: &str, text: &str| std::fs::write(folder.join(name), text).context(Code::Internal, name.to_owned());
    write("points.csv", &rows)?;
    write("job.toml", include_str!("../python_job.toml"))
}

/// A module with one parameter: a step has a dense part, however small.
#[derive(Module, Debug)]
struct One {
    one: Param<Tensor<1>>,
}

/// A task of the job that exchanges rows from Rust.
pub(crate) fn rows_task(args: &Args) -> Result<()> {
    die_with_parent()?;
    let server = Server::start_with(task_from_env()?, ServerOptions::from_env()?)?;
    if server.task().role == Role::Ps {
        return server.join();
    }
    let mut supervisor = Supervisor::new(&server, Adagrad::new(0.05));
    let bound = (DIM as f32).powf(-0.5);
    let table = supervisor.table(TableSpec {
        name: "rows".to_owned(),
        dim: DIM,
        initializer: RowInitializer::uniform(-bound, bound, 1),
        optimizer: Adagrad::new(0.05).into(),
    })?;
    let mut random = SplitMix::new(1);
    let batches: Vec<Vec<i64>> =
        (0..BATCHES).map(|_| (0..ROWS).map(|_| random.below(TABLE as usize) as i64).collect()).collect();
    let one = One { one: Param::from_tensor(Tensor::zeros([1], &default_device())) };
    let mut session = supervisor.prepare_or_wait_for_session(one)?;
    let mut run = |steps: u64| -> Result<()> {
        for step in 0..steps as usize {
            session.step_with_gradients(&[(table, &batches[step % BATCHES][..])], |_, _, rows| {
                let rows = rows.into_iter().map(|rows| Some(rows.values.into())).collect();
                Ok(StepGradients { dense: vec![None], rows, ..StepGradients::default() })
            })?;
        }
        Ok(())
    };
    run(args.steps / 4)?;
    let started = Instant::now();
    run(args.steps)?;
    println!("best {}", json!({ "steps_per_s": args.steps as f64 / started.elapsed().as_secs_f64() }));
    supervisor.stop(session)
}
