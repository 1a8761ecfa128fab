//! One task of a `fit` under a coordinator, for the tests that kill processes: every step takes 1/4 from the bias, whatever
//! the batch, so that the bias tells how many steps took effect.

#![allow(clippy::print_stdout)]

use clap::Parser;
use phalanx::callbacks::Lambda;
use phalanx::data::{Batch, Column, Dataset};
use phalanx::fit::DatasetCreator;
use phalanx::model::{Dense, Sequential};
use phalanx::prelude::*;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Parser)]
struct Args {
    #[arg(long, default_value_t = 3)]
    epochs: usize,
    /// How often the program calls `fit`
    #[arg(long, default_value_t = 1)]
    fits: usize,
    /// Steps of an epoch over all workers; without, an epoch is a pass over the 240 rows
    #[arg(long)]
    steps: Option<u64>,
    /// How long a worker takes to read a batch of 4 rows
    #[arg(long, default_value_t = 2)]
    step_ms: u64,
    #[arg(long, default_value = "async")]
    consistency: String,
}

fn main() -> ExitCode {
    let args = Args::parse();
    phalanx::exit(with_threads(1, || run(&args)))
}

fn run(args: &Args) -> phalanx::Result<()> {
    let consistency = args.consistency.clone();
    let settings = ParameterServerOptions { consistency, attempts: 100, ..ParameterServerOptions::default() };
    let strategy = Strategy::parameter_server(&task_from_env()?, &ServerOptions::from_env()?, settings)?;
    let network = strategy.scope(|| Sequential::new().add(Dense::new(1)).build([1]))?;
    let mut model = network.compile(Sgd::new(0.25), "mae", [""; 0])?;
    let mut weights = model.weights()?;
    weights.iter_mut().for_each(|weight| weight.values.fill(if weight.name == "dense/bias" { 1000.0 } else { 0.0 }));
    model.set_weights(weights)?;
    let fit = || {
        let fit = Fit::epochs(args.epochs).verbose(Verbose::Silent).callback(
            Lambda::new()
                .on_epoch_begin(|_, epoch| {
                    println!("epoch {epoch} begins");
                    Ok(())
                })
                .on_batch_end(|_, batch, _| {
                    println!("batch {batch}");
                    Ok(())
                })
                .on_epoch_end(|cx, epoch, _| {
                    println!("epoch {epoch} ended at {}", cx.iterations());
                    Ok(())
                }),
        );
        if let Some(steps) = args.steps { fit.steps_per_epoch(steps) } else { fit }
    };
    let (pause, repeats) = (Duration::from_millis(args.step_ms), args.steps.is_some());
    let data = DatasetCreator::new(move |cx| {
        let rows = Dataset::from_tensor_slices(rows()?).shard(cx).batch(4).map(move |batch| {
            std::thread::sleep(pause);
            Ok(batch)
        });
        Ok(if repeats { rows.repeat() } else { rows })
    });
    let mut history = model.fit(data.clone(), fit())?;
    for number in 1..args.fits {
        println!("fit {number} begins");
        history = model.fit(data.clone(), fit())?;
    }
    if strategy.should_checkpoint() {
        let bias = model.weights()?.into_iter().find(|weight| weight.name == "dense/bias");
        let taken = bias.map_or(f32::NAN, |bias| (1000.0 - bias.values[0]) / 0.25);
        println!("done: {} updates, {taken} took effect, {} epochs here", model.iterations(), history.epochs().len());
    }
    Ok(())
}

/// Zeros with zeros as labels: the gradient of the bias is one while it is above zero.
fn rows() -> phalanx::Result<Batch> {
    let x = Column::f32(vec![0.0; 240]).with_row_shape([1])?;
    Batch::new([("x", x), ("y", Column::f32(vec![0.0; 240]))])?.with_label("y")
}
