//! Batches to train on: made before the clock starts, or read from a file while it runs.

use super::{IDS, InputFile, Net, Sizes};
use burn::tensor::{Distribution, Int, Tensor, TensorData};
use phalanx::data::DatasetIter;
use phalanx::prelude::*;
use phalanx::{Precision, Result, default_device};
use phalanx_base::SplitMix;
use std::path::Path;

struct Made {
    numbers: Tensor<2>,
    labels: Tensor<1, Int>,
    ids: Vec<i64>,
}

enum Source {
    /// Over and over.
    Memory {
        list: Vec<Made>,
        next: usize,
    },
    File(DatasetIter),
}

pub(crate) struct Batches {
    source: Source,
    wide: bool,
    precision: Precision,
}

impl Batches {
    /// `count` batches of `size` examples, over and over.
    pub(crate) fn make(sizes: &Sizes, size: usize, count: usize, seed: u64) -> Self {
        let source = Source::Memory { list: made(sizes, size, count, seed), next: 0 };
        Self { source, wide: sizes.wide, precision: Precision::F32 }
    }

    /// Batches of `size` examples of a file, over and over.
    pub(crate) fn read(sizes: &Sizes, size: usize, path: &Path) -> Result<Self> {
        let source = Source::File(InputFile::dataset(path, sizes, size).iter()?);
        Ok(Self { source, wide: sizes.wide, precision: Precision::F32 })
    }

    /// Rounds the factors of hidden layers.
    pub(crate) fn precision(self, precision: Precision) -> Self {
        Self { precision, ..self }
    }

    /// One step on the next batch.
    pub(crate) fn step(&mut self, session: &mut Session<Net>) -> Result<Option<Step>> {
        let how = (self.wide, self.precision);
        match &mut self.source {
            Source::Memory { list, next } => {
                let made = &list[*next];
                *next = (*next + 1) % list.len();
                step(session, made.numbers.clone(), made.labels.clone(), &made.ids, how)
            }
            Source::File(batches) => {
                let Some(batch) = batches.next().transpose()? else { return Ok(None) };
                let read = InputFile::tensors(&batch)?;
                step(session, read.0, read.1, read.2, how)
            }
        }
    }
}

fn step(
    session: &mut Session<Net>,
    numbers: Tensor<2>,
    labels: Tensor<1, Int>,
    ids: &[i64],
    (wide, precision): (bool, Precision),
) -> Result<Option<Step>> {
    if ids.is_empty() {
        return session.step(|net| net.loss(numbers, labels, None, None, precision));
    }
    let tables = [(0, ids), (1, ids)];
    let tables = &tables[..1 + usize::from(wide)];
    session.step_with_rows(tables, |net, rows| net.loss(numbers, labels, rows.first(), rows.get(1), precision))
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
