//! `phalanx-bench-data`: see the library.

use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Speed of the input pipelines beside tf.data and pyarrow
#[derive(Parser)]
#[command(version, about)]
struct Command {
    #[command(flatten)]
    args: phalanx_bench_data::Args,
}

fn main() -> std::process::ExitCode {
    match phalanx_bench_data::run(&Command::parse().args) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprint!("{}", error.report());
            error.exit_code().into()
        }
    }
}
