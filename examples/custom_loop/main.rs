//! A custom training loop under a strategy, as in TensorFlow's guide.
//!
//! ```text
//! cargo run --release --example custom_loop -- --strategy mirrored:2
//! ```

#![allow(clippy::print_stdout)]

mod points;

use burn::tensor::Tensor;
use clap::Parser;
use phalanx::layers::Dense;
use phalanx::prelude::*;
use points::points;
use std::process::ExitCode;

/// Learns whether a point lies above a line.
#[derive(Parser)]
#[command(version, about)]
struct Args {
    /// auto, default, one_device:DEVICE, mirrored:N, central_storage:N, multi_worker_mirrored or
    /// parameter_server:CONSISTENCY
    #[arg(long, default_value = "mirrored:2")]
    strategy: String,
    #[arg(long, default_value_t = 10)]
    epochs: usize,
}

fn main() -> ExitCode {
    phalanx::exit(run(&Args::parse()))
}

fn run(args: &Args) -> phalanx::Result<()> {
    let global_batch_size = 16;
    let strategy = Strategy::named(&args.strategy)?;
    let mut model = strategy.scope(|| Sequential::new().add(Dense::new(1)).build([2]))?.optimizer(Sgd::new(0.5))?;
    let dataset = strategy.distribute_dataset(&points()?.batch(global_batch_size))?;
    let loss_object = Loss::binary_crossentropy().from_logits();

    for epoch in 0..args.epochs {
        let (mut total, mut steps) = (0.0, 0);
        for inputs in dataset.steps()? {
            let losses = strategy.run(&mut model, inputs?, |replica, batch| {
                let features: Tensor<2> = batch.tensor("x", replica.device())?;
                let predictions = replica.model().forward(features, Mode::Training { seed: replica.seed() })?;
                let labels = batch.labels("y", &predictions)?;
                let loss = loss_object.forward(labels, predictions)?.sum() / global_batch_size as f32;
                replica.apply_gradients(replica.gradient(loss.clone())?);
                phalanx::scalar(loss)
            })?;
            total += strategy.reduce(Reduce::Sum, &losses)?;
            steps += 1;
        }
        if strategy.should_checkpoint() {
            println!("epoch {epoch}: loss {:.4}", total / steps as f32);
        }
    }
    Ok(())
}
