//! The classic four-terminal job: softmax regression on MNIST with parameter servers.
//!
//! ```text
//! mnist_softmax --ps_hosts=localhost:2221,localhost:2222 --worker_hosts=localhost:2223,localhost:2224 \
//!               --job_name=ps --task_index=0        # and ps 1, worker 0, worker 1
//! ```
//!
//! The first worker is the chief. `TF_CONFIG` works instead of these flags; with neither, one process is the whole job.
#![allow(clippy::print_stdout)]

use burn::{
    nn::{Initializer, Linear, LinearConfig},
    tensor::Tensor,
};
use phalanx::data::{AutoShardPolicy, Options, Parallel, mnist};
use phalanx::feature_column::{Normalization, PreprocessingLayer};
use phalanx::metrics::SparseCategoricalAccuracy;
use phalanx::prelude::*;
use std::{path::PathBuf, process::ExitCode, time::Instant};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let define = |flags: &mut phalanx::AppFlags| {
        let data_dir: Option<PathBuf> = flags.optional("data-dir", "MNIST's four files [default: synthetic images]");
        let rule = flags.value("optimizer", "sgd".to_owned(), "sgd, momentum, adagrad, rmsprop, adam, adamw or ftrl");
        let optimizer = Optimizer::parse(&rule, flags.value("learning-rate", 0.5, "Learning rate"));
        let batch_size = flags.value("batch-size", 100, "Batch size of one worker");
        let max_steps = flags.value("max-steps", 2000, "Steps of all workers");
        (data_dir, optimizer, batch_size, max_steps, Supervisor::flags(flags))
    };
    let about = "Trains softmax regression on MNIST with parameter servers";
    phalanx::job_with_flags(about, define, |task, (data_dir, optimizer, batch_size, max_steps, configure)| {
        let [train, test] = mnist(data_dir.as_deref());
        // Without the mean image subtracted, a learning rate of 0.5 is barely stable under the stale gradients of several workers.
        let pixels = || Normalization::new().axis([1, 2]);
        let mean = pixels().adapt(&train.clone().batch(1000), "image")?.mean().to_vec();
        let centre = pixels().mean_and_variance(mean, [1.0; 784])?;
        let [train, test] = [train, test].map(|images| {
            let centre = centre.clone();
            images.map_batches(Parallel::default(), move |images| centre.apply(&images, "image")).cache()
        });
        train.clone().batch(1000).iter()?.try_for_each(|images| images.map(drop))?; // reads all of it into memory
        // Every worker has all images, in its own order, so that a lost worker loses no data.
        let all = Options { auto_shard_policy: Some(AutoShardPolicy::Off), ..Options::default() };
        let train = train.shuffle(60_000).repeat().batch(batch_size).with_options(all);

        let device = default_device();
        let softmax = LinearConfig::new(784, 10).with_initializer(Initializer::Zeros).init(&device);
        let logits = |model: &Linear, batch: &Batch| -> phalanx::Result<Tensor<2>> {
            Ok(model.forward(batch.tensor::<3>("image", &device)?.flatten(1, 2)))
        };
        let loss = Loss::sparse_categorical_crossentropy().from_logits();
        let mut trainer = task.trainer(softmax, optimizer?).try_configure(configure)?;
        let (first, started) = (trainer.session()?.global_step(), Instant::now());
        let rate = |step: u64| (step - first) as f64 / started.elapsed().as_secs_f64();
        let mut printed = first;
        let print = |step: Step, ()| {
            if task.is_chief() && step.global_step >= printed + 100 {
                printed = step.global_step;
                println!("step {printed}: loss {:.4}, {:.0} steps/s", step.loss, rate(printed));
            }
            Ok(())
        };
        let step = |model: &Linear, _: &phalanx::BatchRows, batch: &Batch| -> phalanx::Result<Tensor<1>> {
            let logits = logits(model, batch)?;
            Ok(loss.forward(batch.labels("label", &logits)?, logits)?.mean())
        };
        let done = trainer.train_with(train, max_steps, step, print)?;
        let (steps, rate, session) = (done.global_step, rate(done.global_step), trainer.session()?);
        let stale = session.is_synchronous().then(|| session.stale()).transpose()?;
        let stale = stale.map_or_else(String::new, |stale| format!(", {stale} stale gradients dropped"));
        let accuracy = SparseCategoricalAccuracy::new();
        let accuracy = trainer.evaluate(test.batch(1000), accuracy, |model, _, batch| logits(model, batch))?;
        match task.is_chief() {
            true => println!("done: {steps} steps, {rate:.0} steps/s, test accuracy {accuracy:.4}{stale}"),
            false => println!("{}: {} steps", task.task(), done.steps),
        }
        Ok(())
    })
}
