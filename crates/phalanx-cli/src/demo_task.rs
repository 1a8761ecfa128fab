//! One task of the demo: wide & deep on a synthetic click log.

use phalanx::Result;
use phalanx::data::{Clicks, synthetic_clicks};
use phalanx::estimator::{Control, Hook};
use phalanx::prelude::*;
use serde_json::json;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// The subcommand that runs a task.
pub(crate) const NAME: &str = "demo-task";
/// When the demo was started, in milliseconds since 1970.
pub(crate) const STARTED: &str = "PHALANX_DEMO_STARTED";
/// The files with the results of the chief and the evaluator, and the name of the export.
pub(crate) const TRAINED: &str = "demo.trained.json";
pub(crate) const EVALUATED: &str = "demo.evaluated.json";
pub(crate) const EXPORT: &str = "clicks";

/// Ids per column; few, so that a short training sees each of them.
const IDS: u64 = 50;
const ROWS: u64 = 2_000_000;
const BATCH: usize = 256;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Steps of all trainers together
    #[arg(long, default_value_t = 16_000)]
    max_steps: u64,
    /// Directory for everything
    #[arg(long)]
    model_dir: String,
}

fn log(seed: u64, rows: u64) -> Clicks {
    synthetic_clicks(seed, rows).max_ids(IDS)
}

/// The best AUC that any model can reach on the log.
pub(crate) fn best_auc() -> f64 {
    log(1, 1).best().auc
}

/// Replaces the numbers, which are counts with long tails, by their logarithms.
fn logarithms(mut batch: Batch) -> Result<Batch> {
    for name in Clicks::number_names() {
        let numbers = batch.f32(&name)?.iter().map(|number| number.ln()).collect();
        batch = batch.with_column(&name, Column::f32(numbers))?;
    }
    Ok(batch)
}

/// Runs the task that `TF_CONFIG` names.
pub(crate) fn run(args: &Args) -> Result<()> {
    with_threads(1, || train(args))
}

fn train(args: &Args) -> Result<()> {
    let numbers: Vec<FeatureColumn> = Clicks::number_names().into_iter().map(numeric_column).collect();
    let ids = log(1, 1).categories();
    let ids: Vec<_> = ids.into_iter().map(|(name, ids)| categorical_column_with_identity(name, ids as usize)).collect();
    let deep: Vec<_> =
        numbers.into_iter().chain(ids.iter().map(|column| embedding_column(column.clone(), 8))).collect();
    let model = WideDeepClassifier::new(ids, deep)
        .hidden_units([64, 32])
        .linear_optimizer(Ftrl::new(0.1))
        .dnn_optimizer(Adagrad::new(0.1));
    let config = RunConfig::from_env()?
        .model_dir(&args.model_dir)
        .tf_random_seed(1)
        .save_summary_steps((args.max_steps / 400).max(1))
        .save_checkpoints_steps((args.max_steps / 8).max(1))
        .log_step_count_steps((args.max_steps / 20).max(1));
    let chief = config.task_config().task().is_none_or(|task| task.role == Role::Chief);
    let train = TrainSpec::new(|cx| log(1, ROWS).shard(cx).repeat().batch(BATCH).map(logarithms).prefetch(2))
        .max_steps(args.max_steps);
    let began = Arc::new(OnceLock::new());
    let first = FirstStep { began: Arc::clone(&began), dir: args.model_dir.clone() };
    let train = if chief { train.hook(first) } else { train };
    let eval = EvalSpec::new(|_| log(2, 20_000).batch(1000).map(logarithms))
        .steps(None)
        .start_delay_secs(0)
        .throttle_secs(3)
        .exporter(Exporter::at_end(EXPORT));
    let done = train_and_evaluate(&model, train, eval, config)?;
    if let Some(training) = &done.training {
        print(&format!("computed {} steps", training.steps));
        // Not set if an earlier run had made all steps.
        if let Some(before) = began.get() {
            let rate = (training.global_step - before) as f64 / training.seconds;
            print(&format!("{} steps, {rate:.0} steps/s", training.global_step));
            add(&args.model_dir, TRAINED, "steps_per_s", rate)?;
        }
    }
    if let Some(auc) = done.evaluation.as_ref().and_then(|found| found.get("auc")) {
        add(&args.model_dir, EVALUATED, "auc", auc)?;
    }
    Ok(())
}

/// Prints and records when the first step was done.
struct FirstStep {
    /// The steps that had been made before, in an earlier run or by other tasks.
    began: Arc<OnceLock<u64>>,
    dir: String,
}

impl Hook for FirstStep {
    fn after_step(&mut self, step: &Step) -> Result<Control> {
        if self.began.set(step.global_step.saturating_sub(1)).is_ok() {
            let command = std::env::var(STARTED).ok().and_then(|text| text.parse::<u64>().ok());
            let seconds = command.map_or(0.0, |given| phalanx_run::now_ms().saturating_sub(given) as f64 / 1000.0);
            print(&format!("step {}: loss {:.5}, {seconds:.1} s after the start", step.global_step, step.loss));
            add(&self.dir, TRAINED, "first_step_s", seconds)?;
        }
        Ok(Control::Continue)
    }
}

/// Adds a number to a file of results.
fn add(dir: &str, file: &str, name: &str, number: f64) -> Result<()> {
    let path = Path::new(dir).join(file);
    let known = std::fs::read_to_string(&path).ok().and_then(|text| serde_json::from_str(&text).ok());
    let mut known: serde_json::Value = known.unwrap_or_else(|| json!({}));
    known[name] = json!(number);
    std::fs::write(&path, known.to_string())
        .map_err(|error| Error::new(Code::StorageWrite, format!("{} cannot be written", path.display())).because(error))
}

/// Prints a line to standard output. A closed pipe is not an error.
fn print(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}
