//! One task of a job of an estimator, for the tests that need processes: a line, as `TF_CONFIG` or flags say, at a pace that
//! leaves time to kill somebody.

use clap::Parser;
use phalanx::data::{Batch, Column, Dataset, InputContext};
use phalanx::estimator::{Control, Hook};
use phalanx::prelude::*;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Parser)]
struct Args {
    #[arg(long)]
    model_dir: String,
    /// Steps of all trainers together
    #[arg(long, default_value_t = 500)]
    max_steps: u64,
    /// How long a step takes at least
    #[arg(long, default_value_t = 0)]
    step_ms: u64,
    /// Steps between two checkpoints
    #[arg(long, default_value_t = 20)]
    save_steps: u64,
    #[arg(long, default_value_t = 5_000)]
    lease_ms: u64,
    /// How the job trains
    #[arg(long)]
    strategy: Option<String>,
}

/// Makes every step last.
struct Slow(Duration);

impl Hook for Slow {
    fn after_step(&mut self, _: &Step) -> phalanx::Result<Control> {
        std::thread::sleep(self.0);
        Ok(Control::Continue)
    }
}

fn line() -> phalanx::Result<Dataset> {
    let x: Vec<f32> = (0..100_u8).map(|i| f32::from(i) / 100.0).collect();
    let y = x.iter().map(|x| 3.0 * x - 1.0).collect();
    let rows = Batch::new([("x", Column::f32(x)), ("y", Column::f32(y))])?;
    Ok(Dataset::from_tensor_slices(rows.with_label("y")?))
}

fn main() -> ExitCode {
    phalanx::exit(task_from_args_or_env().and_then(|(task, rest)| run(task, &Args::parse_from(rest))))
}

fn run(task: TaskConfig, args: &Args) -> phalanx::Result<()> {
    if let Some(task) = task.task() {
        eprintln!("this is {task}");
    }
    let (rows, slow) = (line()?, Slow(Duration::from_millis(args.step_ms)));
    let test = rows.clone();
    let train = TrainSpec::new(move |_: InputContext| rows.clone().shuffle(100).repeat().batch(10));
    let train = train.max_steps(args.max_steps).hook(slow);
    let eval = EvalSpec::new(move |_| test.clone().batch(50)).start_delay_secs(0).throttle_secs(0);
    let lease = Duration::from_millis(args.lease_ms);
    let options = ServerOptions { lease, ..ServerOptions::from_env()? };
    let config = RunConfig::for_task(task)?.server_options(options).model_dir(args.model_dir.clone());
    let config = config.save_checkpoints_steps(args.save_steps).log_step_count_steps(20);
    let config = match &args.strategy {
        Some(strategy) => config.train_distribute(strategy),
        None => config,
    };
    let model = LinearRegressor::new([numeric_column("x")]).optimizer(Adagrad::new(0.5));
    eprintln!("{}", train_and_evaluate(&model, train, eval, config)?);
    Ok(())
}
