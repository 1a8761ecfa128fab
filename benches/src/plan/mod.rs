//! How fast a job would be on machines that are not here: the costs of a step as measured, put together step by step.

mod cluster;
mod costs;
mod resources;
mod simulation;

use crate::limits::Limits;
use crate::model::Kind;
use crate::stats::digits;
use cluster::{Cluster, Prediction};
use costs::Costs;
use phalanx::{Code, Error, Result};
use phalanx_base::Context;
use simulation::predict;
use std::path::PathBuf;

/// Configurations that a machine like this can show: servers and workers.
const SMALL: [(usize, usize); 6] = [(1, 1), (2, 1), (1, 2), (2, 2), (2, 3), (1, 3)];
/// How far a prediction may be off.
const BOUND: f64 = 0.2;
/// The size of the large job.
const LARGE: f64 = 100e9;

#[derive(Clone, clap::Args)]
pub(crate) struct Args {
    #[arg(long, value_enum, default_value = "click")]
    model: Kind,
    /// How many workers, each on a machine of its own
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000])]
    workers: Vec<usize>,
    /// How many servers, each on a machine of its own
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4, 16, 64])]
    servers: Vec<usize>,
    /// Network of each machine, Gbit/s
    #[arg(long, default_value_t = 25.0)]
    network: f64,
    /// A word and its answer over that network, microseconds
    #[arg(long, default_value_t = 60.0)]
    round_trip: f64,
    /// Cores of each machine; a worker computes on one
    #[arg(long, default_value_t = 8)]
    cores: usize,
    /// Threads of each server
    #[arg(long, default_value_t = 4)]
    server_threads: usize,
    /// Costs of a step, as `--save` wrote them; they are measured otherwise
    #[arg(long)]
    costs: Option<PathBuf>,
    /// Writes the measured costs here
    #[arg(long)]
    save: Option<PathBuf>,
    /// Measures small jobs on this machine and says how far the predictions for them are off
    #[arg(long)]
    check: bool,
    /// How often each is measured
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

impl Args {
    fn valid(&self) -> Result<()> {
        let zero =
            self.workers.contains(&0) || self.servers.contains(&0) || self.cores == 0 || self.server_threads == 0;
        if zero || self.rounds == 0 || self.network <= 0.0 || self.round_trip < 0.0 {
            return Err(Error::new(Code::BadSetting, "a number of the plan is 0"));
        }
        let most = self.workers.iter().max().unwrap_or(&0) * self.servers.iter().max().unwrap_or(&0);
        if most > 1_000_000 {
            return Err(Error::new(Code::BadSetting, format!("{most} pairs of workers and servers are too many")));
        }
        Ok(())
    }

    fn costs(&self) -> Result<Costs> {
        let Some(path) = &self.costs else {
            eprintln!("measuring what a step costs: 1 worker with 1 server and with 2, and a worker on every core");
            return Costs::measure(self.model, &Limits::measure(&[])?, self.rounds);
        };
        let text = std::fs::read_to_string(path).context(Code::DataMissing, "the costs cannot be read");
        text.and_then(|text| Costs::from_json(&text)).map_err(|error| error.at(path.display().to_string()))
    }
}

/// Predicts, and checks predictions where that is asked for.
pub(crate) fn run(args: &Args) -> Result<()> {
    args.valid()?;
    let costs = args.costs()?;
    println!("Costs of a step: {}\n", costs.to_json());
    if let Some(path) = &args.save {
        std::fs::write(path, costs.to_json().to_string()).context(Code::StorageWrite, "the costs cannot be written")?;
    }
    if args.check { check(args, &costs) } else { draw(args, &costs) }
}

/// Predicted beside measured, for jobs of this machine.
fn check(args: &Args, costs: &Costs) -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!("| {}: servers + workers | measured, steps/s | predicted | off by |", costs.model);
    println!("| --- | --- | --- | --- |");
    let mut worst = 0.0_f64;
    for (servers, workers) in SMALL {
        let cluster =
            Cluster { workers, servers, cores, together: true, threads: 1, bytes_per_s: 1e12, round_trip: 0.0 };
        let predicted = predict(cluster, costs).steps_per_s;
        let measured = costs::measure(costs.model, servers, workers, args.rounds)?.steps_per_s;
        let off = predicted / measured - 1.0;
        worst = worst.max(off.abs());
        println!("| {servers} + {workers} | {} | {} | {:+.1} % |", digits(measured), digits(predicted), 100.0 * off);
    }
    let outcome = if worst <= BOUND { "all within" } else { "not all within" };
    println!("\n{outcome} {:.0} %: the worst is off by {:.1} %", 100.0 * BOUND, 100.0 * worst);
    Ok(())
}

/// Every number of workers with every number of servers.
fn draw(args: &Args, costs: &Costs) -> Result<()> {
    let Args { network, cores, server_threads, .. } = args;
    println!(
        "Predicted steps/s (what limits) of {}, batch {}: machines of {cores} cores, {network} Gbit/s, {} µs; servers of \
         {server_threads} threads.\n",
        costs.model, costs.batch, args.round_trip
    );
    let heads: Vec<String> = args.servers.iter().map(|servers| format!("{servers} servers")).collect();
    println!("| workers | {} | best: examples/s | 100 billion examples take |", heads.join(" | "));
    println!("| --- |{}", " --- |".repeat(heads.len() + 2));
    for &workers in &args.workers {
        let of = |&servers: &usize| {
            let (bytes_per_s, round_trip) = (network * 1e9 / 8.0, args.round_trip / 1e6);
            let threads = *server_threads;
            let cluster =
                Cluster { workers, servers, cores: *cores, together: false, threads, bytes_per_s, round_trip };
            predict(cluster, costs)
        };
        let all: Vec<Prediction> = args.servers.iter().map(of).collect();
        let cells: Vec<String> =
            all.iter().map(|one| format!("{} ({})", digits(one.steps_per_s), one.limit())).collect();
        let best = all.iter().map(|one| one.steps_per_s).fold(0.0, f64::max) * costs.batch as f64;
        println!("| {workers} | {} | {} | {} |", cells.join(" | "), digits(best), duration(LARGE / best));
    }
    Ok(())
}

fn duration(seconds: f64) -> String {
    match seconds {
        days if days >= 172_800.0 => format!("{} days", digits(days / 86_400.0)),
        hours if hours >= 7200.0 => format!("{} hours", digits(hours / 3600.0)),
        minutes => format!("{} minutes", digits(minutes / 60.0)),
    }
}
