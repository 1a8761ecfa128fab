//! One task of a `fit`, or of a custom loop, with parameter servers, for the tests that kill processes: every step takes 1/4
//! from the bias, whatever the batch, so that the bias tells how many steps took effect.

#![allow(clippy::print_stdout)]

use burn::tensor::Tensor;
use clap::Parser;
use phalanx::callbacks::Lambda;
use phalanx::data::{Batch, Column, Dataset};
use phalanx::fit::DatasetCreator;
use phalanx::model::{Dense, Embedding, Flatten, Sequential};
use phalanx::prelude::*;
use std::path::{Path, PathBuf};
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
    /// The model is an embedding, whose rows are a table: every step takes 1/4 from each of its eight rows.
    #[arg(long)]
    table: bool,
    /// A custom loop instead of `fit`, until there is this file
    #[arg(long)]
    loop_until: Option<PathBuf>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    phalanx::exit(with_threads(1, || run(&args)))
}

fn run(args: &Args) -> phalanx::Result<()> {
    let consistency = args.consistency.clone();
    let settings = ParameterServerOptions { consistency, attempts: 100, ..ParameterServerOptions::default() };
    let strategy = Strategy::parameter_server(&task_from_env()?, &ServerOptions::from_env()?, settings)?;
    let layers = || match args.table {
        true => Sequential::new().add(Embedding::new(8, 1)).add(Flatten::new()).build([8]),
        false => Sequential::new().add(Dense::new(1)).build([1]),
    };
    let (rate, counting) = if args.table { (2.0, "embedding/embeddings") } else { (0.25, "dense/bias") };
    let mut model = strategy.scope(layers)?.compile(Sgd::new(rate), "mae", [""; 0])?;
    let mut weights = model.weights()?;
    weights.iter_mut().for_each(|weight| weight.values.fill(if weight.name == counting { 1000.0 } else { 0.0 }));
    model.set_weights(weights)?;
    if let Some(until) = &args.loop_until {
        return custom_loop(args, &strategy, &mut model, until);
    }
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
    let (pause, repeats, table) = (Duration::from_millis(args.step_ms), args.steps.is_some(), args.table);
    let data = DatasetCreator::new(move |cx| {
        let rows = Dataset::from_tensor_slices(rows(table)?).shard(cx).batch(4).map(move |batch| {
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
        let values = model.weights()?.into_iter().find(|weight| weight.name == counting).map(|weight| weight.values);
        let mut taken: Vec<f32> = values.into_iter().flatten().map(|value| (1000.0 - value) / 0.25).collect();
        taken.dedup();
        let taken: Vec<String> = taken.iter().map(f32::to_string).collect();
        let (updates, epochs) = (model.iterations(), history.epochs().len());
        println!("done: {updates} updates, {} took effect, {epochs} epochs here", taken.join(" or "));
    }
    Ok(())
}

/// Every trainer steps by itself. The kernel and the bias are on different servers, and every update takes 1/4 from both.
fn custom_loop(args: &Args, strategy: &Strategy, model: &mut Compiled<Model>, until: &Path) -> phalanx::Result<()> {
    let data = Dataset::from_tensor_slices(rows(false)?).batch(4);
    let steps = strategy.distribute_dataset(&data.clone().repeat())?;
    let mut own = 0;
    for inputs in steps.steps()? {
        if until.exists() {
            break;
        }
        strategy.run(model.replicated(), inputs?, |replica, _| {
            std::thread::sleep(Duration::from_millis(args.step_ms));
            let ones = Tensor::<2>::ones([1, 1], replica.device());
            let sum: Tensor<2> = replica.model().forward(ones, Mode::Training { seed: 0 })?;
            let loss = sum.mean() / replica.num_replicas_in_sync() as f32;
            replica.apply_gradients(replica.gradient(loss)?);
            Ok(())
        })?;
        own += 1;
        println!("step {own}");
    }
    // A call waits for the other trainers, and leaves the values at its end to all.
    model.evaluate(&data, Fit::default().verbose(Verbose::Silent))?;
    let taken = |name: &str, start: f32| -> phalanx::Result<f32> {
        let value = model.weights()?.into_iter().find(|weight| weight.name == name);
        Ok(value.map_or(f32::NAN, |value| (start - value.values[0]) / 0.25))
    };
    let (bias, kernel) = (taken("dense/bias", 1000.0)?, taken("dense/kernel", 0.0)?);
    println!("done: {} updates, {bias} and {kernel} took effect, {own} steps here", model.iterations());
    Ok(())
}

/// Zeros with zeros as labels: the gradient of the bias is one while it is above zero. For a table, every example has each of
/// its ids, and the gradient of a row is 1/8.
fn rows(table: bool) -> phalanx::Result<Batch> {
    if table {
        let x = Column::i64((0..240 * 8).map(|at| at % 8).collect()).with_row_shape([8])?;
        let y = Column::f32(vec![0.0; 240 * 8]).with_row_shape([8])?;
        return Batch::new([("x", x), ("y", y)])?.with_label("y");
    }
    let x = Column::f32(vec![0.0; 240]).with_row_shape([1])?;
    Batch::new([("x", x), ("y", Column::f32(vec![0.0; 240]))])?.with_label("y")
}
