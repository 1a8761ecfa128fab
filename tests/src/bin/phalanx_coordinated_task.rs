//! One task of the ledger under a coordinator, for the tests that kill processes: every step adds one to every number.

#![allow(clippy::print_stdout)]

use clap::Parser;
use phalanx::metrics::Sum;
use phalanx::prelude::*;
use phalanx_base::SplitMix;
use phalanx_tests::ledger::{self, Ledger};
use phalanx_train::testing::connections;
use phalanx_train::{Coordinator, MetricHandle, StepContext, StepFunctions, StepHandle};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[derive(Parser)]
struct Args {
    /// Steps of all workers together
    #[arg(long, default_value_t = 300)]
    steps: u64,
    /// How long a step takes at least
    #[arg(long, default_value_t = 1)]
    step_ms: u64,
    /// Where the chief keeps checkpoints
    #[arg(long)]
    model_dir: Option<String>,
    /// Steps between two checkpoints
    #[arg(long, default_value_t = 50)]
    save_steps: u64,
    #[arg(long, default_value = "async")]
    consistency: String,
    #[arg(long, default_value_t = 5000)]
    lease_ms: u64,
}

const PARTITIONER: Partitioner = Partitioner::FixedShards(2);

fn main() -> ExitCode {
    let args = Args::parse();
    phalanx::exit(with_threads(1, || run(&args)))
}

fn run(args: &Args) -> phalanx::Result<()> {
    let mut options = ServerOptions::from_env()?;
    options.lease = Duration::from_millis(args.lease_ms);
    let server = Server::start_with(task_from_env()?, options)?;
    let mut supervisor = ledger::supervisor(&server, PARTITIONER);
    if let Some(model_dir) = &args.model_dir {
        supervisor = supervisor.logdir(model_dir)?.save_model_secs(None).save_model_steps(args.save_steps);
    }
    let consistency = args.consistency.clone();
    let settings = ParameterServerOptions { consistency, attempts: 100, ..ParameterServerOptions::default() };
    let strategy = Strategy::parameter_server_on(&server, settings)?;
    let pause = Duration::from_millis(args.step_ms);
    let said = AtomicBool::new(false);
    let mut steps = StepFunctions::new();
    let counted = steps.metric(Sum::new("counted"));
    let count = steps.register_as("count", move |cx, (): ()| {
        if !said.swap(true, Ordering::Relaxed) {
            println!("takes part");
        }
        cx.record(&counted, 1.0)?;
        count(cx, pause)
    });
    let coordinate = |coordinator: &mut Coordinator<Ledger>| coordinate(args, &server, coordinator, (&count, &counted));
    strategy.coordinate(Ledger::default(), supervisor, steps, coordinate).map(drop)
}

fn count(cx: &mut StepContext<'_, Ledger>, pause: Duration) -> phalanx::Result<f32> {
    std::thread::sleep(pause);
    let servers = 2;
    // The same rows when the step runs again.
    let mut random = SplitMix::new(cx.id());
    let step = cx.with_session(|session| ledger::step(session, servers, &mut random))?;
    let ended = || Error::new(Code::JobFailed, "the job ended before the step did");
    Ok(step.ok_or_else(ended)?.loss)
}

fn coordinate(
    args: &Args,
    server: &Server,
    coordinator: &mut Coordinator<Ledger>,
    (count, counted): (&StepHandle<(), f32>, &MetricHandle),
) -> phalanx::Result<()> {
    let rounds = args.consistency.starts_with("sync");
    let done = coordinator.global_step()?;
    // In rounds, as many steps as there are workers are one.
    let size = if rounds { server.config().trainers().len() as u64 - 1 } else { 1 };
    let left = args.steps.saturating_sub(done) * size;
    println!("begins at step {done}");
    let mut values = std::collections::VecDeque::new();
    for scheduled in 0..left {
        values.push_back(coordinator.schedule(count, ())?);
        // Waits for old ones, so that the chief shows how far training is.
        if values.len() >= 32
            && let Some(value) = values.pop_front()
        {
            value.fetch()?;
        }
        if scheduled % 20 == 0 {
            println!("scheduled {scheduled}");
        }
    }
    coordinator.join()?;
    println!("counted {} of {left}", coordinator.result(counted)?);
    for worker in coordinator.workers() {
        println!("{} did {}", worker.worker_id.task, worker.committed);
    }
    let held = ledger::read(&connections::client(server)?, PARTITIONER, rounds)?;
    // A row's update in a round is the mean of those who touched it, so that sums over rows differ.
    match held.check(!rounds) {
        Ok(()) => println!("done: {} steps, exact", held.global_step),
        Err(wrong) => println!("done: {} steps, NOT EXACT: {wrong}", held.global_step),
    }
    for (name, numbers) in &held.variables {
        println!("held {name}: {numbers:?}");
    }
    Ok(())
}
