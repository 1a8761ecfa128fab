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

use burn::tensor::Tensor;
use phalanx::coordinator::{DatasetPart, StepFunctions};
use phalanx::layers::{Dense, Embedding, GlobalAveragePooling2D, Reshape};
use phalanx::metrics::{BinaryAccuracy, Mean, Metric};
use phalanx::prelude::*;
use std::process::ExitCode;

fn main() -> ExitCode {
    let options = || ParameterServerOptions { partitioner: Partitioner::FixedShards(2), ..Default::default() };
    phalanx::exit(task_from_args_or_env().and_then(|(config, rest)| {
        phalanx::check_no_arguments(&rest)?;
        match config.is_local() {
            true => MiniCluster::start(2, 3)?.run(|server| task(&Strategy::parameter_server_on(server, options())?)),
            false => task(&Strategy::parameter_server(&config, &ServerOptions::from_env()?, options())?),
        }
    }))
}

/// Returns the probability that no avenger is among the words of each row.
fn predict(model: &Model, batch: &Batch) -> phalanx::Result<Tensor<2>> {
    let ids = HostTensor::try_from(batch.column("features")?)?.int_tensor::<2>(&default_device())?;
    model.forward(ids, Mode::Inference)
}

/// Runs in every task: servers serve, workers run steps, the chief coordinates.
fn task(strategy: &Strategy) -> phalanx::Result<()> {
    let mean = Sequential::new().add(Embedding::new(words::INDICES + 1, 20)).add(Reshape::new([3, 1, 20]));
    let model = mean.add(GlobalAveragePooling2D::new()).add(Dense::new(1).activation(Function::Sigmoid)).build([3])?;

    let mut steps = StepFunctions::<Model>::new();
    let data = steps.dataset(|cx| Ok(words::dataset(200, cx.input_pipeline_id as u64)?.batch(32).repeat()));
    let held_out = steps.dataset(|cx| Ok(words::dataset(16, 99)?.shard(*cx).batch(4)));
    let (loss, accuracy) = (steps.metric(Mean::new("loss")), steps.metric(BinaryAccuracy::new()));
    let train = steps.register(move |cx, (): ()| {
        let (batch, mut predicted) = (cx.next(&data)?, HostTensor::default());
        let value = cx.minimize(|model| {
            let probability = predict(model, &batch)?;
            predicted = probability.clone().into();
            Ok(Loss::binary_crossentropy().forward(batch.labels("label", &probability)?, probability)?.mean())
        })?;
        cx.record(&loss, value)?;
        cx.update(&accuracy, batch.i64("label")?, &predicted, None)
    });
    let evaluate = steps.evaluation(move |cx, part: DatasetPart| {
        let (model, mut rows) = (cx.newest_model()?.clone(), 0);
        for batch in cx.part(&held_out, part)? {
            let batch = batch?;
            rows += batch.rows();
            cx.update(&accuracy, batch.i64("label")?, &HostTensor::from(predict(&model, &batch)?), None)?;
        }
        Ok(rows)
    });

    strategy.coordinate(model, RmsProp::new(0.1), steps, |coordinator| {
        for shard in coordinator.variable("embedding/embeddings")?.shards {
            let dims: Vec<String> = shard.shape.dims().iter().map(ToString::to_string).collect();
            println!("{} ({}) on {}", shard.name, dims.join(", "), shard.device());
        }
        for epoch in 0..4 {
            coordinator.reset_metrics();
            (0..5).try_for_each(|_| coordinator.schedule(&train, ()).map(drop))?;
            coordinator.join()?;
            let (loss, accuracy) = (coordinator.result(&loss)?, coordinator.result(&accuracy)?);
            println!("epoch {epoch}: loss {loss:.4}, accuracy {accuracy:.3}");
        }
        coordinator.reset_metrics();
        let parts: Vec<_> = DatasetPart::all(4).map(|part| coordinator.schedule(&evaluate, part)).collect();
        let rows: usize = parts.into_iter().map(|part| part?.fetch()).sum::<phalanx::Result<_>>()?;
        println!("distributed evaluation: accuracy {:.3} of {rows} examples", coordinator.result(&accuracy)?);
        for batch in words::dataset(16, 99)?.batch(16).iter()? {
            let (batch, mut accuracy) = (batch?, BinaryAccuracy::new());
            let predicted = HostTensor::from(predict(coordinator.newest_model()?, &batch)?);
            accuracy.update(batch.i64("label")?.into(), (&predicted).into(), None)?;
            println!("direct evaluation: accuracy {:.3} of {} examples", accuracy.result(), batch.rows());
        }
        Ok(())
    })?;
    Ok(())
}
