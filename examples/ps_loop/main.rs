//! The training loop of `custom_loop` under a `ParameterServerStrategy`: a coordinator schedules the same step on workers.
//!
//! ```text
//! cargo run --release --example ps_loop
//! ```
//!
//! Without `TF_CONFIG`, two workers, a parameter server and the coordinator run in this process.

#![allow(clippy::print_stdout)]

#[path = "../custom_loop/points.rs"]
mod points;

use phalanx::coordinator::{Coordinator, ParameterServerStrategy, StepContext, StepFunctions};
use phalanx::layers::Dense;
use phalanx::losses::Labels;
use phalanx::model::DynTensor;
use phalanx::prelude::*;
use points::points;
use std::process::ExitCode;

const EPOCHS: usize = 10;
const STEPS_PER_EPOCH: usize = 13;

fn main() -> ExitCode {
    phalanx::exit(run())
}

fn run() -> phalanx::Result<()> {
    let config = task_from_env()?;
    if config.is_local() {
        return MiniCluster::start(1, 3)?.run(task);
    }
    task(&Server::start_with(config, ServerOptions::from_env()?)?)
}

fn task(server: &Server) -> phalanx::Result<()> {
    let steps = StepFunctions::new()
        .dataset("points", |cx| Ok(points()?.shard(*cx).shuffle(100).repeat().batch(16)))
        .step("step", step);
    let model = Sequential::new().add(Dense::new(1)).build([2])?;
    ParameterServerStrategy::new(Supervisor::new(server, Sgd::new(0.5))).run(model, steps, train).map(drop)
}

/// A step on a worker. Returns the loss, the correct predictions, and the examples.
fn step(cx: &mut StepContext<'_, Model>) -> phalanx::Result<Vec<f64>> {
    let batch = cx.next("points")?;
    let device = default_device();
    let mut right = 0;
    let loss = cx.try_minimize(|model| {
        let features = DynTensor::floats(batch.f32("x")?.to_vec(), &[batch.rows(), 2], &device)?;
        let labels = batch.f32("y")?;
        let predictions = model.forward::<2>(features, Mode::Training { seed: 0 })?;
        let numbers = predictions.clone().into_data();
        let above = numbers.as_slice::<f32>().unwrap_or_default().iter().map(|&logit| logit > 0.0);
        right = above.zip(labels).filter(|(above, label)| *above == (**label > 0.5)).count();
        let loss = Loss::BinaryCrossentropy { from_logits: true, label_smoothing: 0.0 };
        Ok(loss.forward(Labels::rows(labels.to_vec(), 1, &device)?, predictions)?.mean())
    })?;
    Ok(vec![loss, right as f64, batch.rows() as f64])
}

/// Schedules epochs on the chief.
fn train(coordinator: &mut Coordinator<Model>) -> phalanx::Result<()> {
    for epoch in 0..EPOCHS {
        let scheduled: Vec<_> =
            (0..STEPS_PER_EPOCH).map(|_| coordinator.schedule("step", &[])).collect::<phalanx::Result<_>>()?;
        coordinator.join()?;
        let sums = coordinator.fetch(&scheduled)?.iter().fold([0.0; 3], |sums, r| [0, 1, 2].map(|i| sums[i] + r[i]));
        println!("epoch {epoch}: loss {:.4}, accuracy {:.3}", sums[0] / STEPS_PER_EPOCH as f64, sums[1] / sums[2]);
    }
    Ok(())
}
