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
use phalanx::metrics::{BinaryAccuracy, Mean};
use phalanx::prelude::*;
use points::points;
use std::process::ExitCode;

const BATCH_SIZE_PER_REPLICA: usize = 8;
const RATE_PER_REPLICA: f32 = 0.25;

/// Learns whether a point lies above a line.
#[derive(Parser)]
#[command(version, about, after_help = Flags::HELP)]
struct Args {
    /// auto, default, one_device:DEVICE, mirrored:N, central_storage:N, multi_worker_mirrored or
    /// parameter_server:CONSISTENCY
    #[arg(long, default_value = "mirrored:2")]
    strategy: String,
    #[arg(long, default_value_t = 10)]
    epochs: usize,
}

fn main() -> ExitCode {
    phalanx::exit(task_from_args_or_env().and_then(|(task, rest)| run(&task, &Args::parse_from(rest))))
}

fn run(task: &TaskConfig, args: &Args) -> phalanx::Result<()> {
    let strategy = Strategy::named_for(&args.strategy, task, &ServerOptions::from_env()?)?;
    // More replicas: a larger batch, and a rate that grows with it.
    let replicas = strategy.num_replicas_in_sync();
    let global_batch_size = BATCH_SIZE_PER_REPLICA * replicas;
    let rate = RATE_PER_REPLICA * replicas as f32;

    let network = || Sequential::new().add(Dense::new(1)).build([2]);
    let mut model = strategy.scope(network)?.optimizer(Sgd::new(rate).clip(Clip::GlobalNorm(5.0)))?;
    let accuracy = model.metric(BinaryAccuracy::new().threshold(0.0));
    let mean_loss = model.metric(Mean::new("loss"));
    let dataset = strategy.datasets_from_function(|cx| Ok(points()?.shard(*cx).batch(BATCH_SIZE_PER_REPLICA)))?;
    let loss_object = Loss::binary_crossentropy().from_logits();

    for epoch in 0..args.epochs {
        for inputs in dataset.steps()? {
            strategy.run(&mut model, inputs?, |replica, batch| {
                let features: Tensor<2> = batch.tensor("x", replica.device())?;
                let predictions = replica.model().forward(features, Mode::Training { seed: replica.seed() })?;
                let labels = batch.labels("y", &predictions)?;
                let each = loss_object.forward(labels, predictions.clone())?;
                let loss = each.clone().sum() / global_batch_size as f32;
                replica.apply_gradients(replica.gradient(loss)?);
                replica.update(&accuracy, batch.f32("y")?, &HostTensor::from(predictions), None)?;
                HostTensor::from(each).as_f32()?.iter().try_for_each(|loss| replica.record(&mean_loss, *loss))
            })?;
        }
        let found = model.metric_results()?;
        model.reset_metrics();
        if strategy.should_checkpoint() {
            println!("epoch {epoch}: accuracy {:.4}, loss {:.4}", found.find("binary_accuracy")?, found.find("loss")?);
        }
    }
    Ok(())
}
