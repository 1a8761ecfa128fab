//! Batches to train on: made before the clock starts, or read from a file while it runs.

use super::{IDS, InputFile, Net, Sizes};
use burn::tensor::{Distribution, Int, Tensor, TensorData};
use phalanx::data::{Batch, DatasetIter};
use phalanx::prelude::*;
use phalanx::{Precision, Result, TableId, default_device};
use phalanx_base::SplitMix;
use std::path::Path;
use std::rc::Rc;

struct Made {
    numbers: Tensor<2>,
    labels: Tensor<1, Int>,
    ids: Vec<i64>,
}

enum Source {
    /// Over and over.
    Memory {
        list: Vec<Rc<Made>>,
        next: usize,
    },
    File(DatasetIter),
}

impl Source {
    fn next(&mut self) -> Result<Option<Rc<Made>>> {
        match self {
            Self::Memory { list, next } => {
                let made = Rc::clone(&list[*next]);
                *next = (*next + 1) % list.len();
                Ok(Some(made))
            }
            Self::File(batches) => batches.next().transpose()?.map(|batch| read(&batch).map(Rc::new)).transpose(),
        }
    }
}

fn read(batch: &Batch) -> Result<Made> {
    let (numbers, labels, ids) = InputFile::tensors(batch)?;
    Ok(Made { numbers, labels, ids: ids.to_vec() })
}

pub(crate) struct Batches {
    source: Source,
    /// The batch after the one that is computed.
    ahead: Option<Rc<Made>>,
    deep: bool,
    wide: bool,
    precision: Precision,
}

impl Batches {
    /// `count` batches of `size` examples, over and over.
    pub(crate) fn make(sizes: &Sizes, size: usize, count: usize, seed: u64) -> Self {
        let list = made(sizes, size, count, seed).into_iter().map(Rc::new).collect();
        Self::of(Source::Memory { list, next: 0 }, sizes)
    }

    /// Batches of `size` examples of a file, over and over.
    pub(crate) fn read(sizes: &Sizes, size: usize, path: &Path) -> Result<Self> {
        Ok(Self::of(Source::File(InputFile::dataset(path, sizes, size).iter()?), sizes))
    }

    fn of(source: Source, sizes: &Sizes) -> Self {
        Self { source, ahead: None, deep: sizes.table.is_some(), wide: sizes.wide, precision: Precision::F32 }
    }

    /// Rounds the factors of hidden layers.
    pub(crate) fn precision(self, precision: Precision) -> Self {
        Self { precision, ..self }
    }

    /// One step on the next batch.
    pub(crate) fn step(&mut self, session: &mut Session<Net>) -> Result<Option<Step>> {
        let made = match self.ahead.take() {
            Some(made) => Some(made),
            None => self.source.next()?,
        };
        let Some(made) = made else { return Ok(None) };
        self.ahead = self.source.next()?;
        let tables = self.tables(session)?;
        let of = |ids| tables.iter().map(move |&table| (table, ids)).collect::<Vec<(TableId, &[i64])>>();
        if let Some(next) = &self.ahead {
            session.announce(&of(&next.ids[..]))?;
        }
        let (numbers, labels, precision) = (made.numbers.clone(), made.labels.clone(), self.precision);
        session.step_with_rows(&of(&made.ids[..]), |net, rows| {
            net.loss(numbers, labels, rows.first(), rows.get(1), precision)
        })
    }

    /// Those of the two tables that the model has.
    fn tables(&self, session: &Session<Net>) -> Result<Vec<TableId>> {
        let names = [self.deep.then_some("table"), self.wide.then_some("wide")];
        names.into_iter().flatten().map(|name| session.table(name)).collect()
    }
}

fn made(sizes: &Sizes, size: usize, count: usize, seed: u64) -> Vec<Made> {
    let device = default_device();
    device.seed(seed);
    let mut below = numbers_below(seed);
    let (classes, width) = (sizes.classes(), sizes.numbers());
    let mut batch = || {
        let labels: Vec<i32> = (0..size).map(|_| below(classes) as i32).collect();
        Made {
            numbers: Tensor::random([size, width], Distribution::Normal(0.0, 1.0), &device),
            labels: Tensor::from_data(TensorData::new(labels, [size]), &device),
            ids: sizes
                .table
                .map_or(Vec::new(), |(rows, _)| (0..size * IDS).map(|at| id(at, rows, &mut below)).collect()),
        }
    };
    (0..count).map(|_| batch()).collect()
}

/// The id in place `at` of a batch: every column has its own share of the table where that divides, as columns hashed apart
/// have.
pub(super) fn id(at: usize, rows: usize, below: &mut impl FnMut(usize) -> i64) -> i64 {
    let each = rows / IDS;
    if rows.is_multiple_of(IDS) { (at % IDS * each) as i64 + below(each) } else { below(rows) }
}

/// Numbers at random, each below what is asked for.
pub(crate) fn numbers_below(seed: u64) -> impl FnMut(usize) -> i64 {
    let mut random = SplitMix::new(seed);
    move |n| random.below(n) as i64
}
