//! A custom convolutional model under an estimator, on Fashion-MNIST.
//!
//! ```text
//! cargo run --release --example fashion_estimator -- --data-dir fashion-mnist
//! ```
//!
//! With `TF_CONFIG` or the classic flags the same program is the chief, a worker, a parameter server or the evaluator of a job, with the weights on
//! the parameter servers.

#![allow(clippy::print_stdout)]

mod model;
#[path = "../fashion_cnn/network.rs"]
mod network;

use clap::Parser;
use phalanx::data::mnist;
use phalanx::prelude::*;
use std::path::PathBuf;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Trains a convolutional estimator on Fashion-MNIST
#[derive(Parser)]
#[command(version, about, after_help = Flags::HELP)]
struct Args {
    /// Folder with the four IDX files, gzip or plain [default: synthetic images]
    #[arg(long)]
    data_dir: Option<PathBuf>,
    /// Run directory for checkpoints, events and evaluations [default: a temporary folder]
    #[arg(long)]
    model_dir: Option<String>,
    /// Steps of all trainers
    #[arg(long, default_value_t = 2000)]
    max_steps: u64,
    /// Batch size
    #[arg(long, default_value_t = 64)]
    batch_size: usize,
    /// Test images per evaluation
    #[arg(long, default_value_t = 10_000)]
    test_images: u64,
    /// Random seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
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
    let ([train, test], seed) = (mnist(args.data_dir.as_deref()), args.seed);
    let (batch_size, test_images) = (args.batch_size, args.test_images);
    let train = TrainSpec::new(move |cx| {
        let images = train.clone().shard(cx);
        images.shuffle_seeded(10_000, seed).repeat().batch(batch_size).prefetch(2)
    });
    let eval = EvalSpec::new(move |_| test.clone().take(test_images).batch(500));
    let eval = eval.steps(None).start_delay_secs(0).throttle_secs(30).exporter(Exporter::at_end("clothes"));
    let mut config =
        RunConfig::for_task(task)?.tf_random_seed(seed).log_step_count_steps(200).save_checkpoints_steps(500);
    if let Some(model_dir) = &args.model_dir {
        config = config.model_dir(model_dir);
    }
    let model = model::Clothes { seed };
    println!("{}", train_and_evaluate(&model, train.max_steps(args.max_steps), eval, config)?);
    Ok(())
}
