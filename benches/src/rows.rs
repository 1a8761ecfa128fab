//! What a row of a table costs a server as the table grows: looked up, updated, and kept.
//!
//! Measured on [`Store`], which is all of a server but its sockets: a message's ids are read, found, and their rows written
//! into an answer, or changed by the optimizer.

use crate::stats::{bytes, digits};
use crate::usage;
use bytes::Bytes;
use phalanx::prelude::*;
use phalanx::{Code, Error, Incarnation, Result};
use phalanx_base::{Context, SplitMix};
use phalanx_ps::{Crew, Layout, Store};
use phalanx_wire::proto::params;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::process::Command;
use std::time::Instant;

/// Ids of one message: a batch of 128 examples with 26 ids each.
const IDS: usize = 128 * 26;
/// Messages in a measurement, each with other ids, so that a large table does not lie in the caches by the second time.
const MESSAGES: usize = 600;
/// The best of so many counts, each with other ids: whoever else uses the machine's memory only ever adds.
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
        println!("| rows | lookup, ns a row | update, ns a row | an array's row, ns | memory of a row | all |");
        println!("| --- | --- | --- | --- | --- | --- |");
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
        let of = |key: &str| digits(measured[key].as_f64().unwrap_or(0.0));
        let memory = bytes(measured["bytes_per_row"].as_f64().unwrap_or(0.0));
        let all = bytes(measured["bytes"].as_f64().unwrap_or(0.0));
        let (rows, lookup, update, array) = (&measured["rows"], of("lookup_ns"), of("update_ns"), of("array_ns"));
        println!("| {rows} | {lookup} | {update} | {array} | {memory} | {all} |");
    }
    if let (false, [first, .., last]) = (args.json, &measured[..]) {
        let sum = |of: &Value, keys: &[&str]| keys.iter().map(|&key| of[key].as_f64().unwrap_or(0.0)).sum::<f64>();
        let growth = |keys: &[&str]| sum(last, keys) / sum(first, keys);
        let (from, to) = (&first["rows"], &last["rows"]);
        println!(
            "\nFrom {from} to {to} rows: lookup {:.2} times, update {:.2} times, both {:.2} times; an array's row {:.2} times.",
            growth(&["lookup_ns"]),
            growth(&["update_ns"]),
            growth(&["lookup_ns", "update_ns"]),
            growth(&["array_ns"])
        );
    }
    Ok(())
}

/// Numbers, an id, its slot in the index, of which three eighths are in use at least; and the array, afterwards, less.
fn needed(args: &Args, rows: u64) -> u64 {
    rows * (8 * args.dim as u64 + 8 + 8 * 8 / 3) + (500 << 20)
}

/// The least time of each kind: whoever else uses the machine's memory only ever adds, and does so for minutes.
fn better(mut known: Value, other: &Value) -> Value {
    for key in ["lookup_ns", "update_ns", "array_ns"] {
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
    let before = resident();
    let table = Server::new(args.dim)?;
    table.fill(rows)?;
    let kept = resident().saturating_sub(before);
    let mut random = SplitMix::new(rows);
    let mut messages = || (0..MESSAGES).map(|_| different_ids(&mut random, rows)).collect::<Vec<_>>();
    // With other ids than are measured: the first messages pay for memory that answers are written to, and for everything
    // that the fill has left cold.
    messages().iter().map(|ids| table.pull(ids)).try_for_each(|pull| table.answer(&pull))?;
    let (mut lookup_ns, mut update_ns, mut step) = (f64::MAX, f64::MAX, 0);
    for _ in 0..MEASUREMENTS {
        // Made beforehand: a server's messages are made by others.
        let pulls: Vec<Message> = messages().iter().map(|ids| table.pull(ids)).collect();
        lookup_ns = lookup_ns.min(table.nanoseconds_a_row(&pulls)?);
        let mut push = |ids: Vec<i64>| {
            step += 1;
            table.push(&ids, step, args.dim)
        };
        let pushes: Vec<Message> = messages().into_iter().map(&mut push).collect();
        update_ns = update_ns.min(table.nanoseconds_a_row(&pushes)?);
    }
    drop(table);
    let array_ns = (0..MEASUREMENTS).map(|_| array(rows, 2 * args.dim)).fold(f64::MAX, f64::min);
    let line = json!({
        "rows": rows, "dim": args.dim, "lookup_ns": lookup_ns, "update_ns": update_ns, "array_ns": array_ns,
        "bytes_per_row": kept as f64 / rows as f64, "bytes": kept,
    });
    println!("{line}");
    Ok(())
}

/// One server with one table.
struct Server {
    store: Store,
    handle: u32,
    from: (TaskId, Incarnation),
}

impl Server {
    fn new(dim: usize) -> Result<Self> {
        let initializer = Initializer::uniform(-0.1, 0.1, 1);
        let table = TableSpec { name: "table".into(), dim, initializer, optimizer: Adagrad::new(0.05).into() };
        let layout = Layout::new(Vec::new(), vec![table], 1, Placement::default())?;
        let store = Store::default();
        let handle = store.create(&layout.specs_for(0))?[0];
        store.set_ready();
        Ok(Self { store, handle, from: (TaskId::new(Role::Chief, 0), Incarnation(1)) })
    }

    fn fill(&self, rows: u64) -> Result<()> {
        const AT_ONCE: u64 = 1 << 16;
        (0..rows).step_by(AT_ONCE as usize).try_for_each(|first| {
            let ids: Vec<i64> = (first as i64..rows.min(first + AT_ONCE) as i64).collect();
            self.answer(&self.pull(&ids))
        })
    }

    fn rows(&self, ids: &[i64]) -> Vec<params::Rows> {
        vec![params::Rows { handle: self.handle, count: ids.len() as u64 }]
    }

    fn pull(&self, ids: &[i64]) -> Message {
        let ask = params::Exchange { row_pull: self.rows(ids), ..Default::default() };
        Message { ask, body: vec![words(ids).into()], rows: ids.len() }
    }

    fn push(&self, ids: &[i64], step: u64, dim: usize) -> Message {
        let ask = params::Exchange { step, parts: 1, row_push: self.rows(ids), ..Default::default() };
        let mut body = words(ids);
        phalanx_base::write_f32s(&vec![0.01; dim * ids.len()], &mut body);
        Message { ask, body: vec![body.into()], rows: ids.len() }
    }

    fn answer(&self, message: &Message) -> Result<()> {
        let answer = self.store.exchange(self.from, &message.ask, &message.body, Crew::Alone, |len| vec![0; len])?;
        drop(std::hint::black_box(answer));
        Ok(())
    }

    fn nanoseconds_a_row(&self, messages: &[Message]) -> Result<f64> {
        let since = Instant::now();
        messages.iter().try_for_each(|message| self.answer(message))?;
        let rows: usize = messages.iter().map(|message| message.rows).sum();
        Ok(1e9 * since.elapsed().as_secs_f64() / rows as f64)
    }
}

/// What a worker sends.
struct Message {
    ask: params::Exchange,
    body: Vec<Bytes>,
    rows: usize,
}

fn words(ids: &[i64]) -> Vec<u8> {
    ids.iter().flat_map(|id| id.to_le_bytes()).collect()
}

/// Nanoseconds to copy a row from a random place of a plain array of as many rows, at most 4 GiB: what the memory allows.
fn array(rows: u64, width: usize) -> f64 {
    let rows = (rows as usize).min((1 << 30) / width);
    let table = vec![1.0_f32; rows * width];
    let mut random = SplitMix::new(2);
    let places: Vec<usize> = (0..IDS * MESSAGES).map(|_| random.below(rows)).collect();
    let mut out = vec![0.0_f32; width];
    let since = Instant::now();
    for at in &places {
        out.copy_from_slice(&table[at * width..][..width]);
        std::hint::black_box(&mut out);
    }
    1e9 * since.elapsed().as_secs_f64() / places.len() as f64
}

/// A message's ids, of a table of `rows`.
fn different_ids(random: &mut SplitMix, rows: u64) -> Vec<i64> {
    let count = IDS.min(rows as usize);
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
    fn a_server_finds_and_changes_rows() {
        let server = Server::new(2).unwrap();
        server.fill(100).unwrap();
        assert_eq!(server.store.holdings()[0].count, 100);
        server.answer(&server.push(&[5, 7], 1, 2)).unwrap();
        server.answer(&server.push(&[5, 7], 2, 2)).unwrap();
        assert_eq!(server.store.load().pushes, 2);
    }

    #[test]
    fn the_least_time_of_each_kind_counts() {
        let one = json!({ "rows": 5, "lookup_ns": 2.0, "update_ns": 7.0, "array_ns": 1.0 });
        let other = json!({ "rows": 5, "lookup_ns": 3.0, "update_ns": 6.0, "array_ns": 1.0 });
        assert_eq!(better(one, &other), json!({ "rows": 5, "lookup_ns": 2.0, "update_ns": 6.0, "array_ns": 1.0 }));
    }

    #[test]
    fn ids_of_a_message_differ() {
        let ids = different_ids(&mut SplitMix::new(1), 5000);
        assert_eq!(ids.len(), IDS);
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), IDS);
        assert_eq!(different_ids(&mut SplitMix::new(1), 3).len(), 3);
    }
}
