//! The program `phalanx`.

use phalanx_launch::ThisProgram;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    phalanx_cli::run(std::env::args_os().skip(1), &ThisProgram::default()).into()
}
