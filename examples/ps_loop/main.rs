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

use phalanx::burn::tensor::activation::sigmoid;
use phalanx::coordinator::{ParameterServerStrategy, StepFunctions};
use phalanx::layers::Dense;
use phalanx::metrics::{BinaryAccuracy, Mean};
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
        return MiniCluster::start(1, 2)?.run(task);
    }
    task(&Server::start_with(config, ServerOptions::from_env()?)?)
}

fn task(server: &Server) -> phalanx::Result<()> {
    let mut steps = StepFunctions::<Model>::new();
    let data = steps.dataset(|cx| Ok(points()?.shard(*cx).shuffle(100).repeat().batch(16)));
    let (loss, accuracy) = (steps.metric(Mean::new("loss")), steps.metric(BinaryAccuracy::new()));
    let step = steps.register(move |cx, (): ()| {
        let (batch, mut predicted) = (cx.next(&data)?, HostTensor::default());
        let value = cx.minimize(|model| {
            let logits = model.forward::<2>(batch.tensor::<2>("x", &default_device())?, Mode::Training { seed: 0 })?;
            predicted = sigmoid(logits.clone()).into();
            let loss = Loss::binary_crossentropy().from_logits();
            Ok(loss.forward(batch.labels("y", &logits)?, logits)?.mean())
        })?;
        cx.record(&loss, value)?;
        cx.update(&accuracy, batch.f32("y")?, &predicted, None)
    });
    let model = Sequential::new().add(Dense::new(1)).build([2])?;
    let strategy = ParameterServerStrategy::new(Supervisor::new(server, Sgd::new(0.5)));
    let done = strategy.run(model, steps, |coordinator| {
        for epoch in 0..EPOCHS {
            coordinator.reset_metrics();
            (0..STEPS_PER_EPOCH).try_for_each(|_| coordinator.schedule(&step, ()).map(drop))?;
            coordinator.join()?;
            let (loss, accuracy) = (coordinator.result(&loss)?, coordinator.result(&accuracy)?);
            println!("epoch {epoch}: loss {loss:.4}, accuracy {accuracy:.3}");
        }
        Ok(())
    });
    done.map(drop)
}
