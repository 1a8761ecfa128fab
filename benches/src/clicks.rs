//! What consistency costs and buys: the click log, learned by three workers and two servers under a coordinator, once for
//! each consistency, from the same examples.

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::activation::{relu, sigmoid};
use burn::tensor::{Tensor, TensorData};
use phalanx::coordinator::{Coordinator, ParameterServerStrategy, StepContext, StepFunctions};
use phalanx::data::{Clicks, synthetic_clicks};
use phalanx::losses::Labels;
use phalanx::metrics::{Auc, Metric, Values};
use phalanx::prelude::*;
use phalanx::{Result, default_device};
use std::time::Instant;

#[derive(Clone, clap::Args)]
pub(crate) struct Args {
    /// Examples that are learned from
    #[arg(long, default_value_t = 1_500_000)]
    examples: u64,
    /// Examples that are evaluated on
    #[arg(long, default_value_t = 50_000)]
    held_out: u64,
    /// Examples in one worker's batch
    #[arg(long, default_value_t = 256)]
    batch: u64,
    #[arg(long, default_value_t = 3)]
    workers: u32,
    /// What is compared
    #[arg(long, value_delimiter = ',', default_values_t = ["async".to_owned(), "ssp:2".to_owned(), "sync".to_owned()])]
    consistency: Vec<String>,
    /// The seed of the examples
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

const DIM: usize = 8;
const IDS: usize = 26;
const NUMBERS: usize = 13;

/// Few ids in a column, so that a short training sees each of them.
fn log(seed: u64, rows: u64) -> Clicks {
    synthetic_clicks(seed, rows).max_ids(50)
}

#[derive(Module, Debug)]
struct Net {
    hidden: Linear,
    last: Linear,
}

impl Net {
    fn new() -> Self {
        let device = default_device();
        // The same start for every consistency.
        device.seed(7);
        let hidden = LinearConfig::new(IDS * DIM + NUMBERS, 64).init(&device);
        Self { hidden, last: LinearConfig::new(64, 1).init(&device) }
    }

    fn forward(&self, embedded: Tensor<2>, numbers: Tensor<2>) -> Tensor<2> {
        let input = Tensor::cat(vec![embedded, numbers], 1);
        sigmoid(self.last.forward(relu(self.hidden.forward(input))))
    }
}

/// Learns with each consistency and prints a line for it.
pub(crate) fn measure(args: &Args) -> Result<()> {
    let best = log(args.seed, args.examples).best();
    println!("best attainable: AUC {:.4}", best.auc);
    for consistency in &args.consistency {
        let cluster = MiniCluster::start(2, args.workers + 1)?;
        let line = cluster.run(|server| learn(args, consistency, server))?;
        println!("{consistency}: {}", line.unwrap_or_default());
    }
    Ok(())
}

fn learn(args: &Args, consistency: &str, server: &Server) -> Result<Option<String>> {
    let optimizer = Adagrad::new(0.05).initial_accumulator_value(0.1);
    let table = TableSpec {
        name: "ids".into(),
        dim: DIM,
        initializer: RowInitializer::normal(0.0, 0.05, 3),
        optimizer: optimizer.into(),
    };
    let (seed, examples, held_out, batch) = (args.seed, args.examples, args.held_out, args.batch as usize);
    let steps = StepFunctions::new()
        .dataset("train", move |cx| Ok(log(seed, examples).dataset().shard(*cx).batch(batch).repeat()))
        .dataset("held out", move |cx| Ok(log(seed + 1, held_out).dataset().shard(*cx).batch(1000)))
        .step("train", train)
        .evaluation("evaluate", evaluate);
    let strategy = ParameterServerStrategy::new(Supervisor::new(server, optimizer).table(table));
    strategy.consistency(consistency)?.run(Net::new(), steps, |coordinator| lead(args, coordinator))
}

fn lead(args: &Args, coordinator: &mut Coordinator<Net>) -> Result<String> {
    let since = Instant::now();
    for _ in 0..args.examples / args.batch {
        coordinator.schedule("train", &[])?;
    }
    coordinator.join()?;
    let seconds = since.elapsed().as_secs_f64();
    let mut auc = Auc::new();
    auc.merge(&coordinator.sum_over_parts("evaluate", 10)?)?;
    let staleness = coordinator.staleness()?;
    let (all, old) = (0_u64..).zip(&staleness.counts).fold((0, 0), |(all, old), (age, n)| (all + n, old + age * n));
    Ok(format!(
        "AUC {:.4}, {} updates, {:.0} examples/s, pushes {:.2} steps old on average, {} at most, widest lag {}",
        auc.result(),
        coordinator.global_step()?,
        args.examples as f64 / seconds,
        old as f64 / f64::from(u32::try_from(all.max(1)).unwrap_or(u32::MAX)),
        staleness.counts.len().saturating_sub(1),
        staleness.widest_lag,
    ))
}

/// Ids of all columns in one table: the column's number goes before the id.
fn read(batch: &Batch) -> Result<(Vec<i64>, Tensor<2>)> {
    let rows = batch.rows();
    let mut ids = vec![0; rows * IDS];
    for column in 0..IDS {
        for (row, id) in batch.i64(&format!("C{}", column + 1))?.iter().enumerate() {
            ids[row * IDS + column] = (column as i64) << 40 | id;
        }
    }
    let mut numbers = vec![0.0; rows * NUMBERS];
    for (column, name) in Clicks::number_names().iter().enumerate() {
        for (row, number) in batch.f32(name)?.iter().enumerate() {
            numbers[row * NUMBERS + column] = number.ln();
        }
    }
    Ok((ids, Tensor::from_data(TensorData::new(numbers, [rows, NUMBERS]), &default_device())))
}

fn labels(batch: &Batch) -> Result<Vec<f32>> {
    let label = batch.label().ok_or_else(|| Error::new(Code::DataColumn, "the click log has no label"))?;
    Ok(label.as_i64()?.iter().map(|&label| label as f32).collect())
}

fn train(cx: &mut StepContext<'_, Net>) -> Result<Vec<f64>> {
    let batch = cx.next("train")?;
    let (ids, numbers) = read(&batch)?;
    let truth = Labels::rows(labels(&batch)?, 1, &default_device())?;
    let loss = Loss::BinaryCrossentropy { from_logits: false, label_smoothing: 0.0 };
    let mut failed = None;
    let value = cx.minimize_with_rows(&[(0, &ids)], |net, rows| {
        let embedded = rows[0].lookup().reshape([batch.rows() as i32, -1]);
        loss.forward(truth, net.forward(embedded, numbers)).map(Tensor::mean).unwrap_or_else(|error| {
            failed = Some(error);
            Tensor::zeros([1], &default_device())
        })
    })?;
    failed.map_or(Ok(vec![value]), Err)
}

fn evaluate(cx: &mut StepContext<'_, Net>) -> Result<Vec<f64>> {
    let (part, parts) = (cx.arguments()[0] as usize, cx.arguments()[1] as usize);
    let mut auc = Auc::new();
    for batch in cx.part("held out", part, parts)? {
        let batch = batch?;
        let (ids, numbers) = read(&batch)?;
        let (net, mut rows) = cx.look_up(&[(0, &ids)])?;
        let of = rows.remove(0);
        let rows = phalanx::prelude::Rows::new(of.values, of.dim, &of.positions, &default_device());
        let predicted = net.forward(rows.lookup().reshape([batch.rows() as i32, -1]), numbers).into_data();
        let (predicted, labels) = (predicted.as_slice::<f32>().unwrap_or_default(), labels(&batch)?);
        auc.update(Values::rows(&labels, 1), Values::rows(predicted, 1), None)?;
    }
    Ok(auc.to_words())
}
