//! A linear model under a strategy, as in TensorFlow's guide: `fit` with a dataset and with arrays.
//!
//! ```text
//! cargo run --release --example linear_fit
//! ```

#![allow(clippy::print_stdout)]

use phalanx::data::{Batch, Column, Dataset};
use phalanx::layers::Dense;
use phalanx::prelude::*;
use std::process::ExitCode;

fn main() -> ExitCode {
    phalanx::exit(run())
}

fn run() -> phalanx::Result<()> {
    let strategy = Strategy::mirrored(["cpu:0", "cpu:1"])?;
    let mut model =
        strategy.scope(|| Sequential::new().add(Dense::new(1)).build([1]))?.compile("sgd", "mse", ["mae"])?;

    let one = || Column::f32(vec![1.0]).with_row_shape([1]);
    let row = Batch::new([("x", one()?), ("y", one()?)])?.with_label("y")?;
    let dataset = Dataset::from_tensor_slices(row).repeat_times(100).batch(10);
    model.fit(&dataset, Fit::epochs(2))?;
    let logs = model.evaluate(&dataset, Fit::default())?;
    println!("after the dataset: {logs}");

    let ones = || Column::f32(vec![1.0; 100]).with_row_shape([1]);
    let history = model.fit((ones()?, ones()?), Fit::epochs(2).batch_size(10))?;
    println!("after the arrays: loss {:.6}, {} replicas", history.last("loss")?, strategy.num_replicas_in_sync());
    Ok(())
}
