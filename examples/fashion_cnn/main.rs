//! A convolutional network on Fashion-MNIST, under any strategy.
//!
//! ```text
//! cargo run --release --example fashion_cnn -- --data-dir fashion-mnist --strategy mirrored:2
//! ```
//!
//! `--model mlp` trains the 784-128-10 network of Keras' first tutorial instead. With `TF_CONFIG`, the workers of the cluster
//! train together.

#![allow(clippy::print_stdout)]

mod network;

use clap::Parser;
use phalanx::callbacks::{BackupAndRestore, ModelCheckpoint, TensorBoard};
use phalanx::data::mnist;
use phalanx::layers::{Dense, Flatten};
use phalanx::prelude::*;
use std::path::PathBuf;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Trains a network on Fashion-MNIST.
#[derive(Parser)]
#[command(version, about, after_help = Flags::HELP)]
struct Args {
    /// Folder with the four IDX files, gzip or plain [default: synthetic images]
    #[arg(long)]
    data_dir: Option<PathBuf>,
    /// cnn or mlp
    #[arg(long, default_value = "cnn")]
    model: String,
    /// auto, default, one_device:DEVICE, mirrored:N, central_storage:N, multi_worker_mirrored or
    /// parameter_server:CONSISTENCY
    #[arg(long, default_value = "auto")]
    strategy: String,
    /// Passes over the data
    #[arg(long, default_value_t = 5)]
    epochs: usize,
    /// Global batch size
    #[arg(long, default_value_t = 64)]
    batch_size: usize,
    /// Random seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Training images to use
    #[arg(long, default_value_t = 60_000)]
    images: u64,
    /// Run directory for backups, weights and event files
    #[arg(long)]
    model_dir: Option<String>,
}

fn main() -> ExitCode {
    phalanx::exit(task_from_args_or_env().and_then(|(task, rest)| run(&task, &Args::parse_from(rest))))
}

fn run(task: &TaskConfig, args: &Args) -> phalanx::Result<()> {
    let strategy = Strategy::named_for(&args.strategy, task, &ServerOptions::from_env()?)?;
    let loss = Loss::SparseCategoricalCrossentropy { from_logits: true };
    let mut model = strategy.scope(|| model(args))?.compile(Adam::new(1e-3), loss, ["accuracy"])?;
    if strategy.should_checkpoint() {
        print!("{}", model.module().summary(None));
    }
    let [train, test] = mnist(args.data_dir.as_deref());
    let train = train.take(args.images).shuffle_seeded(60_000, args.seed).batch(args.batch_size);
    let test = test.batch(1000);
    let mut fit = Fit::epochs(args.epochs).validation(&test);
    if let Some(dir) = &args.model_dir {
        fit = fit
            .callback(BackupAndRestore::new(format!("{dir}/backup")).save_freq(200))
            .callback(ModelCheckpoint::new(format!("{dir}/best")).monitor("val_accuracy").save_best_only())
            .callback(TensorBoard::new(dir.clone()));
    }
    let history = model.fit(&train, fit)?;
    if strategy.should_checkpoint() {
        println!("test accuracy {:.4}", history.last("val_accuracy")?);
    }
    Ok(())
}

fn model(args: &Args) -> phalanx::Result<Model> {
    let hidden = Dense::new(128).activation(Function::Relu);
    let layers = match args.model.as_str() {
        "mlp" => Sequential::new().add(Flatten::new()).add(hidden).add(Dense::new(10)),
        "cnn" => network::cnn(),
        other => {
            return Err(Error::new(Code::BadSetting, format!("there is no model {other:?}")).help("choose cnn or mlp"));
        }
    };
    layers.seed(args.seed).build([28, 28])
}
