//! A coordinated job with a sidecar evaluator of every checkpoint.
//!
//! ```text
//! cargo run --release --example ps_sidecar -- --model-dir runs/sidecar
//! ```
//!
//! Without `TF_CONFIG`, workers, servers and the evaluator run in this process. With it, the program is the task that it names;
//! the cluster spec need not list the evaluator.

#![allow(clippy::print_stdout)]

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Distribution, Tensor};
use clap::Parser;
use phalanx::coordinator::{SidecarEvaluator, StepFunctions};
use phalanx::prelude::*;
use std::process::ExitCode;
use std::time::Duration;

/// Trains a linear model and evaluates its checkpoints.
#[derive(Parser)]
#[command(version, about, after_help = Flags::HELP)]
struct Args {
    /// Run directory for checkpoints
    #[arg(long)]
    model_dir: String,
    #[arg(long, default_value_t = 400)]
    steps: usize,
}

#[derive(Module, Debug)]
struct Line {
    dense: Linear,
}

impl Line {
    fn new() -> Self {
        Self { dense: LinearConfig::new(1, 1).init(&default_device()) }
    }

    /// Returns the mean squared error on random points of y = 3 x + 1.
    fn loss(&self, points: usize) -> Tensor<1> {
        let x = Tensor::<2>::random([points, 1], Distribution::Uniform(-1.0, 1.0), &default_device());
        (self.dense.forward(x.clone()) - (x * 3.0 + 1.0)).powf_scalar(2.0).mean()
    }
}

fn main() -> ExitCode {
    phalanx::exit(task_from_args_or_env().and_then(|(task, rest)| run(task, &Args::parse_from(rest))))
}

fn run(config: TaskConfig, args: &Args) -> phalanx::Result<()> {
    let options = || ParameterServerOptions { model_dir: Some(args.model_dir.clone()), ..Default::default() };
    if config.is_local() {
        return std::thread::scope(|scope| {
            let evaluator = scope.spawn(|| evaluate(args));
            MiniCluster::start(2, 2)?.run(|server| train(args, &Strategy::parameter_server_on(server, options())?))?;
            evaluator.join().unwrap_or_else(|_| Err(Error::new(Code::Internal, "the evaluator panicked")))
        });
    }
    if config.task().is_some_and(|task| task.role == Role::Evaluator) {
        return evaluate(args);
    }
    train(args, &Strategy::parameter_server(&config, &ServerOptions::from_env()?, options())?)
}

fn train(args: &Args, strategy: &Strategy) -> phalanx::Result<()> {
    let mut steps = StepFunctions::new();
    let train = steps.register(|cx, (): ()| cx.minimize(|line: &Line| line.loss(64)));
    let supervisor = strategy.supervisor(Sgd::new(0.1))?.save_model_steps(100);
    strategy.coordinate(Line::new(), supervisor, steps, |coordinator| {
        let done = coordinator.global_step()? as usize;
        let mut last = None;
        for _ in done..args.steps {
            last = Some(coordinator.schedule(&train, ())?);
        }
        while !coordinator.done()? {
            // The chief is free meanwhile.
            let committed: u64 = coordinator.workers().iter().map(|worker| worker.committed).sum();
            println!("{} of {} steps are done", done as u64 + committed, args.steps);
            std::thread::sleep(Duration::from_millis(100));
        }
        if let Some(last) = last {
            println!("trained to step {}: loss {:.6}", args.steps, last.fetch()?);
        }
        Ok(())
    })?;
    Ok(())
}

fn evaluate(args: &Args) -> phalanx::Result<()> {
    let evaluated = SidecarEvaluator::new(&args.model_dir)?
        .interrupt(Interrupt::listen()?)
        .run(Line::new(), |line, _| Ok(vec![("loss".to_owned(), f64::from(phalanx::scalar(line.loss(1000))?))]))?;
    println!("evaluated {evaluated} checkpoints");
    Ok(())
}
