//! `fit` with mirrored workers: the dnn of the peers, and beside it what its matrix products alone would take.

use crate::job::{self, Tasks};
use crate::limits::{Shapes, TIME};
use crate::local_job::die_with_parent;
use crate::network::Link;
use burn::tensor::{Device, Distribution, Tensor};
use phalanx::callbacks::Lambda;
use phalanx::data::{Batch, Column, Dataset};
use phalanx::layers::Dense;
use phalanx::prelude::*;
use phalanx::{Code, Error, Result};
use phalanx_base::SplitMix;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

const SIZES: [usize; 5] = [512, 1024, 512, 256, 2];

/// What is measured; the defaults are the peers'.
#[derive(Clone, clap::Args)]
pub(crate) struct Args {
    /// Workers, the chief among them
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Examples in one worker's batch
    #[arg(long, default_value_t = 128)]
    batch: usize,
    /// Steps in each of the three measurements
    #[arg(long, default_value_t = 200)]
    steps: u64,
    /// Compute threads of each worker
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// cpu, vulkan:0 or cuda:0
    #[arg(long, default_value = "cpu")]
    device: String,
    /// Each worker in a network namespace of its own, over links of this speed: unlimited, or Gbit/s
    #[arg(long)]
    network: Option<Link>,
    /// With --network: connections are encrypted
    #[arg(long)]
    tls: bool,
    /// One line of JSON
    #[arg(long)]
    json: bool,
}

/// Starts the workers, prints what the first measured.
pub(crate) fn measure(args: &Args) -> Result<()> {
    if args.workers == 0 || args.batch == 0 || args.steps == 0 {
        return Err(Error::new(Code::BadSetting, "--workers, --batch and --steps must be greater than 0"));
    }
    if args.workers == 1 {
        return with_threads(args.threads, || work(args, &Strategy::one_device(&args.device)?));
    }
    let tasks = Tasks { ps: 0, trainers: args.workers, network: args.network, tls: args.tls };
    println!("{}", job::run(tasks, "mirrored-task", &[])?.measured);
    Ok(())
}

/// One worker.
pub(crate) fn task(args: &Args) -> Result<()> {
    die_with_parent()?;
    let options = ServerOptions { threads: 1, ..ServerOptions::from_env()? };
    let config = task_from_env()?;
    with_threads(args.threads, || {
        let strategy = Strategy::multi_worker_mirrored_on([args.device.as_str()], &config, &options)?;
        work(args, &strategy)
    })
}

fn work(args: &Args, strategy: &Strategy) -> Result<()> {
    let network = || {
        let (last, hidden) = SIZES[1..].split_last().unwrap_or((&2, &[]));
        let layers = hidden
            .iter()
            .fold(Sequential::new(), |layers, &units| layers.add(Dense::new(units).activation(Function::Relu)));
        layers.add(Dense::new(*last)).build([SIZES[0]])
    };
    let loss = Loss::SparseCategoricalCrossentropy { from_logits: true };
    let optimizer = Adagrad::new(0.05).initial_accumulator_value(0.1).epsilon(1e-7);
    let mut model = strategy.scope(network)?.compile(optimizer, loss, ["accuracy"; 0])?;
    let rates = Arc::new(Mutex::new(Vec::new()));
    let (seen, mut started) = (Arc::clone(&rates), Instant::now());
    let mut steps = 0;
    let every = args.steps;
    // A warm-up of as many steps, then three measurements.
    let clock = Lambda::new().on_batch_end(move |_, _, _| {
        steps += 1;
        if steps % every == 0 {
            seen.lock().unwrap_or_else(PoisonError::into_inner).push(every as f64 / started.elapsed().as_secs_f64());
            started = Instant::now();
        }
        Ok(())
    });
    let fit = Fit::epochs(1).steps_per_epoch(4 * args.steps).verbose(Verbose::Silent).callback(clock);
    model.fit(data(args.batch * args.workers)?, fit)?;
    if strategy.should_checkpoint() {
        let rates = rates.lock().unwrap_or_else(PoisonError::into_inner);
        println!("{}{}", if args.workers > 1 { "best " } else { "" }, line(args, &rates[1..])?);
    }
    Ok(())
}

/// Fifty batches, over and over.
fn data(batch: usize) -> Result<Dataset> {
    let rows = 50 * batch;
    let mut random = SplitMix::new(1);
    let mut next = move || (random.word() >> 40) as f32 / (1 << 23) as f32 - 1.0;
    let x = Column::f32((0..rows * SIZES[0]).map(|_| next()).collect()).with_row_shape([SIZES[0]])?;
    let y = Column::i64((0..rows).map(|_| i64::from(next() > 0.0)).collect());
    let batch_of_all = Batch::new([("x", x), ("y", y)])?.with_label("y")?;
    Ok(Dataset::from_tensor_slices(batch_of_all).batch(batch).repeat())
}

/// Steps per second if there were nothing but the matrix products, the best of five.
fn limit(args: &Args) -> Result<f64> {
    if args.device == "cpu" {
        let products = Shapes::step(&SIZES, args.batch, false);
        return (0..5).try_fold(0.0, |best, _| Ok(products.rate(args.threads, TIME)?.max(best)));
    }
    let device: Device = phalanx::device(&args.device)?;
    let random = |rows, columns| Tensor::<2>::random([rows, columns], Distribution::Normal(0.0, 1.0), &device);
    let layers: Vec<_> = SIZES
        .windows(2)
        .map(|pair| (random(args.batch, pair[0]), random(pair[0], pair[1]), random(args.batch, pair[1])))
        .collect();
    let step = || {
        let mut kept = Vec::with_capacity(3 * layers.len());
        for (number, (input, weight, gradient)) in layers.iter().enumerate() {
            kept.push(input.clone().matmul(weight.clone()));
            kept.push(input.clone().transpose().matmul(gradient.clone()));
            if number > 0 {
                kept.push(gradient.clone().matmul(weight.clone().transpose()));
            }
        }
        kept.last().map(|last| last.clone().slice([0..1, 0..1]).into_data())
    };
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let started = Instant::now();
        for _ in 0..args.steps {
            std::hint::black_box(step());
        }
        best = best.min(started.elapsed().as_secs_f64());
    }
    Ok(args.steps as f64 / best)
}

fn line(args: &Args, rates: &[f64]) -> Result<String> {
    let best = rates.iter().copied().fold(0.0, f64::max);
    let Args { workers, batch, json, .. } = args;
    let version = env!("CARGO_PKG_VERSION");
    let examples = best * (batch * workers) as f64;
    // With several workers the others would compute beside it.
    let limit = if *workers == 1 { Some(limit(args)?) } else { None };
    if *json {
        let limit = limit.map_or(String::new(), |limit| {
            format!(r#", "matmul_steps_per_s": {limit:.1}, "fraction": {:.3}"#, best / limit)
        });
        return Ok(format!(
            r#"{{"system": "phalanx {version}", "model": "dnn", "workers": {workers}, "batch": {batch}, "steps_per_s": {best:.1}, "examples_per_s": {examples:.0}{limit}}}"#
        ));
    }
    let limit = limit.map_or(String::new(), |limit| {
        format!("; its matrix products alone {limit:.1} steps/s: {:.1} %", 100.0 * best / limit)
    });
    Ok(format!("dnn, {workers} mirrored workers, batch {batch} each: {best:.1} steps/s (of {rates:.1?}){limit}"))
}
