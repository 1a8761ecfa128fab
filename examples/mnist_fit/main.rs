//! MNIST with mirrored workers: every worker of `TF_CONFIG` runs this program.
//!
//! ```text
//! export TF_CONFIG='{"cluster": {"worker": ["localhost:2221", "localhost:2222"]}, "task": {"type": "worker", "index": 0}}'
//! cargo run --release --example mnist_fit        # and with index 1; --data-dir DIR for the real digits
//! ```

#![allow(clippy::print_stdout)]

use clap::Parser;
use phalanx::callbacks::BackupAndRestore;
use phalanx::data::mnist;
use phalanx::layers::{Dense, Dropout, Flatten};
use phalanx::prelude::*;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Trains a network on MNIST with the workers of TF_CONFIG.
#[derive(Parser)]
#[command(version, about, after_help = Flags::HELP)]
struct Args {
    /// Folder with MNIST's four IDX files, gzip or plain [default: synthetic images]
    #[arg(long)]
    data_dir: Option<PathBuf>,
    #[arg(long, default_value_t = 3)]
    epochs: usize,
    /// Global batch size
    #[arg(long, default_value_t = 128)]
    batch_size: usize,
    /// Directory of backups that a restarted training continues from
    #[arg(long)]
    backup_dir: Option<String>,
    /// Compute threads
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Seconds to wait for the workers to join
    #[arg(long, default_value_t = 600)]
    formation_deadline: u64,
}

fn main() -> ExitCode {
    phalanx::exit(task_from_args_or_env().and_then(|(task, rest)| {
        let args = Args::parse_from(rest);
        with_threads(args.threads, || run(&task, &args))
    }))
}

fn run(task: &TaskConfig, args: &Args) -> phalanx::Result<()> {
    let options = ServerOptions {
        formation_deadline: Duration::from_secs(args.formation_deadline),
        ..ServerOptions::from_env()?
    };
    let strategy = Strategy::multi_worker_mirrored(task, &options)?;
    let network = || {
        let hidden = Dense::new(128).activation(Function::Relu);
        Sequential::new().add(Flatten::new()).add(hidden).add(Dropout::new(0.2)).add(Dense::new(10)).build([28, 28])
    };
    let loss = Loss::SparseCategoricalCrossentropy { from_logits: true };
    let mut model = strategy.scope(network)?.compile(Adam::new(1e-3), loss, ["accuracy"])?;

    let [train, test] = mnist(args.data_dir.as_deref());
    let (train, test) = (train.shuffle_seeded(60_000, 1).batch(args.batch_size), test.batch(1000));
    let mut fit = Fit::epochs(args.epochs).validation(&test);
    if let Some(dir) = &args.backup_dir {
        fit = fit.callback(BackupAndRestore::new(dir.clone()).save_freq(100));
    }
    let history = model.fit(&train, fit)?;
    if strategy.should_checkpoint() {
        println!("done: {} steps, test accuracy {:.4}", model.iterations(), history.last("val_accuracy")?);
    }
    Ok(())
}
