//! The job with parameter servers, and the one that is a single process.

use crate::clock::Clock;
use crate::job::{self, Tasks};
use crate::local_job::die_with_parent;
use crate::model::{Batches, Kind, Net, Sizes};
use crate::network::Link;
use crate::usage;
use phalanx::coordinator::StepFunctions;
use phalanx::prelude::*;
use phalanx::{Code, Error, Precision, Result};
use serde_json::{Value, json};
use std::path::PathBuf;

/// What is measured; the defaults are the peers'.
#[derive(Clone, clap::Args)]
pub(crate) struct Args {
    #[arg(long, value_enum)]
    pub(crate) model: Kind,
    /// Parameter servers; with 0 this process is the whole job
    #[arg(long, default_value_t = 2)]
    pub(crate) ps: usize,
    /// Workers, the chief among them
    #[arg(long, default_value_t = 2)]
    pub(crate) workers: usize,
    /// Examples in one worker's batch: 128, click 1000, wide-deep 2048
    #[arg(long)]
    batch: Option<usize>,
    /// Steps of all workers together, in each of the three measurements; as many as take two seconds or so
    #[arg(long)]
    steps: Option<u64>,
    /// Different batches of each worker: 50, 10 when they are large
    #[arg(long)]
    batches: Option<usize>,
    /// Rows of the table
    #[arg(long)]
    rows: Option<usize>,
    /// Numbers in a row of the table
    #[arg(long)]
    dim: Option<usize>,
    /// Hidden layers
    #[arg(long, value_delimiter = ',')]
    hidden: Vec<usize>,
    /// Compute threads of each worker
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Threads of each server; besides, one for each worker of the same machine
    #[arg(long, default_value_t = 1)]
    server_threads: usize,
    /// Who decides what is computed next: every worker for itself, or a coordinator beside them
    #[arg(long, value_enum, default_value_t)]
    driver: Driver,
    /// With a coordinator: async, ssp:K, sync or sync:BACKUPS
    #[arg(long, default_value = "async")]
    consistency: String,
    /// Reads examples from this file, as `phalanx-bench input` writes it, instead of having them in memory
    #[arg(long)]
    from_file: Option<PathBuf>,
    /// Rounds the factors of hidden layers to bfloat16
    #[arg(long)]
    bf16: bool,
    /// Every worker computes while its last step's exchange goes on
    #[arg(long)]
    overlap: bool,
    /// Each task in a network namespace of its own, over links of this speed: unlimited, or Gbit/s
    #[arg(long)]
    network: Option<Link>,
    /// With --network: connections are encrypted
    #[arg(long)]
    tls: bool,
    /// One line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Driver {
    #[default]
    Worker,
    Coordinator,
}

impl Args {
    fn batch(&self) -> usize {
        self.batch.unwrap_or_else(|| self.model.batch())
    }

    fn steps(&self) -> u64 {
        self.steps.unwrap_or(match self.model {
            Kind::Softmax => 12_000,
            Kind::Dnn => 300,
            Kind::Embed => 700,
            Kind::Click => 120,
            Kind::WideDeep => 16,
        })
    }

    /// Enough steps that every batch was seen, and so every row of the table created.
    fn warm_up(&self) -> u64 {
        (self.count() * self.workers) as u64 + 4
    }

    fn count(&self) -> usize {
        self.batches.unwrap_or(if self.batch() < 500 { 50 } else { 10 })
    }

    fn sizes(&self) -> Sizes {
        Sizes::new(self.model).changed(self.rows, self.dim, &self.hidden)
    }

    fn batches(&self, index: u64) -> Result<Batches> {
        let sizes = self.sizes();
        let batches = match &self.from_file {
            Some(path) => Batches::read(&sizes, self.batch(), path)?,
            None => Batches::make(&sizes, self.batch(), self.count(), index),
        };
        Ok(batches.precision(if self.bf16 { Precision::Bf16 } else { Precision::F32 }))
    }

    fn check(&self) -> Result<()> {
        let bad = |what| Err(Error::new(Code::BadSetting, what));
        if self.workers == 0
            || self.count() == 0
            || self.batch() == 0
            || self.steps() == 0
            || self.threads == 0
            || self.server_threads == 0
        {
            return bad("--workers, --batch, --batches, --steps and threads must be greater than 0");
        }
        if self.rows == Some(0) || self.dim == Some(0) || self.hidden.contains(&0) {
            return bad("a size of the model is 0");
        }
        if self.overlap && self.driver == Driver::Coordinator {
            return bad("--overlap is for workers that drive themselves");
        }
        if self.ps == 0 && (self.workers > 1 || self.driver == Driver::Coordinator) {
            return bad("without parameter servers (--ps 0) there is one worker, which drives itself (--workers 1)");
        }
        Ok(())
    }
}

/// Starts the job, prints what its chief measured.
pub(crate) fn measure(args: &Args) -> Result<()> {
    args.check()?;
    if args.ps == 0 {
        let server = Server::start_with(TaskConfig::local(), options(args)?)?;
        let say = |measured: &Value| say(args, measured);
        return with_threads(args.threads, || drive(args, &server, say));
    }
    // A coordinator computes nothing itself.
    let trainers = args.workers + usize::from(args.driver == Driver::Coordinator);
    let done = job::run(Tasks { ps: args.ps, trainers, network: args.network, tls: args.tls }, "task", &[])?;
    let mut measured: Value = serde_json::from_str(&done.measured)
        .map_err(|error| Error::new(Code::Internal, "the chief's line cannot be read").because(error))?;
    let loads: Vec<Value> = done.loads.iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let sum = |key: &str| loads.iter().filter_map(|load| load[key].as_f64()).sum::<f64>();
    let steps = loads.iter().filter_map(|load| load["global_step"].as_f64()).fold(0.0, f64::max);
    if steps > 0.0 {
        measured["bytes_per_step"] = json!(((sum("bytes_in") + sum("bytes_out")) / steps).round());
        measured["server_cpu_ms_per_step"] = json!(1e3 * sum("cpu_s") / steps);
        measured["server_busy_ms_per_step"] = json!(1e3 * sum("busy_s") / steps);
        measured["exchanges_per_step"] = json!(sum("exchanges") / steps);
    }
    say(args, &measured);
    Ok(())
}

fn say(args: &Args, measured: &Value) {
    if args.json {
        println!("{measured}");
        return;
    }
    let Args { model, ps, workers, .. } = args;
    let (driver, batch) = (format!("{:?}", args.driver).to_lowercase(), args.batch());
    let (best, all) = (&measured["steps_per_s"], &measured["rates"]);
    println!("{model}, {driver}-driven, {ps} ps, {workers} workers, batch {batch}: {best} steps/s (of {all})");
}

fn options(args: &Args) -> Result<ServerOptions> {
    Ok(ServerOptions { threads: args.server_threads, ..ServerOptions::from_env()? })
}

/// One task of the job.
pub(crate) fn task(args: &Args) -> Result<()> {
    die_with_parent()?;
    let server = Server::start_with(task_from_env()?, options(args)?)?;
    if server.task().role == Role::Ps {
        server.join()?;
        if let Some(store) = server.store() {
            let load = store.load();
            println!(
                "load {}",
                json!({
                    "global_step": store.global_step(), "exchanges": load.exchanges, "bytes_in": load.bytes_in,
                    "bytes_out": load.bytes_out, "busy_s": load.busy.as_secs_f64(), "cpu_s": usage::own_cpu_seconds(),
                })
            );
        }
        return Ok(());
    }
    with_threads(args.threads, || match args.driver {
        Driver::Worker => drive(args, &server, |measured| println!("best {measured}")),
        Driver::Coordinator => coordinate(args, &server),
    })
}

fn line(args: &Args, clock: &Clock) -> Value {
    let (best, batch) = (clock.best(), args.batch());
    json!({
        "system": concat!("phalanx ", env!("CARGO_PKG_VERSION")), "model": args.model.to_string(),
        "driver": format!("{:?}", args.driver).to_lowercase(), "ps": args.ps, "workers": args.workers, "batch": batch,
        "threads": args.threads, "steps_per_s": round(best), "examples_per_s": (best * batch as f64).round(),
        "rates": clock.rates().iter().copied().map(round).collect::<Vec<_>>(),
        "worker_cpu_ms_per_step": clock.cpu_ms_per_step(),
    })
}

fn round(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

/// The steps, handed out by the chief.
fn coordinate(args: &Args, server: &Server) -> Result<()> {
    let (sizes, theirs) = (args.sizes(), args.clone());
    let mut steps = StepFunctions::new();
    let own = steps.resource(move |cx| Ok(Some(theirs.batches(cx.input_pipeline_id as u64)?)));
    let train = steps.register_as("train", move |cx, (): ()| {
        // Taken out for the step, because both it and the model are the context's.
        let mut batches: Option<Batches> = cx.resource(&own)?.take();
        let step = cx.with_session(|session| batches.as_mut().map_or(Ok(None), |batches| batches.step(session)));
        *cx.resource(&own)? = batches;
        Ok(step?.map(|step| step.loss))
    });
    let options = ParameterServerOptions { consistency: args.consistency.clone(), ..ParameterServerOptions::default() };
    let strategy = Strategy::parameter_server_on(server, options)?;
    strategy.coordinate(Net::new(&sizes), sizes.supervisor(server)?, steps, |coordinator| {
        let mut run = |steps: u64| {
            (0..steps).try_for_each(|_| coordinator.schedule(&train, ()).map(drop))?;
            coordinator.join()
        };
        run(args.warm_up())?;
        let mut clock = Clock::new(0, args.steps());
        (0..3).try_for_each(|_| clock.measure(args.steps(), || run(args.steps())))?;
        println!("best {}", line(args, &clock));
        Ok(())
    })?;
    Ok(())
}

/// Trains until the chief has measured; it says so before it ends the job.
fn drive(args: &Args, server: &Server, say: impl FnOnce(&Value)) -> Result<()> {
    let sizes = args.sizes();
    let mut batches = args.batches(server.config().trainer_index().unwrap_or(0) as u64)?;
    let supervisor = sizes.supervisor(server)?.overlap(args.overlap);
    let mut session = supervisor.prepare_or_wait_for_session(Net::new(&sizes))?;
    let mut clock = Clock::new(args.warm_up(), args.steps());
    while let Some(step) = batches.step(&mut session)? {
        if server.is_chief() && clock.tick(step.global_step) {
            break;
        }
    }
    if server.is_chief() {
        say(&line(args, &clock));
    }
    supervisor.stop(session)
}
