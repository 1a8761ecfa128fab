//! Measures whole jobs, as real processes over loopback, with the models and sizes of the peers we measure beside.
//!
//! ```text
//! cargo run --release -p phalanx-bench -- ps --model dnn --ps 2 --workers 2 --json
//! cargo run --release -p phalanx-bench -- compare --python PYTHON --peers FOLDER --forms one,2+2 --rounds 5
//! ```

#![allow(clippy::print_stdout)]

mod census;
mod clicks;
mod clock;
mod compare;
mod grow;
mod job;
mod limits;
mod local_job;
mod mirrored;
mod model;
mod network;
mod peer_scripts;
mod plan;
mod ps;
mod python;
mod rows;
mod start;
mod stats;
mod usage;
mod watch;

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
    /// Ours and the peers' jobs by turns, and the machine's own limits: a table
    Compare(compare::Args),
    /// What this machine allows: matrix products, memory, sockets
    Limits(limits::Args),
    /// What an example costs as workers and servers become more: CPU seconds per million
    Grow(grow::Args),
    /// From the command to the first step; an idle task's memory; the binary's size
    Start(start::Args),
    /// Writes a file of examples for `ps --from-file`
    Input(model::InputArgs),
    /// How fast a job would be on machines that are not here
    Plan(plan::Args),
    /// What a row of a table costs a server as the table grows
    Rows(rows::Args),
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
    /// The Python package beside Rust and beside PyTorch: rows, an estimator, a model with tables
    Python(python::Args),
    /// One task of a job that is being measured
    #[command(hide = true)]
    Task(ps::Args),
    /// One task of a job that exchanges rows
    #[command(hide = true)]
    PythonRowsTask(python::Args),
    /// One task of a job whose start is measured
    #[command(hide = true)]
    StartTask(start::Args),
    /// One table that is being measured
    #[command(hide = true)]
    RowsOf(rows::Args),
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
        Command::Compare(args) => compare::measure(&args),
        Command::Limits(args) => limits::measure(&args),
        Command::Grow(args) => grow::measure(&args),
        Command::Start(args) => start::measure(&args),
        Command::StartTask(args) => start::task(&args),
        Command::Input(args) => args.write(),
        Command::Plan(args) => plan::run(&args),
        Command::Rows(args) => rows::measure(&args),
        Command::RowsOf(args) => rows::measure_one(&args),
        Command::Clicks(args) => clicks::measure(&args),
        Command::Formats(args) => phalanx_bench_formats::run(&args),
        Command::Data(args) => phalanx_bench_data::run(&args),
        Command::Mirrored(args) => mirrored::measure(&args),
        Command::Census(args) => census::measure(&args),
        Command::CensusTask(args) => census::task(&args),
        Command::Task(args) => ps::task(&args),
        Command::Python(args) => python::measure(&args),
        Command::PythonRowsTask(args) => python::rows_task(&args),
        Command::MirroredTask(args) => mirrored::task(&args),
    })
}
