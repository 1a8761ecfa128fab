//! Parameter servers and a coordinator: TensorFlow's complete tutorial.
//!
//! ```text
//! cargo run --release --example ps_coordinator
//! ```
//!
//! Without `TF_CONFIG`, three workers and two parameter servers run in this process. With it, start the program once for each
//! task: chief, workers and ps.

#![allow(clippy::print_stdout)]

mod words;

use burn::module::Module;
use burn::nn::{Embedding, EmbeddingConfig, Initializer, Linear, LinearConfig};
use burn::tensor::{Int, Tensor, TensorData, activation::sigmoid};
use phalanx::coordinator::{Coordinator, ParameterServerStrategy, StepContext, StepFunctions};
use phalanx::losses::Labels;
use phalanx::prelude::*;
use std::process::ExitCode;

const EPOCHS: usize = 4;
const STEPS_PER_EPOCH: usize = 5;

/// Predicts whether an avenger is among three words.
#[derive(Module, Debug)]
struct Avengers {
    embedding: Embedding,
    dense: Linear,
}

impl Avengers {
    fn new() -> Self {
        let device = default_device();
        let even = Initializer::Uniform { min: -0.05, max: 0.05 };
        Self {
            embedding: EmbeddingConfig::new(words::INDICES + 1, 20).with_initializer(even).init(&device),
            dense: LinearConfig::new(20, 1).with_initializer(Initializer::XavierUniform { gain: 1.0 }).init(&device),
        }
    }

    /// Returns the probability of yes for each row.
    fn forward(&self, batch: &Batch) -> phalanx::Result<Tensor<2>> {
        let ids = TensorData::new(batch.i64("features")?.to_vec(), [batch.rows(), 3]);
        let ids = Tensor::<2, Int>::from_data(ids, &default_device());
        let mean = self.embedding.forward(ids).mean_dim(1).squeeze_dim::<2>(1);
        Ok(sigmoid(self.dense.forward(mean)))
    }
}

fn main() -> ExitCode {
    phalanx::exit(run())
}

fn run() -> phalanx::Result<()> {
    let config = task_from_env()?;
    if config.is_local() {
        return MiniCluster::start(2, 4)?.run(task);
    }
    task(&Server::start_with(config, ServerOptions::from_env()?)?)
}

/// Runs in every task: servers serve, workers run steps, the chief coordinates.
fn task(server: &Server) -> phalanx::Result<()> {
    let supervisor = Supervisor::new(server, RmsProp::new(0.1)).partitioner(Partitioner::FixedShards(2));
    let steps = StepFunctions::new()
        .dataset("train", |cx| words::dataset(200, cx.input_pipeline_id as u64).map(|data| data.batch(32).repeat()))
        .dataset("evaluation", |cx| Ok(words::dataset(16, 99)?.shard(*cx).batch(4)))
        .step("train", train)
        .evaluation("evaluate", evaluate);
    ParameterServerStrategy::new(supervisor).run(Avengers::new(), steps, coordinate).map(drop)
}

/// A training step on a worker. Returns the loss, the correct predictions, and the examples.
fn train(cx: &mut StepContext<'_, Avengers>) -> phalanx::Result<Vec<f64>> {
    let batch = cx.next("train")?;
    let mut right = 0.0;
    let loss = cx.try_minimize(|model: &Avengers| {
        let predicted = model.forward(&batch)?;
        right = correct(&predicted, &batch)?;
        let labels = Labels::rows(batch.f32("label")?.to_vec(), 1, &default_device())?;
        let loss = Loss::BinaryCrossentropy { from_logits: false, label_smoothing: 0.0 };
        Ok(loss.forward(labels, predicted)?.mean())
    })?;
    Ok(vec![loss, right, batch.rows() as f64])
}

/// A part of an evaluation on a worker. Returns the correct predictions and the examples.
fn evaluate(cx: &mut StepContext<'_, Avengers>) -> phalanx::Result<Vec<f64>> {
    let (part, parts) = (cx.arguments()[0] as usize, cx.arguments()[1] as usize);
    let batches = cx.part("evaluation", part, parts)?;
    let model = cx.newest_model()?;
    let (mut right, mut rows) = (0.0, 0.0);
    for batch in batches {
        let batch = batch?;
        right += correct(&model.forward(&batch)?, &batch)?;
        rows += batch.rows() as f64;
    }
    Ok(vec![right, rows])
}

fn correct(predicted: &Tensor<2>, batch: &Batch) -> phalanx::Result<f64> {
    let predicted = predicted.clone().into_data();
    let predicted = predicted.as_slice::<f32>().unwrap_or_default().iter().map(|&p| f32::from(u8::from(p > 0.5)));
    Ok(predicted.zip(batch.f32("label")?).filter(|(predicted, label)| predicted == *label).count() as f64)
}

fn coordinate(coordinator: &mut Coordinator<Avengers>) -> phalanx::Result<()> {
    for shard in coordinator.variable("embedding/weight")?.shards {
        let dims: Vec<String> = shard.shape.dims().iter().map(ToString::to_string).collect();
        println!("{} ({}) on {}", shard.name, dims.join(", "), shard.device());
    }
    for epoch in 0..EPOCHS {
        let scheduled: Vec<_> =
            (0..STEPS_PER_EPOCH).map(|_| coordinator.schedule("train", &[])).collect::<phalanx::Result<_>>()?;
        coordinator.join()?;
        let sums = coordinator.fetch(&scheduled)?.iter().fold([0.0; 3], |sums, r| [0, 1, 2].map(|i| sums[i] + r[i]));
        println!("epoch {epoch}: loss {:.4}, accuracy {:.3}", sums[0] / STEPS_PER_EPOCH as f64, sums[1] / sums[2]);
    }
    let sums = coordinator.sum_over_parts("evaluate", 4)?;
    println!("distributed evaluation: accuracy {:.3} of {} examples", sums[0] / sums[1], sums[1]);
    let model = coordinator.newest_model()?;
    for batch in words::dataset(16, 99)?.batch(16).iter()? {
        let batch = batch?;
        let right = correct(&model.forward(&batch)?, &batch)?;
        println!("direct evaluation: accuracy {:.3} of {} examples", right / batch.rows() as f64, batch.rows());
    }
    Ok(())
}
