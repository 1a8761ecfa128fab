//! What an example costs as a job becomes larger: processor seconds of all its processes, not time by the clock, because all
//! of them share this machine's cores.

use crate::model::Kind;
use crate::stats::{bytes, digits, median};
use crate::watch::{self, Seen};
use phalanx::{Code, Error, Result};
use phalanx_base::Context;
use std::process::Command;
use std::time::Duration;

#[derive(Clone, clap::Args)]
pub(crate) struct Args {
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Kind::Softmax, Kind::Embed])]
    models: Vec<Kind>,
    /// Workers, with two servers
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16, 32, 64])]
    workers: Vec<usize>,
    /// Servers, with two workers
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16])]
    servers: Vec<usize>,
    /// How often each is measured
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// Seconds after which one measurement is given up
    #[arg(long, default_value_t = 300)]
    deadline: u64,
}

/// Measures every size and prints a table for each model.
pub(crate) fn measure(args: &Args) -> Result<()> {
    if args.workers.contains(&0) || args.servers.contains(&0) || args.rounds == 0 {
        return Err(Error::new(Code::BadSetting, "--workers, --servers and --rounds must be greater than 0"));
    }
    for &model in &args.models {
        println!(
            "| {model}: servers + workers | CPU s per million examples | beside the first | steps/s | all memory |"
        );
        println!("| --- | --- | --- | --- | --- |");
        let by_workers = args.workers.iter().map(|&workers| (2, workers));
        let by_servers = args.servers.iter().map(|&servers| (servers, 2));
        for sizes in [by_workers.collect::<Vec<_>>(), by_servers.collect()] {
            let mut first = None;
            for (servers, workers) in sizes {
                let (cpu, rate, memory) = one(args, model, servers, workers)?;
                let times = cpu / *first.get_or_insert(cpu);
                let (cpu, rate, memory) = (digits(cpu), digits(rate), bytes(memory));
                println!("| {servers} + {workers} | {cpu} | {times:.2} times | {rate} | {memory} |");
            }
        }
        println!();
    }
    Ok(())
}

/// Processor seconds per million examples, steps per second, and the memory of all processes.
fn one(args: &Args, model: Kind, servers: usize, workers: usize) -> Result<(f64, f64, f64)> {
    // Short, but longer than a few of the kernel's ticks for every worker.
    let steps: u64 = match model {
        Kind::Softmax => 8000,
        Kind::Dnn => 160,
        Kind::Embed => 400,
        Kind::Click => 60,
        Kind::WideDeep => 8,
    };
    let mut seen = Vec::new();
    for _ in 0..args.rounds {
        let mut command = Command::new(std::env::current_exe().context(Code::Internal, "no executable")?);
        command.args(["ps", "--json", "--batches", "5", "--model", &model.to_string(), "--ps", &servers.to_string()]);
        command.args(["--workers", &workers.to_string(), "--steps", &steps.to_string()]);
        seen.push(watch::run(command, steps, Duration::from_secs(args.deadline))?);
    }
    let of = |each: fn(&Seen) -> f64| median(&seen.iter().map(each).collect::<Vec<_>>());
    let cpu = of(|seen| seen.cpu_per_s / seen.rate().max(1e-9));
    let memory = of(|seen| seen.peaks.iter().sum::<u64>() as f64);
    Ok((1e6 * cpu / model.batch() as f64, of(Seen::rate), memory))
}
