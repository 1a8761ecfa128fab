//! What a row of a table costs as the table grows: in a step of a job, to its server alone, and in memory.

mod job;
mod store;

use crate::stats::{bytes, digits};
use crate::usage;
use job::Job;
use phalanx::prelude::*;
use phalanx::{Code, Error, Result};
use phalanx_base::{Context, SplitMix, prefetch};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::process::Command;
use std::time::Instant;
use store::{Asked, Message};

/// Ids of one message: a batch of 128 examples with 26 ids each.
const IDS: usize = 128 * 26;
/// Messages in a measurement, each with other ids, so that a large table does not lie in the caches by the second time.
const MESSAGES: usize = 600;
/// What is measured of every table.
const TIMES: [&str; 5] = ["step_ns", "lookup_ns", "update_ns", "cold_update_ns", "array_ns"];
/// What a row costs its server in a step.
const TIMES_OF_A_SERVER: [&str; 2] = ["lookup_ns", "update_ns"];
/// The best of this number of counts, each with other ids: other users of the machine's memory can only add to a count.
const MEASUREMENTS: usize = 3;

#[derive(Clone, clap::Args)]
pub(crate) struct Args {
    /// Rows of the tables
    #[arg(long, value_delimiter = ',', default_values_t = [100_000, 1_000_000, 10_000_000, 100_000_000])]
    rows: Vec<u64>,
    /// Numbers of a row; Adagrad keeps as many again
    #[arg(long, default_value_t = 8)]
    dim: usize,
    /// How often each is measured, by turns; the best counts
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// One line of JSON for each table
    #[arg(long)]
    json: bool,
}

/// Measures each size in a process of its own, so that no other table's memory is counted.
pub(crate) fn measure(args: &Args) -> Result<()> {
    if args.dim == 0 || args.rounds == 0 || args.rows.contains(&0) {
        return Err(Error::new(Code::BadSetting, "--rows, --dim and --rounds must be greater than 0"));
    }
    if !args.json {
        println!("Caches: {}. Rows of {} numbers and as many of Adagrad's.\n", caches(), args.dim);
        println!("In nanoseconds: a row in a step of a worker and its server, and in its server's store alone.\n");
        println!(
            "| rows | a step | the server: lookup | update | both | update, not looked up before | a plain array's row | memory of a row | all |"
        );
        println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    }
    let mut best: Vec<Option<Value>> = vec![None; args.rows.len()];
    for _ in 0..args.rounds {
        for (&rows, best) in args.rows.iter().zip(&mut best) {
            if let Some(free) = usage::available_bytes().filter(|&free| free < needed(args, rows)) {
                let (needed, free) = (bytes(needed(args, rows) as f64), bytes(free as f64));
                eprintln!("{rows} rows: skipped: needs {needed}, {free} are free");
                continue;
            }
            let measured = in_a_process(rows, args.dim)?;
            *best = Some(best.take().map_or(measured.clone(), |known| better(known, &measured)));
        }
    }
    let measured: Vec<Value> = best.into_iter().flatten().collect();
    for measured in &measured {
        if args.json {
            println!("{measured}");
            continue;
        }
        let [step, lookup, update, cold, array] = TIMES.map(|key| digits(sum_of(measured, &[key])));
        let both = digits(sum_of(measured, &TIMES_OF_A_SERVER));
        let [memory, all] = ["bytes_per_row", "bytes"].map(|key| bytes(sum_of(measured, &[key])));
        let rows = &measured["rows"];
        println!("| {rows} | {step} | {lookup} | {update} | {both} | {cold} | {array} | {memory} | {all} |");
    }
    if let (false, [first, .., last]) = (args.json, &measured[..]) {
        let growth = |keys: &[&str]| digits(sum_of(last, keys) / sum_of(first, keys));
        let [step, lookup, update, cold, array] = TIMES.map(|key| growth(&[key]));
        let both = growth(&TIMES_OF_A_SERVER);
        println!("\nFrom {} to {} rows: a row in a step {step} times.", first["rows"], last["rows"]);
        println!("The server alone: both {both} times, lookup {lookup}, update {update}.");
        println!("An update of rows not looked up before {cold}; a plain array's row {array}.");
    }
    Ok(())
}

fn sum_of(measured: &Value, keys: &[&str]) -> f64 {
    keys.iter().map(|&key| measured[key].as_f64().unwrap_or(0.0)).sum()
}

/// Numbers, an id, its slot in the index, of which three eighths are in use at least; the array, afterwards, is less.
fn needed(args: &Args, rows: u64) -> u64 {
    rows * (8 * args.dim as u64 + 8 + 8 * 8 / 3) + (500 << 20)
}

/// The least time of each kind: whoever else uses the machine's memory only ever adds, and does so for minutes.
fn better(mut known: Value, other: &Value) -> Value {
    for key in TIMES {
        if other[key].as_f64() < known[key].as_f64() {
            known[key] = other[key].clone();
        }
    }
    known
}

fn in_a_process(rows: u64, dim: usize) -> Result<Value> {
    let executable = std::env::current_exe().context(Code::Internal, "no executable")?;
    let (rows, dim) = (rows.to_string(), dim.to_string());
    let output = Command::new(executable).args(["rows-of", "--rows", &rows, "--dim", &dim]).output();
    let output = output.context(Code::Internal, "a table's process cannot be started")?;
    serde_json::from_slice(&output.stdout).map_err(|_| {
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        Error::new(Code::Internal, format!("a table of {rows} rows was not measured")).because(why)
    })
}

/// One size, in this process.
pub(crate) fn measure_one(args: &Args) -> Result<()> {
    let rows = args.rows.first().copied().unwrap_or(1);
    let line = with_threads(1, || measure_table(rows, args.dim))?;
    println!("{line}");
    Ok(())
}

fn measure_table(rows: u64, dim: usize) -> Result<Value> {
    let initializer = RowInitializer::uniform(-0.1, 0.1, 1);
    let table = TableSpec { name: "table".into(), dim, initializer, optimizer: Adagrad::new(0.05).into() };
    let mut job = Job::start(table.clone())?;
    let mut store = Asked::new(job.store()?, table)?;
    let before = resident();
    store.fill(rows)?;
    let kept = resident().saturating_sub(before);
    let mut random = SplitMix::new(rows);
    let mut batches = || (0..MESSAGES).map(|_| different_ids(&mut random, rows)).collect::<Vec<_>>();
    // With other ids than are measured: the first messages pay for memory that answers are written to, and for everything
    // that the fill has left cold.
    batches().iter().try_for_each(|ids| store.answer(&store.pull(ids)))?;
    batches().iter().try_for_each(|ids| job.step(ids))?;
    let mut best = [f64::MAX; 4];
    for _ in 0..MEASUREMENTS {
        let [lookup, update] = in_training(&mut store, &batches())?;
        let pushes: Vec<Message> = batches().iter().map(|ids| store.push(ids)).collect();
        let cold = seconds(|| pushes.iter().try_for_each(|push| store.answer(push)))?;
        let steps = batches();
        let step = seconds(|| steps.iter().try_for_each(|ids| job.step(ids)))?;
        let all_rows = (MESSAGES * ids_of_a_batch(rows)) as f64;
        for (best, seconds) in best.iter_mut().zip([step, lookup, update, cold]) {
            *best = best.min(1e9 * seconds / all_rows);
        }
    }
    let [step_ns, lookup_ns, update_ns, cold_update_ns] = best;
    drop((store, job));
    let array_ns = (0..MEASUREMENTS).map(|_| array(rows, 2 * dim)).fold(f64::MAX, f64::min);
    Ok(json!({
        "rows": rows, "dim": dim, "step_ns": step_ns, "lookup_ns": lookup_ns, "update_ns": update_ns,
        "cold_update_ns": cold_update_ns, "array_ns": array_ns, "bytes_per_row": kept as f64 / rows as f64, "bytes": kept,
    }))
}

/// Seconds of all look-ups and of all updates, in the order in which a trainer asks for them: the rows of its next batch, and
/// then updates of those before. Nobody updates rows that were not looked up.
fn in_training(store: &mut Asked, batches: &[Vec<i64>]) -> Result<[f64; 2]> {
    // Made beforehand: a server's messages are made by others.
    let pulls: Vec<Message> = batches.iter().map(|ids| store.pull(ids)).collect();
    let pushes: Vec<Message> = batches.iter().map(|ids| store.push(ids)).collect();
    let (mut lookup, mut update) = (0.0, 0.0);
    for at in 0..=batches.len() {
        if let Some(pull) = pulls.get(at) {
            lookup += seconds(|| store.answer(pull))?;
        }
        if let Some(push) = at.checked_sub(1).map(|before| &pushes[before]) {
            update += seconds(|| store.answer(push))?;
        }
    }
    Ok([lookup, update])
}

fn seconds(run: impl FnOnce() -> Result<()>) -> Result<f64> {
    let since = Instant::now();
    run()?;
    Ok(since.elapsed().as_secs_f64())
}

/// Nanoseconds to copy a row from a random place of a plain array of as many rows, each asked for ahead: what the memory
/// allows.
fn array(rows: u64, width: usize) -> f64 {
    /// How many rows are asked for ahead.
    const AHEAD: usize = 16;
    let rows = rows as usize;
    let table = vec![1.0_f32; rows * width];
    let row = |at: usize| &table[at * width..][..width];
    let mut random = SplitMix::new(2);
    let places: Vec<usize> = (0..IDS * MESSAGES).map(|_| random.below(rows)).collect();
    let mut out = vec![0.0_f32; width];
    let since = Instant::now();
    for (at, &place) in places.iter().enumerate() {
        prefetch(row(places[(at + AHEAD).min(places.len() - 1)]));
        out.copy_from_slice(row(place));
        std::hint::black_box(&mut out);
    }
    1e9 * since.elapsed().as_secs_f64() / places.len() as f64
}

/// A batch's ids, each once.
type Ids = [i64];

fn ids_of_a_batch(rows: u64) -> usize {
    IDS.min(rows as usize)
}

/// A batch's ids, of a table of `rows`.
fn different_ids(random: &mut SplitMix, rows: u64) -> Vec<i64> {
    let count = ids_of_a_batch(rows);
    let mut seen = HashSet::with_capacity(count);
    let mut ids = Vec::with_capacity(count);
    while ids.len() < count {
        let id = random.below(rows as usize) as i64;
        if seen.insert(id) {
            ids.push(id);
        }
    }
    ids
}

fn resident() -> u64 {
    let own = std::process::id();
    usage::tree(own).get(&own).map_or(0, |process| process.resident_bytes)
}

/// What the kernel says of the first core's caches.
fn caches() -> String {
    let read = |index: usize, what: &str| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{what}");
        std::fs::read_to_string(path).map(|text| text.trim().to_owned())
    };
    let one = |index| {
        let (level, kind) = (read(index, "level").ok()?, read(index, "type").ok()?);
        (kind != "Instruction").then(|| read(index, "size").ok()).flatten().map(|size| format!("L{level} {size}"))
    };
    let found: Vec<String> = (0..8).filter_map(one).collect();
    if found.is_empty() { "not told".to_owned() } else { found.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_made_changed_and_trained_on() {
        let (name, initializer) = ("table".to_owned(), RowInitializer::constant(1.0));
        let table = TableSpec { name, dim: 2, initializer, optimizer: Sgd::new(0.5).into() };
        let mut job = Job::start(table.clone()).unwrap();
        let mut asked = Asked::new(job.store().unwrap(), table).unwrap();
        asked.fill(100).unwrap();
        let held = |job: &Job| job.store().unwrap().stored_items().into_iter().find(|held| held.table).unwrap().count;
        assert_eq!(held(&job), 100);
        let push = asked.push(&[5, 7]);
        asked.answer(&push).unwrap();
        assert_eq!(job.store().unwrap().load().pushes, 1);
        // The third brings the gradients of the second.
        (0..3).for_each(|_| job.step(&[5, 200]).unwrap());
        assert_eq!((held(&job), job.store().unwrap().load().pushes), (101, 3));
    }

    #[test]
    fn the_least_time_of_each_kind_counts() {
        let of = |[step, lookup, update, cold, array]: [f64; 5]| {
            json!({
                "rows": 5, "step_ns": step, "lookup_ns": lookup, "update_ns": update, "cold_update_ns": cold, "array_ns": array
            })
        };
        let best = better(of([9.0, 2.0, 7.0, 4.0, 1.0]), &of([8.0, 3.0, 6.0, 5.0, 1.0]));
        assert_eq!(best, of([8.0, 2.0, 6.0, 4.0, 1.0]));
    }

    #[test]
    fn ids_of_a_message_differ() {
        let ids = different_ids(&mut SplitMix::new(1), 5000);
        assert_eq!(ids.len(), IDS);
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), IDS);
        assert_eq!(different_ids(&mut SplitMix::new(1), 3).len(), 3);
    }
}
