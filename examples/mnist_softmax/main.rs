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
mod images;
mod model;

use args::Args;
use clap::Parser;
use model::{Batches, Softmax};
use phalanx::prelude::*;
use std::process::ExitCode;
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = Args::parse();
    phalanx::exit(with_threads(args.threads, || run(&args)))
}

fn run(args: &Args) -> phalanx::Result<()> {
    let optimizer = Optimizer::parse(&args.optimizer, args.learning_rate)?;
    let server = Server::start_with(args.task()?, args.server_options()?)?;
    if server.task().role == Role::Ps {
        return server.join();
    }
    let trained = train(args, &server, optimizer);
    server.leave(trained.as_ref().err());
    trained
}

fn train(args: &Args, server: &Server, optimizer: Optimizer) -> phalanx::Result<()> {
    let data = images::Mnist::read(&args.data_dir)?;
    let trainer = server.config().trainer_index().unwrap_or(0);
    let mut batches = Batches::new(data.train, args.batch_size, trainer);

    let mut supervisor = args.checkpointing(Supervisor::new(server, optimizer))?;
    if args.sync {
        supervisor = supervisor.sync(SyncReplicas { replicas_to_aggregate: args.replicas_to_aggregate });
    }
    let mut session = supervisor.prepare_or_wait_for_session(Softmax::new())?;
    let started = Instant::now();
    let first = session.global_step();
    let mut printed = first;
    let mut steps = 0_u64;
    loop {
        let (images, labels) = batches.next_batch();
        let Some(step) = session.step(|model| model.loss(images, labels))? else { break };
        steps += 1;
        if server.is_chief() && step.global_step >= printed + 100 {
            printed = step.global_step;
            let rate = (step.global_step - first) as f64 / started.elapsed().as_secs_f64();
            println!("step {}: loss {:.4}, {rate:.0} steps/s", step.global_step, step.loss);
        }
        if step.global_step >= args.max_steps {
            break;
        }
    }
    if server.is_chief() {
        session.refresh()?;
        let rate = (session.global_step() - first) as f64 / started.elapsed().as_secs_f64();
        let accuracy = session.model()?.accuracy(&data.test);
        session.summaries().scalar(session.global_step(), "test/accuracy", accuracy as f32);
        let stale = if args.sync { format!(", {} stale gradients dropped", session.stale()?) } else { String::new() };
        println!("done: {} steps, {rate:.0} steps/s, test accuracy {accuracy:.4}{stale}", session.global_step());
    } else {
        println!("{}: {steps} steps", server.task());
    }
    supervisor.stop(session)
}
