//! Measures whole jobs, as real processes over loopback, with the models and sizes of the peers we measure beside.
//!
//! ```text
//! cargo run --release -p phalanx-bench -- ps --model dnn --ps 2 --workers 2 --batch 128 --steps 500 --json
//! ```

#![allow(clippy::print_stdout)]

mod census;
mod clicks;
mod job;
mod mirrored;
mod model;
mod ps;

use clap::Parser;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures whole jobs.
#[derive(Parser)]
#[command(version, about)]
enum Command {
    /// Parameter servers and workers, asynchronously: steps per second, the best of three after a warm-up
    Ps(ps::Args),
    /// Mirrored workers that fit the dnn: steps per second, the best of three after a warm-up
    Mirrored(mirrored::Args),
    /// The click log under a coordinator, once for each consistency: AUC and rate
    Clicks(clicks::Args),
    /// Estimators on the census: steps per second, beside TensorFlow's where its script is given
    Census(census::Args),
    /// Checkpoints and records, beside TensorFlow
    Formats(phalanx_bench_formats::Args),
    /// Input from CSV, TFRecord and Parquet, beside tf.data and pyarrow
    Data(phalanx_bench_data::Args),
    /// One task of a job that is being measured
    #[command(hide = true)]
    Task(ps::Args),
    /// One task of a census job that is being measured
    #[command(hide = true)]
    CensusTask(census::Args),
    /// One worker of a mirrored job that is being measured
    #[command(hide = true)]
    MirroredTask(mirrored::Args),
}

fn main() -> ExitCode {
    phalanx::exit(match Command::parse() {
        Command::Ps(args) => ps::measure(&args),
        Command::Clicks(args) => clicks::measure(&args),
        Command::Formats(args) => phalanx_bench_formats::run(&args),
        Command::Data(args) => phalanx_bench_data::run(&args),
        Command::Mirrored(args) => mirrored::measure(&args),
        Command::Census(args) => census::measure(&args),
        Command::CensusTask(args) => census::task(&args),
        Command::Task(args) => ps::task(&args),
        Command::MirroredTask(args) => mirrored::task(&args),
    })
}
