//! Predicts incomes above 50,000 dollars: TensorFlow's wide & deep tutorial on the census of 1994.
//!
//! ```text
//! census_wide_deep --data-dir census --model wide_deep --max-steps 3000
//! ```
//!
//! With `TF_CONFIG` or the classic flags the same program is the chief, a worker, a parameter server or the evaluator of a job; `--strategy` chooses
//! how the job trains, and nothing else changes.

#![allow(clippy::print_stdout)]

mod columns;

use clap::{Parser, ValueEnum};
use phalanx::data::census;
use phalanx::prelude::*;
use std::path::PathBuf;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Kind {
    Linear,
    Dnn,
    WideDeep,
}

/// Trains a linear, deep, or wide & deep model on the census
#[derive(Parser)]
#[command(after_help = Flags::HELP)]
struct Args {
    /// The folder of adult.data and adult.test [default: synthetic people]
    #[arg(long)]
    data_dir: Option<PathBuf>,
    /// Run directory for checkpoints, events and evaluations [default: a temporary folder]
    #[arg(long)]
    model_dir: Option<String>,
    /// The model
    #[arg(long, value_enum, default_value = "wide_deep")]
    model: Kind,
    /// Steps, including those of earlier runs
    #[arg(long, default_value_t = 3000)]
    max_steps: u64,
    /// Random seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// mirrored:2, multi_worker_mirrored, parameter_server:ssp:2, … [default: what fits the cluster]
    #[arg(long)]
    strategy: Option<String>,
    /// Compute threads
    #[arg(long, default_value_t = 1)]
    threads: usize,
}

fn main() -> ExitCode {
    phalanx::exit(task_from_args_or_env().and_then(|(task, rest)| {
        let args = Args::parse_from(rest);
        with_threads(args.threads, || run(task, &args))
    }))
}

fn run(task: TaskConfig, args: &Args) -> phalanx::Result<()> {
    let ([train, test], seed) = (census(args.data_dir.as_deref()), args.seed);
    let train = TrainSpec::new(move |cx| {
        let order = seed.wrapping_mul(1000) + cx.input_pipeline_id as u64;
        columns::people(&train, cx).cache().shuffle_seeded(40_000, order).repeat().batch(128).prefetch(2)
    });
    let train = train.max_steps(args.max_steps);
    let eval =
        EvalSpec::new(move |cx| columns::people(&test, cx).batch(512)).steps(None).start_delay_secs(0).throttle_secs(5);
    let mut config = RunConfig::for_task(task)?.tf_random_seed(args.seed).log_step_count_steps(1000);
    if let Some(model_dir) = &args.model_dir {
        config = config.model_dir(model_dir);
    }
    if let Some(strategy) = &args.strategy {
        config = config.train_distribute(strategy);
    }
    let (wide, deep) = (columns::wide(), columns::deep());
    let done = match args.model {
        Kind::Linear => train_and_evaluate(&LinearClassifier::new(wide), train, eval, config)?,
        Kind::Dnn => {
            let model = DnnClassifier::new(deep).hidden_units([100, 50]).optimizer(Adagrad::new(0.05));
            train_and_evaluate(&model, train, eval, config)?
        }
        Kind::WideDeep => {
            let model = WideDeepClassifier::new(wide, deep)
                .hidden_units([100, 50])
                .linear_optimizer(Ftrl::new(0.05))
                .dnn_optimizer(Adagrad::new(0.05));
            train_and_evaluate(&model, train, eval, config)?
        }
    };
    if let Some(training) = done.training {
        println!("steps_per_s {:.0}", training.steps as f64 / training.seconds);
    }
    println!("{done}");
    Ok(())
}
