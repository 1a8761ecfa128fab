//! A small language of pipelines, for random tests and for fixtures made by TensorFlow.

use phalanx_base::{Error, Result};
use phalanx_data::{
    Batch, Column, Dataset, InputContext, Interleave, Padding, Parallel, PartPosition, Reader, Source, ValuesView,
};
use std::sync::Arc;

/// A source without files: part `p` has `lens[p]` rows with the values `1000 p + row`.
pub(crate) struct Parts {
    pub(crate) lens: Vec<usize>,
    /// How many rows a read returns at most, as for a reader of large rows.
    pub(crate) at_most: usize,
    /// Reading this value fails.
    pub(crate) bad: Option<i64>,
}

impl Parts {
    pub(crate) fn source(lens: impl Into<Vec<usize>>) -> Arc<dyn Source> {
        Arc::new(Self { lens: lens.into(), at_most: 3, bad: None })
    }
}

struct PartReader {
    part: usize,
    row: usize,
    len: usize,
    at_most: usize,
    bad: Option<i64>,
}

impl Reader for PartReader {
    fn read(&mut self, max_rows: usize) -> Result<Option<Batch>> {
        let value = |row: usize| (self.part * 1000 + row) as i64;
        let mut end = self.len.min(self.row + max_rows.min(self.at_most));
        if let Some(bad) = (self.row..end).find(|&row| Some(value(row)) == self.bad) {
            if bad == self.row {
                return Err(Error::new(phalanx_base::Code::DataRow, "bad row").at(format!("part {}", self.part)));
            }
            end = bad;
        }
        if end == self.row {
            return Ok(None);
        }
        let batch = Batch::new([("value", Column::i64((self.row..end).map(value).collect()))])?;
        self.row = end;
        Ok(Some(batch))
    }

    fn position(&self) -> PartPosition {
        PartPosition { row: self.row as u64, ..PartPosition::START }
    }
}

impl Source for Parts {
    fn parts(&self) -> Result<usize> {
        Ok(self.lens.len())
    }

    fn open(&self, part: usize, from: PartPosition) -> Result<Box<dyn Reader>> {
        let (len, row) = (self.lens[part], from.row as usize);
        Ok(Box::new(PartReader { part, row, len, at_most: self.at_most, bad: self.bad }))
    }

    fn kind(&self) -> &str {
        "parts"
    }

    fn part_name(&self, part: usize) -> String {
        format!("part {part}")
    }
}

/// One stage.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Map,
    MapParallel(usize, Option<bool>),
    MapBatches(usize),
    Filter(i64),
    FilterRows(i64),
    Shuffle(usize, Option<u64>, bool),
    Repeat(u64),
    Batch(usize, bool),
    PaddedBatch(usize, Option<usize>, Option<i64>, bool),
    Unbatch,
    Rebatch(Vec<usize>),
    Take(u64),
    Skip(u64),
    Shard(usize, usize),
    Cache,
    Prefetch(usize),
    Enumerate(i64),
    Fill,
    FlatMap(Vec<usize>),
    Interleave(Vec<usize>, usize, usize, usize),
    Concatenate(i64, i64),
    Zip(i64, i64),
}

pub(crate) fn value_of(row: &Batch) -> i64 {
    row.i64("value").unwrap()[0]
}

/// Replaces the values by what a function makes of each.
fn each(batch: Batch, f: impl Fn(i64) -> i64) -> Result<Batch> {
    let old = batch.column("value")?.clone();
    let mut column = Column::i64(batch.i64("value")?.iter().map(|&value| f(value)).collect());
    if !old.row_shape().is_empty() {
        column = column.with_row_shape(old.row_shape().to_vec())?;
    }
    batch.with_column("value", column)
}

fn inner(lens: &[usize], row: &Batch) -> Result<Dataset> {
    let index = value_of(row).rem_euclid(lens.len() as i64);
    let base = value_of(row) * 100;
    Ok(Dataset::range(base, base + lens[index as usize] as i64, 1))
}

pub(crate) fn apply(data: Dataset, op: &Op) -> Dataset {
    match op.clone() {
        Op::Map => data.map(|row| each(row, |value| value + 1)),
        Op::MapParallel(calls, deterministic) => {
            data.map_parallel(Parallel { calls, deterministic }, |row| each(row, |value| value * 2))
        }
        Op::MapBatches(calls) => data.map_batches(Parallel::calls(calls), |rows| each(rows, |value| value + 7)),
        Op::Filter(n) => data.filter(move |row| Ok(row.i64("value")?.first().is_some_and(|value| value % n != 0))),
        Op::FilterRows(n) => {
            data.filter_rows(move |rows| Ok(rows.i64("value")?.iter().map(|value| value % n != 0).collect()))
        }
        Op::Shuffle(buffer, seed, reshuffle) => data.shuffle_with(buffer, seed, reshuffle),
        Op::Repeat(count) => data.repeat_times(count),
        Op::Batch(size, drop_remainder) => data.batch_with(size, drop_remainder),
        Op::PaddedBatch(size, shape, value, drop_remainder) => {
            let padding = shape.map_or_else(Padding::default, |shape| Padding::to([Some(shape)]));
            let padding = value.map_or(padding.clone(), |value| padding.with_i64(value));
            data.padded_batch(size, [("value", padding)], drop_remainder)
        }
        Op::Unbatch => data.unbatch(),
        Op::Rebatch(sizes) => data.rebatch(sizes),
        Op::Take(count) => data.take(count),
        Op::Skip(count) => data.skip(count),
        Op::Shard(of, index) => data.shard((of, index)),
        Op::Cache => data.cache(),
        Op::Prefetch(buffer) => data.prefetch(buffer),
        Op::Enumerate(start) => data.enumerate(start),
        Op::Fill => data.map(|row| {
            let value = value_of(&row);
            let filled = Column::i64(vec![value; value as usize]);
            // A row of no values is still a row.
            let column = filled.with_splits(vec![0, value as usize])?;
            row.with_column("value", column)
        }),
        Op::FlatMap(lens) => data.flat_map(move |row| inner(&lens, &row)),
        Op::Interleave(lens, cycle_length, block_length, num_parallel_calls) => data.interleave(
            move |row| inner(&lens, &row),
            Interleave { cycle_length, block_length, num_parallel_calls, batched: false },
        ),
        Op::Concatenate(start, stop) => {
            let other = Dataset::range(start, stop, 1);
            if data.is_batched() { data.concatenate(other.batch(2)) } else { data.concatenate(other) }
        }
        Op::Zip(start, stop) => {
            let other = Dataset::range(start, stop, 1).map(|row| Batch::new([("other", row.column("value")?.clone())]));
            data.zip(other)
        }
    }
}

/// All elements of a pass.
pub(crate) fn all(data: &Dataset) -> Result<Vec<Batch>> {
    data.iter()?.collect()
}

/// The values of all batches.
pub(crate) fn values(batches: &[Batch]) -> Vec<i64> {
    batches.iter().flat_map(|batch| batch.i64("value").unwrap().to_vec()).collect()
}

/// One element as nested lists: of its only column, or a list of those of each.
pub(crate) fn nested(element: &Batch, batched: bool) -> serde_json::Value {
    let mut columns: Vec<serde_json::Value> = element
        .columns()
        .iter()
        .map(|column| {
            let rows: Vec<serde_json::Value> = (0..column.rows())
                .map(|row| {
                    let ValuesView::I64(values) = column.row(row) else { panic!("integers only") };
                    let ragged = column.splits().map(|splits| splits[row + 1] - splits[row]);
                    let shape: Vec<usize> = ragged.into_iter().chain(column.row_shape().iter().copied()).collect();
                    shaped(values, &shape)
                })
                .collect();
            if batched { serde_json::Value::Array(rows) } else { rows.into_iter().next().unwrap() }
        })
        .collect();
    if columns.len() == 1 { columns.remove(0) } else { serde_json::Value::Array(columns) }
}

fn shaped(values: &[i64], shape: &[usize]) -> serde_json::Value {
    let Some((&first, rest)) = shape.split_first() else { return values[0].into() };
    let width: usize = rest.iter().product();
    (0..first).map(|index| shaped(&values[index * width..(index + 1) * width], rest)).collect()
}

/// The context of one of several workers with one replica each.
pub(crate) fn cx(worker: usize, workers: usize) -> InputContext {
    InputContext { num_input_pipelines: workers, input_pipeline_id: worker, num_replicas_in_sync: workers }
}
