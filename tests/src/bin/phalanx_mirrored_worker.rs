//! A mirrored worker that fits a small model to made data, slowly if asked, with a backup if asked.

#![allow(clippy::print_stdout)]

use clap::Parser;
use phalanx::callbacks::{BackupAndRestore, Lambda};
use phalanx::data::{Batch, Column, Dataset};
use phalanx::layers::{Dense, Dropout};
use phalanx::prelude::*;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Parser)]
struct Args {
    #[arg(long, default_value_t = 3)]
    epochs: usize,
    /// Milliseconds that each step takes at least
    #[arg(long, default_value_t = 0)]
    step_ms: u64,
    #[arg(long)]
    backup_dir: Option<String>,
    /// This worker fails after this number of its own steps
    #[arg(long)]
    fail_after: Option<u64>,
    /// This worker stalls after this number of its own steps
    #[arg(long)]
    stall_after: Option<u64>,
    /// Replicas in this process alone: refuse or ignore a cluster that TF_CONFIG names
    #[arg(long)]
    alone: Option<String>,
}

fn main() -> ExitCode {
    phalanx::exit(run(&Args::parse()))
}

fn run(args: &Args) -> phalanx::Result<()> {
    let options = ServerOptions { formation_deadline: Duration::from_secs(30), ..ServerOptions::from_env()? };
    let strategy = match args.alone.as_deref() {
        None => Strategy::multi_worker_mirrored(&task_from_env()?, &options)?,
        Some("refuse") => Strategy::mirrored(["cpu:0", "cpu:1"])?,
        Some(_) => Strategy::mirrored(["cpu:0", "cpu:1"])?.ignoring_tf_config(),
    };
    let network = || {
        let hidden = Dense::new(16).activation(Function::Tanh);
        Sequential::new().add(hidden).add(Dropout::new(0.2)).add(Dense::new(1)).seed(9).build([4])
    };
    let mut model = strategy.scope(network)?.compile(Adam::new(0.01), "mse", ["mae"])?;
    let mut fit = Fit::epochs(args.epochs).verbose(Verbose::Silent);
    if let Some(dir) = &args.backup_dir {
        fit = fit.callback(BackupAndRestore::new(dir.clone()).save_freq(7));
    }
    let history = model.fit(data()?, fit.callback(clock(args)))?;
    let sum = model
        .weights()?
        .iter()
        .flat_map(|weight| weight.values.clone())
        .fold(0_u32, |sum, value| sum.rotate_left(5) ^ value.to_bits());
    println!("done: {} steps, loss {:e}, weights {sum:08x}", model.iterations(), history.last("loss")?);
    Ok(())
}

/// Says every step, and does what it was asked to do to the others.
fn clock(args: &Args) -> Lambda {
    let (pause, fail, stall) = (Duration::from_millis(args.step_ms), args.fail_after, args.stall_after);
    let mut own = 0;
    Lambda::new().on_batch_end(move |cx, _, _| {
        own += 1;
        println!("step {}", cx.iterations());
        std::thread::sleep(pause);
        if stall == Some(own) {
            std::thread::sleep(Duration::from_secs(60));
        }
        if fail == Some(own) {
            return Err(Error::new(Code::DataRow, "a row made me stumble").help("mend the row"));
        }
        Ok(())
    })
}

fn data() -> phalanx::Result<Dataset> {
    let rows = 37 * 12 + 5;
    let x: Vec<f32> = (0..rows * 4).map(|i| ((i as f32 * 12.9898).sin() * 43_758.547).fract()).collect();
    let y = x.chunks_exact(4).map(|row| row[0] * row[1] - row[2]).collect();
    let rows = Batch::new([("x", Column::f32(x).with_row_shape([4])?), ("y", Column::f32(y))])?.with_label("y")?;
    Ok(Dataset::from_tensor_slices(rows).shuffle_seeded(500, 3).batch(12))
}
