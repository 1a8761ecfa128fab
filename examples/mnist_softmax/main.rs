//! The classic four-terminal job: softmax regression on MNIST with parameter servers.
//!
//! ```text
//! mnist_softmax --ps_hosts=localhost:2221,localhost:2222 --worker_hosts=localhost:2223,localhost:2224 \
//!               --job_name=ps --task_index=0 --data-dir=mnist        # and ps 1, worker 0, worker 1
//! ```
//!
//! The first worker is the chief. With `--model-dir` it writes checkpoints and event files and continues from the newest
//! checkpoint; a lost parameter server may then come back. `TF_CONFIG` works instead of the flags; with neither, one process is
//! the whole job.

#![allow(clippy::print_stdout)]

mod args;
mod digits;

use args::Args;
use burn::nn::{Initializer, LinearConfig};
use clap::Parser;
use phalanx::data::{AutoShardPolicy, Options};
use phalanx::metrics::SparseCategoricalAccuracy;
use phalanx::prelude::*;
use std::process::ExitCode;
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    phalanx::exit(task_from_args_or_env().and_then(|(task, rest)| {
        let args = Args::parse_from(rest);
        let task = Server::start_with(task, args.server_options()?)?;
        with_threads(args.threads, || task.run(|task| train(&args, task)).map(drop))
    }))
}

fn train(args: &Args, task: &Server) -> phalanx::Result<()> {
    let device = default_device();
    let [train, test] = digits::centred(&args.data_dir)?;
    // Every worker has all images, in its own order, so that a lost worker loses no data.
    let all = Options { auto_shard_policy: Some(AutoShardPolicy::Off), ..Options::default() };
    let train = train.shuffle(60_000).repeat().batch(args.batch_size).with_options(all);

    let softmax = LinearConfig::new(784, 10).with_initializer(Initializer::Zeros).init(&device);
    let mut trainer =
        task.trainer(softmax, args.optimizer()?).try_configure(|supervisor| args.configure(supervisor))?;
    let (first, started) = (trainer.session()?.global_step(), Instant::now());
    let rate = |step: u64| (step - first) as f64 / started.elapsed().as_secs_f64();
    let mut printed = first;
    let loss = Loss::sparse_categorical_crossentropy().from_logits();
    let trained = trainer.train_with(
        train,
        args.max_steps,
        |model, _, batch| {
            let logits = model.forward(batch.tensor::<2>("image", &device)?);
            Ok(loss.forward(batch.labels("label", &logits)?, logits)?.mean())
        },
        |step, ()| {
            if task.is_chief() && step.global_step >= printed + 100 {
                printed = step.global_step;
                println!("step {printed}: loss {:.4}, {:.0} steps/s", step.loss, rate(printed));
            }
            Ok(())
        },
    )?;
    let rate = rate(trained.global_step);
    let stale =
        if args.sync { format!(", {} stale gradients dropped", trainer.session()?.stale()?) } else { String::new() };
    let accuracy = trainer.evaluate(test.batch(1000), SparseCategoricalAccuracy::new(), |model, _, batch| {
        Ok(model.forward(batch.tensor::<2>("image", &device)?))
    })?;
    if task.is_chief() {
        println!("done: {} steps, {rate:.0} steps/s, test accuracy {accuracy:.4}{stale}", trained.global_step);
    } else {
        println!("{}: {} steps", task.task(), trained.steps);
    }
    Ok(())
}
