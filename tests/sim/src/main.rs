//! Runs simulated jobs by seed, and prints which one broke a promise.
//!
//! ```text
//! cargo run --release -p phalanx-sim -- --seeds 2000
//! cargo run --release -p phalanx-sim -- --seed 17 --trace
//! ```

#![allow(clippy::print_stdout)]

use clap::Parser;
use phalanx_sim::{Plant, run};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// Runs simulated jobs, each from one seed.
#[derive(Parser)]
#[command(version, about)]
struct Args {
    /// How many seeds to run
    #[arg(long, default_value_t = 300)]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Run this seed only
    #[arg(long)]
    seed: Option<u64>,
    /// Print everything that happens
    #[arg(long)]
    trace: bool,
    /// Put a bug in, to see that it is found
    #[arg(long)]
    plant: Option<Plant>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let seeds = args.seed.map_or(args.from..args.from + args.seeds, |seed| seed..seed + 1);
    let mut totals: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in seeds {
        let report = run(seed, args.plant, args.trace);
        if args.trace {
            report.trace.iter().for_each(|line| println!("{line}"));
        }
        report.counts.iter().for_each(|(kind, count)| *totals.entry(kind).or_insert(0) += count);
        if !report.violations.is_empty() {
            if !args.trace {
                // The same seed again runs the same way.
                let again = run(seed, args.plant, true);
                again.trace.iter().rev().take(60).rev().for_each(|line| println!("{line}"));
            }
            report.violations.iter().for_each(|text| println!("seed {seed}: {text}"));
            println!("see all of it: --seed {seed} --trace");
            return ExitCode::FAILURE;
        }
    }
    totals.iter().for_each(|(kind, count)| println!("{count:>9} {kind}"));
    println!("no violation");
    ExitCode::SUCCESS
}
