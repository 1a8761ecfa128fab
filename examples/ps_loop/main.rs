//! The training loop of `custom_loop` with parameter servers: a coordinator schedules the same step on workers.
//!
//! ```text
//! cargo run --release --example ps_loop
//! ```
//!
//! Without `TF_CONFIG`, a worker, a parameter server and the coordinator run in this process.

#![allow(clippy::print_stdout)]

#[path = "../custom_loop/points.rs"]
mod points;

use phalanx::burn::tensor::activation::sigmoid;
use phalanx::coordinator::StepFunctions;
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
    let (task, rest) = task_from_args_or_env()?;
    phalanx::check_no_arguments(&rest)?;
    let strategy = Strategy::named_for("parameter_server", &task, &ServerOptions::from_env()?)?;
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
    strategy.coordinate(model, Sgd::new(0.5), steps, |coordinator| {
        for epoch in 0..EPOCHS {
            coordinator.reset_metrics();
            (0..STEPS_PER_EPOCH).try_for_each(|_| coordinator.schedule(&step, ()).map(drop))?;
            coordinator.join()?;
            let (loss, accuracy) = (coordinator.result(&loss)?, coordinator.result(&accuracy)?);
            println!("epoch {epoch}: loss {loss:.4}, accuracy {accuracy:.3}");
        }
        Ok(())
    })?;
    Ok(())
}
