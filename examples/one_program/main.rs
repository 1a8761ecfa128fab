//! One program under every strategy: its network, its data and its training do not change.
//!
//! ```text
//! cargo run --release --example one_program -- --strategy mirrored:2
//! cargo run --release --example one_program -- --strategy parameter_server:async --loop
//! ```
//!
//! With `TF_CONFIG` or the classic flags, start it once for each task of the cluster. One task, the chief or the first worker, prints the
//! result.

#![allow(clippy::print_stdout)]

mod disc;

use burn::tensor::Tensor;
use clap::Parser;
use phalanx::layers::Dense;
use phalanx::prelude::*;
use std::process::ExitCode;

const BATCH: usize = 96;

/// Learns which points lie in a disc.
#[derive(Parser)]
#[command(version, about, after_help = Flags::HELP)]
struct Args {
    /// auto, default, one_device:DEVICE, mirrored:N, central_storage:N, multi_worker_mirrored or
    /// parameter_server:CONSISTENCY
    #[arg(long, default_value = "auto")]
    strategy: String,
    /// A training loop of our own instead of `fit`
    #[arg(long = "loop")]
    custom_loop: bool,
    #[arg(long, default_value_t = 30)]
    epochs: usize,
}

fn main() -> ExitCode {
    phalanx::exit(task_from_args_or_env().and_then(|(task, rest)| run(&task, &Args::parse_from(rest))))
}

fn run(task: &TaskConfig, args: &Args) -> phalanx::Result<()> {
    let strategy = Strategy::named_for(&args.strategy, task, &ServerOptions::from_env()?)?;
    let network = || {
        let hidden = Dense::new(32).activation(Function::Tanh);
        Sequential::new().add(hidden).add(Dense::new(2)).seed(1).build([2])
    };
    let loss = Loss::sparse_categorical_crossentropy().from_logits();
    let mut model = strategy.scope(network)?.compile(Adam::new(0.02), loss, ["accuracy"])?;
    let data = disc::points()?.shuffle_seeded(disc::POINTS, 1).batch(BATCH);
    if args.custom_loop {
        let data = strategy.distribute_dataset(&data)?;
        for _ in 0..args.epochs {
            for inputs in data.steps()? {
                strategy.run(model.replicated(), inputs?, |replica, batch| {
                    let points: Tensor<2> = batch.tensor("x", replica.device())?;
                    let logits = replica.model().forward(points, Mode::Training { seed: replica.seed() })?;
                    let loss = loss.forward(batch.labels("y", &logits)?, logits)?.sum() / BATCH as f32;
                    replica.apply_gradients(replica.gradient(loss)?);
                    Ok(())
                })?;
            }
        }
    } else {
        model.fit(&data, Fit::epochs(args.epochs).verbose(Verbose::Silent))?;
    }
    let found = model.evaluate(&data, Fit::default().verbose(Verbose::Silent))?;
    if strategy.should_checkpoint() {
        let (loss, accuracy, steps) = (found.find("loss")?, found.find("accuracy")?, model.iterations());
        let name = &args.strategy;
        println!(r#"{{"strategy": {name:?}, "loss": {loss}, "accuracy": {accuracy}, "steps": {steps}}}"#);
    }
    Ok(())
}
