//! Canned estimators on the census, in one process or as a job, beside TensorFlow's where its script is given.

// The columns of the example, which are those of the peer.
#[path = "../../examples/census_wide_deep/columns.rs"]
mod columns;

use crate::job::{self, Tasks};
use crate::local_job::die_with_parent;
use clap::ValueEnum;
use phalanx::data::InputContext;
use phalanx::estimator::IntoModel;
use phalanx::prelude::*;
use phalanx::{Code, Error, Result};
use phalanx_base::Context;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Steps before the clock runs, as the peer does in one process; a job's start-up is in its time.
const WARM_UP: u64 = 100;

#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Kind {
    Linear,
    Dnn,
    WideDeep,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.to_possible_value().map_or(Ok(()), |value| f.write_str(value.get_name()))
    }
}

/// What is measured; the defaults are the peer's.
#[derive(Clone, clap::Args)]
pub(crate) struct Args {
    /// The folder of adult.data and adult.test
    #[arg(long)]
    data_dir: String,
    #[arg(long, value_enum, default_value = "wide_deep")]
    model: Kind,
    /// Parameter servers; 0 trains in one process
    #[arg(long, default_value_t = 0)]
    ps: usize,
    /// Workers beside the chief
    #[arg(long, default_value_t = 0)]
    workers: usize,
    #[arg(long, default_value_t = 128)]
    batch: usize,
    #[arg(long, default_value_t = 3000)]
    steps: u64,
    /// Measures so often, and takes the best
    #[arg(long, default_value_t = 2)]
    rounds: usize,
    /// TensorFlow's side: a script that prints one line of JSON with "steps_per_s", run in turns with ours
    #[arg(long, requires = "python")]
    peer: Option<PathBuf>,
    /// The interpreter of that script
    #[arg(long)]
    python: Option<PathBuf>,
    /// Where a task of a job keeps itself
    #[arg(long, hide = true)]
    model_dir: Option<String>,
}

/// Calls a generic function with the model that is asked for: those of the peer.
macro_rules! with_model {
    ($kind:expr, $function:ident($($argument:expr),*)) => {{
        let (wide, deep, hidden) = (columns::wide(), columns::deep(), [100, 50]);
        match $kind {
            Kind::Linear => $function(&LinearClassifier::new(wide), $($argument),*),
            Kind::Dnn => {
                let model = DnnClassifier::new(deep).hidden_units(hidden).optimizer(Adagrad::new(0.05));
                $function(&model, $($argument),*)
            }
            Kind::WideDeep => {
                let model = WideDeepClassifier::new(wide, deep).hidden_units(hidden);
                let model = model.linear_optimizer(Ftrl::new(0.05)).dnn_optimizer(Adagrad::new(0.05));
                $function(&model, $($argument),*)
            }
        }
    }};
}

/// Measures, in turns with the peer if there is one; prints every measurement and what is best.
pub(crate) fn measure(args: &Args) -> Result<()> {
    if args.batch == 0 || args.steps == 0 || args.rounds == 0 {
        return Err(Error::new(Code::BadSetting, "--batch, --steps and --rounds must be greater than 0"));
    }
    let (mut theirs, mut ours) = (0.0_f64, 0.0_f64);
    for _ in 0..args.rounds {
        if let (Some(script), Some(python)) = (&args.peer, &args.python) {
            theirs = theirs.max(peer(args, script, python)?);
        }
        let line = if args.ps == 0 { in_one_process(args)? } else { as_a_job(args)? };
        println!("{line}");
        ours = ours.max(rate(&line)?);
    }
    let Args { model, ps, workers, .. } = args;
    let who = if *ps == 0 { "one process".to_owned() } else { format!("chief + {workers} workers + {ps} ps") };
    match args.peer {
        Some(_) => {
            let times = ours / theirs;
            println!("{model}, {who}: tensorflow {theirs:.1}, phalanx {ours:.1} steps/s, {times:.1} times");
        }
        None => println!("{model}, {who}: {ours:.1} steps/s"),
    }
    Ok(())
}

fn in_one_process(args: &Args) -> Result<String> {
    with_threads(1, || with_model!(args.model, alone(args)))
}

fn as_a_job(args: &Args) -> Result<String> {
    let folder = folder()?;
    let model_dir = format!("--model-dir={}", folder.path().display());
    Ok(job::run(Tasks::local(args.ps, args.workers + 1), "census-task", &[model_dir])?.measured)
}

/// A task of a job that is being measured.
pub(crate) fn task(args: &Args) -> Result<()> {
    die_with_parent()?;
    with_threads(1, || with_model!(args.model, one_task(args)))
}

/// The chief says its rate, from before it meets the others until it has saved what all have learned.
fn one_task(model: &impl IntoModel, args: &Args) -> Result<()> {
    let started = Instant::now();
    let options = ServerOptions { threads: 1, ..ServerOptions::from_env()? };
    let config = config(args.model_dir.as_deref().unwrap_or_default()).task(task_from_env()?).server_options(options);
    let (own, test) = (args.clone(), args.clone());
    let train = TrainSpec::new(move |cx| train(&own, cx)).max_steps(args.steps);
    let eval = EvalSpec::new(move |cx| people(&test, 1, cx).batch(512));
    let done = train_and_evaluate(model, train, eval, config)?;
    if done.task.is_some_and(|task| task.role == Role::Chief) {
        println!("best {}", line(args, args.steps as f64 / started.elapsed().as_secs_f64(), ""));
    }
    Ok(())
}

/// Trains in this process after a warm-up, then evaluates.
fn alone(model: &impl IntoModel, args: &Args) -> Result<String> {
    let folder = folder()?;
    let estimator = Estimator::new(model, config(&folder.path().to_string_lossy()))?;
    phalanx::logging::silence(|| estimator.train(|cx| train(args, cx), TrainSteps::Max(WARM_UP)))?;
    let started = Instant::now();
    phalanx::logging::silence(|| estimator.train(|cx| train(args, cx), TrainSteps::Max(WARM_UP + args.steps)))?;
    let rate = args.steps as f64 / started.elapsed().as_secs_f64();
    let found = estimator.evaluate(|cx| people(args, 1, cx).batch(512), None)?;
    let metrics = found.metrics.iter().map(|(name, value)| format!(", \"{name}\": {value:.4}"));
    Ok(line(args, rate, &metrics.collect::<String>()))
}

fn config(model_dir: &str) -> RunConfig {
    let config = RunConfig::new().model_dir(model_dir).tf_random_seed(1);
    config.save_checkpoints_steps(1_000_000).log_step_count_steps(None)
}

/// Part 0 is for training, part 1 for the test.
fn people(args: &Args, part: usize, cx: InputContext) -> Dataset {
    columns::people(&phalanx::data::census(Some(args.data_dir.as_ref()))[part], cx)
}

fn train(args: &Args, cx: InputContext) -> Dataset {
    let order = 1000 + cx.input_pipeline_id as u64;
    people(args, 0, cx).cache().shuffle_seeded(40_000, order).repeat().batch(args.batch).prefetch(2)
}

fn folder() -> Result<tempfile::TempDir> {
    tempfile::tempdir().context(Code::StorageWrite, "no directory for temporary files")
}

fn line(args: &Args, rate: f64, metrics: &str) -> String {
    let Args { model, ps, workers, batch, .. } = args;
    let (version, trainers) = (env!("CARGO_PKG_VERSION"), workers + usize::from(*ps > 0));
    format!(
        r#"{{"system": "phalanx {version}", "kind": "{model}", "ps": {ps}, "workers": {trainers}, "batch": {batch}, "steps_per_s": {rate:.1}{metrics}}}"#
    )
}

/// Runs TensorFlow's side; prints its line and answers its rate.
fn peer(args: &Args, script: &Path, python: &Path) -> Result<f64> {
    let mut command = Command::new(python);
    command.arg(script).arg(&args.data_dir).arg(args.model.to_string());
    command.args(["--steps", &args.steps.to_string(), "--batch", &args.batch.to_string()]);
    if args.ps > 0 {
        command.args(["--ps", &args.ps.to_string(), "--workers", &args.workers.to_string()]);
    }
    let done = command.output().context(Code::Internal, format!("{} cannot be started", python.display()))?;
    let said = String::from_utf8_lossy(&done.stdout);
    let Some(line) = said.lines().rfind(|line| line.contains("steps_per_s")) else {
        let errors = String::from_utf8_lossy(&done.stderr);
        return Err(Error::new(Code::Internal, "the peer measured nothing")
            .at(script.to_string_lossy())
            .because(errors.lines().last().unwrap_or("it said nothing")));
    };
    println!("{line}");
    rate(line)
}

/// The number behind "steps_per_s" in a line of JSON.
fn rate(line: &str) -> Result<f64> {
    let number = line.split("\"steps_per_s\":").nth(1).map(|rest| rest.trim_start().split([',', '}']).next());
    let number = number.flatten().and_then(|number| number.trim().parse().ok());
    number.ok_or_else(|| Error::new(Code::DataFormat, "a measurement has no steps_per_s").because(line))
}
