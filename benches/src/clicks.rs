//! What consistency costs and buys: the click log, learned by three workers and two servers under a coordinator, once for
//! each consistency, from the same examples.

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::activation::{relu, sigmoid};
use burn::tensor::{Tensor, TensorData};
use phalanx::coordinator::{
    Coordinator, DatasetHandle, DatasetPart, MetricHandle, StepContext, StepFunctions, StepHandle,
};
use phalanx::data::{Clicks, synthetic_clicks};
use phalanx::losses::Labels;
use phalanx::metrics::Auc;
use phalanx::prelude::*;
use phalanx::{Result, TableId, default_device};
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
        let cluster = MiniCluster::start(2, args.workers)?;
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
    let options = ParameterServerOptions { consistency: consistency.to_owned(), ..ParameterServerOptions::default() };
    let strategy = Strategy::parameter_server_on(server, options)?;
    let mut supervisor = strategy.supervisor(optimizer)?;
    let ids = supervisor.table(table)?;
    let mut steps = StepFunctions::new();
    let data = steps.dataset(move |cx| Ok(log(seed, examples).dataset().shard(*cx).batch(batch).repeat()));
    let held_out = steps.dataset(move |cx| Ok(log(seed + 1, held_out).dataset().shard(*cx).batch(1000)));
    let auc = steps.metric(Auc::new());
    let train = steps.register_as("train", move |cx, (): ()| train(cx, &data, ids));
    let evaluate = steps.evaluation_as("evaluate", move |cx, part| evaluate(cx, &held_out, part, (ids, &auc)));
    strategy.coordinate(Net::new(), supervisor, steps, |coordinator| lead(args, coordinator, &train, &evaluate, &auc))
}

fn lead(
    args: &Args,
    coordinator: &mut Coordinator<Net>,
    train: &StepHandle<(), f32>,
    evaluate: &StepHandle<DatasetPart, ()>,
    auc: &MetricHandle,
) -> Result<String> {
    let since = Instant::now();
    for _ in 0..args.examples / args.batch {
        coordinator.schedule(train, ())?;
    }
    coordinator.join()?;
    let seconds = since.elapsed().as_secs_f64();
    DatasetPart::all(10).try_for_each(|part| coordinator.schedule(evaluate, part).map(drop))?;
    coordinator.join()?;
    let staleness = coordinator.staleness()?;
    let (all, old) = (0_u64..).zip(&staleness.counts).fold((0, 0), |(all, old), (age, n)| (all + n, old + age * n));
    Ok(format!(
        "AUC {:.4}, {} updates, {:.0} examples/s, pushes {:.2} steps old on average, {} at most, widest lag {}",
        coordinator.result(auc)?,
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

fn train(cx: &mut StepContext<'_, Net>, data: &DatasetHandle, table: TableId) -> Result<f32> {
    let batch = cx.next(data)?;
    let (ids, numbers) = read(&batch)?;
    let truth = Labels::rows(labels(&batch)?, 1, &default_device())?;
    let loss = Loss::BinaryCrossentropy { from_logits: false, label_smoothing: 0.0 };
    cx.minimize_with_rows(&[(table, &ids)], |net, rows| {
        let embedded = rows[0].lookup().reshape([batch.rows() as i32, -1]);
        Ok(loss.forward(truth, net.forward(embedded, numbers))?.mean())
    })
}

fn evaluate(
    cx: &mut StepContext<'_, Net>,
    held_out: &DatasetHandle,
    part: DatasetPart,
    (table, auc): (TableId, &MetricHandle),
) -> Result<()> {
    for batch in cx.part(held_out, part)? {
        let batch = batch?;
        let (ids, numbers) = read(&batch)?;
        let (net, mut rows) = cx.look_up(&[(table, &ids)])?;
        let of = rows.remove(0);
        let rows = phalanx::prelude::Rows::new(of.values, of.dim, &of.positions, &default_device());
        let predicted = net.forward(rows.lookup().reshape([batch.rows() as i32, -1]), numbers);
        cx.update(auc, &labels(&batch)?[..], &HostTensor::from(predicted), None)?;
    }
    Ok(())
}
