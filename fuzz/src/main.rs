//! Drives the parsers with changed inputs and says what it found.
//!
//! ```text
//! cargo run --release -p phalanx-fuzz -- --executions 1000000
//! cargo run --release -p phalanx-fuzz -- --parser bundle --replay finding-bundle.bin
//! ```
//!
//! A finding is a panic, memory beyond what the input's length justifies, or time beyond the limit. Its input is saved,
//! and the exit code is 1.

#![allow(clippy::print_stdout)]

mod campaign;
mod outcome;
mod watch;

use clap::Parser as _;
use phalanx_fuzz::{Counting, PARSERS, Parser};
use std::path::PathBuf;
use std::process::ExitCode;

#[global_allocator]
static MEMORY: Counting = Counting::new();

/// Runs the parsers of everything that comes from outside on changed inputs
#[derive(clap::Parser)]
#[command(version, about)]
struct Args {
    /// A parser's name, or all of them
    #[arg(long, default_value = "all")]
    parser: String,
    /// How many inputs each is given
    #[arg(long, default_value_t = 1_000_000)]
    executions: u64,
    /// The same seed gives the same inputs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// An input may take this many milliseconds
    #[arg(long, default_value_t = 2000)]
    limit_ms: u64,
    /// Where inputs of findings are saved
    #[arg(long, default_value = ".")]
    findings: PathBuf,
    /// Runs one saved input and nothing else
    #[arg(long)]
    replay: Option<PathBuf>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let parsers: Vec<&Parser> =
        PARSERS.iter().filter(|parser| args.parser == "all" || parser.name == args.parser).collect();
    if parsers.is_empty() || args.replay.is_some() && parsers.len() != 1 {
        let names: Vec<&str> = PARSERS.iter().map(|parser| parser.name).collect();
        eprintln!("--parser wants one of: {}", names.join(", "));
        return ExitCode::from(2);
    }
    if let Err(error) = std::fs::create_dir_all(&args.findings) {
        eprintln!("findings cannot be kept in {}: {error}", args.findings.display());
        return ExitCode::from(2);
    }
    // Panics are counted here, not printed one by one.
    std::panic::set_hook(Box::new(|_| {}));
    let watch = watch::Watch::start(args.findings.clone(), args.limit_ms);
    if let Some(path) = &args.replay {
        let Ok(input) = std::fs::read(path) else {
            eprintln!("{} cannot be read", path.display());
            return ExitCode::from(2);
        };
        let outcome = outcome::run(parsers[0], &input, &watch, args.limit_ms);
        println!("{}: {} bytes, {outcome}", parsers[0].name, input.len());
        return ExitCode::from(u8::from(outcome.finding.is_some()));
    }
    let mut findings = 0;
    for parser in parsers {
        let campaign = campaign::Campaign::run(parser, &args, &watch);
        println!("{campaign}");
        findings += campaign.findings;
    }
    ExitCode::from(u8::from(findings > 0))
}
