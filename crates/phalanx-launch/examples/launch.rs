//! `phalanx launch` without the dashboard: `cargo run -p phalanx-launch --example launch -- --ps 1 -- sh -c 'echo $TF_CONFIG'`.

use clap::Parser;
use std::process::ExitCode;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: phalanx_launch::LaunchArgs,
}

fn main() -> ExitCode {
    if let Some(code) = phalanx_launch::guard_if_asked() {
        return code;
    }
    let Command { args } = Command::parse();
    match phalanx_launch::launch(&args, None) {
        Ok(report) => ExitCode::from(report.exit_code()),
        Err(error) => {
            eprint!("{}", error.report());
            ExitCode::from(error.exit_code())
        }
    }
}
