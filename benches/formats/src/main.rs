//! Measures checkpoints and records without the rest of the benchmarks, which take long to build.

use clap::Parser;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(version, about = "Measures checkpoints and records beside TensorFlow")]
struct Command {
    #[command(flatten)]
    args: phalanx_bench_formats::Args,
}

fn main() -> ExitCode {
    match phalanx_bench_formats::run(&Command::parse().args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprint!("{}", error.report());
            ExitCode::from(error.exit_code())
        }
    }
}
