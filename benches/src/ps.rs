//! The parameter-server job.

use crate::job;
use crate::model::{Batches, Kind, Net, Sizes};
use phalanx::coordinator::{ParameterServerStrategy, Steps};
use phalanx::prelude::*;
use phalanx::{Code, Error, Result};
use phalanx_launch::{die_with_parent, local_cluster};
use std::sync::Arc;
use std::time::Instant;

/// What is measured; the defaults are the peers'.
#[derive(Clone, clap::Args)]
pub(crate) struct Args {
    #[arg(long, value_enum)]
    model: Kind,
    /// Parameter servers
    #[arg(long, default_value_t = 2)]
    ps: usize,
    /// Workers, the chief among them
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Examples in one worker's batch
    #[arg(long, default_value_t = 128)]
    batch: usize,
    /// Steps of all workers together, in each of the three measurements
    #[arg(long, default_value_t = 2000)]
    steps: u64,
    /// embed: rows of the table
    #[arg(long, default_value_t = 100_000)]
    rows: usize,
    /// embed: numbers in a row
    #[arg(long, default_value_t = 16)]
    dim: usize,
    /// embed: hidden layers
    #[arg(long, value_delimiter = ',', default_values_t = [400, 400])]
    hidden: Vec<usize>,
    /// Compute threads of each worker
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Who decides what is computed next: every worker for itself, or a coordinator beside them
    #[arg(long, value_enum, default_value_t)]
    driver: Driver,
    /// With a coordinator: async, ssp:K, sync or sync:BACKUPS
    #[arg(long, default_value = "async")]
    consistency: String,
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

const WARM_UP: u64 = 100;

/// Starts the job, prints what its chief measured.
pub(crate) fn measure(args: &Args) -> Result<()> {
    if args.ps == 0 || args.workers == 0 || args.batch == 0 || args.steps == 0 {
        return Err(Error::new(Code::BadSetting, "--ps, --workers, --batch and --steps must be greater than 0"));
    }
    // A coordinator computes nothing itself.
    let trainers = args.workers + usize::from(args.driver == Driver::Coordinator);
    println!("{}", job::run(&local_cluster(args.ps, trainers)?, "task", &[])?);
    Ok(())
}

/// One task of the job.
pub(crate) fn task(args: &Args) -> Result<()> {
    die_with_parent()?;
    let options = ServerOptions { threads: 1, ..ServerOptions::from_env()? };
    let server = Server::start_with(task_from_env()?, options)?;
    if server.task().role == Role::Ps {
        return server.join();
    }
    with_threads(args.threads, || train(args, &server)).and_then(|result| result)
}

fn train(args: &Args, server: &Server) -> Result<()> {
    match args.driver {
        Driver::Worker => drive(args, server),
        Driver::Coordinator => coordinate(args, server),
    }
}

fn supervisor(args: &Args, server: &Server) -> Supervisor {
    let optimizer = Adagrad::new(0.05).initial_accumulator_value(0.1).epsilon(1e-7);
    let supervisor = Supervisor::new(server, optimizer);
    if args.model != Kind::Embed {
        return supervisor;
    }
    let (initializer, optimizer) = (Initializer::normal(0.0, 0.01, 1), optimizer.into());
    supervisor.table(TableSpec { name: "table".into(), dim: args.dim, initializer, optimizer })
}

/// The same steps, handed out by the chief.
fn coordinate(args: &Args, server: &Server) -> Result<()> {
    let sizes = Arc::new(Sizes::new(args.model, args.rows, args.dim, &args.hidden));
    let (theirs, size) = (Arc::clone(&sizes), args.batch);
    let steps = Steps::new()
        .resource("batches", move |cx| Ok(Some(Batches::new(&theirs, size, cx.input_pipeline_id as u64))))
        .step("train", |cx| {
            // Taken out for the step, because both it and the model are the context's.
            let mut batches = cx.resource::<Option<Batches>>("batches")?.take();
            let step = cx.with_session(|session| batches.as_mut().map_or(Ok(None), |batches| batches.step(session)));
            *cx.resource("batches")? = batches;
            Ok(step?.into_iter().map(|step| f64::from(step.loss)).collect())
        });
    let strategy = ParameterServerStrategy::new(supervisor(args, server)).consistency(&args.consistency)?;
    strategy.run(Net::new(&sizes), steps, |coordinator| {
        let mut run = |steps: u64| {
            (0..steps).try_for_each(|_| coordinator.schedule("train", &[]).map(drop))?;
            coordinator.join()
        };
        run(WARM_UP)?;
        let mut clock = Clock { args, started: None, rates: Vec::new() };
        for _ in 0..3 {
            let since = Instant::now();
            run(args.steps)?;
            clock.rates.push(args.steps as f64 / since.elapsed().as_secs_f64());
        }
        println!("best {}", clock.line());
        Ok(())
    })?;
    Ok(())
}

fn drive(args: &Args, server: &Server) -> Result<()> {
    let sizes = Sizes::new(args.model, args.rows, args.dim, &args.hidden);
    let mut batches = Batches::new(&sizes, args.batch, server.config().trainer_index().unwrap_or(0) as u64);
    let supervisor = supervisor(args, server);
    let mut session = supervisor.prepare_or_wait_for_session(Net::new(&sizes))?;
    let mut clock = Clock { args, started: None, rates: Vec::new() };
    while let Some(step) = batches.step(&mut session)? {
        if server.is_chief() && clock.tick(step.global_step) {
            break;
        }
    }
    if server.is_chief() {
        println!("best {}", clock.line());
    }
    supervisor.stop(session)
}

/// The chief's watch: a warm-up, then three measurements.
struct Clock<'a> {
    args: &'a Args,
    started: Option<(Instant, u64)>,
    rates: Vec<f64>,
}

impl Clock<'_> {
    /// Takes note of the time; `true` when all is measured.
    fn tick(&mut self, global_step: u64) -> bool {
        let now = Instant::now();
        match self.started {
            None if global_step < WARM_UP => {}
            None => self.started = Some((now, global_step)),
            Some((since, from)) if global_step >= from + self.args.steps => {
                self.rates.push((global_step - from) as f64 / (now - since).as_secs_f64());
                self.started = Some((now, global_step));
            }
            Some(_) => {}
        }
        self.rates.len() == 3
    }

    fn line(&self) -> String {
        let best = self.rates.iter().copied().fold(0.0, f64::max);
        let Args { model, ps, workers, batch, json, driver, .. } = self.args;
        let driver = format!("{driver:?}").to_lowercase();
        let version = env!("CARGO_PKG_VERSION");
        if *json {
            format!(
                r#"{{"system": "phalanx {version}", "model": "{model}", "driver": "{driver}", "ps": {ps}, "workers": {workers}, "batch": {batch}, "steps_per_s": {best:.1}, "examples_per_s": {:.0}}}"#,
                best * *batch as f64
            )
        } else {
            format!(
                "{model}, {driver}-driven, {ps} ps, {workers} workers, batch {batch}: {best:.1} steps/s (of {:.1?})",
                self.rates
            )
        }
    }
}
