//! A TFRecord file of examples that both sides read: `x` (numbers), `ids` (where the model has a table) and `label`.

use super::batches::{id, numbers_below};
use super::{IDS, Kind, Sizes};
use burn::tensor::{Int, Tensor, TensorData};
use phalanx::data::{FeatureKind, FeatureSpec, tfrecord};
use phalanx::prelude::*;
use phalanx::{Result, default_device};
use phalanx_base::Context;
use phalanx_formats::example::ExampleWriter;
use phalanx_formats::record::RecordWriter;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// Which file is written.
#[derive(Clone, clap::Args)]
pub(crate) struct InputArgs {
    #[arg(long, value_enum)]
    model: Kind,
    #[arg(long, default_value_t = 100_000)]
    examples: usize,
    /// Where it is written
    path: PathBuf,
}

impl InputArgs {
    pub(crate) fn write(&self) -> Result<()> {
        InputFile::write(&self.path, &Sizes::new(self.model), self.examples)
    }
}

pub(crate) struct InputFile;

impl InputFile {
    /// Writes `examples` of them.
    pub(crate) fn write(path: &Path, sizes: &Sizes, examples: usize) -> Result<()> {
        let file = File::create(path).context(Code::StorageWrite, "the examples to be read cannot be written")?;
        let mut writer = RecordWriter::new(BufWriter::new(file));
        let (mut example, mut below) = (ExampleWriter::new(), numbers_below(7));
        let mut numbers = vec![0.0; sizes.numbers()];
        for _ in 0..examples {
            numbers.iter_mut().for_each(|x| *x = below(2_000_001) as f32 / 1e6 - 1.0);
            example.clear();
            example.f32s("x", &numbers).i64s("label", &[below(sizes.classes())]);
            if let Some((rows, _)) = sizes.table {
                let ids: Vec<i64> = (0..IDS).map(|at| id(at, rows, &mut below)).collect();
                example.i64s("ids", &ids);
            }
            writer.write_record(&example.encode())?;
        }
        writer.finish().map(drop)
    }

    /// Batches of `size` examples, the file over and over.
    pub(super) fn dataset(path: &Path, sizes: &Sizes, size: usize) -> Dataset {
        let mut features = vec![
            FeatureSpec::fixed("x", FeatureKind::F32, sizes.numbers()),
            FeatureSpec::fixed("label", FeatureKind::I64, 1),
        ];
        if sizes.table.is_some() {
            features.push(FeatureSpec::fixed("ids", FeatureKind::I64, IDS));
        }
        tfrecord(path).parse(features).repeat().batch_with(size, true).prefetch(4)
    }

    /// The numbers, labels and ids of a batch.
    pub(super) fn tensors(batch: &Batch) -> Result<(Tensor<2>, Tensor<1, Int>, &[i64])> {
        let (device, rows, numbers) = (default_device(), batch.rows(), batch.f32("x")?);
        let width = numbers.len() / rows.max(1);
        let numbers = Tensor::from_data(TensorData::new(numbers.to_vec(), [rows, width]), &device);
        let labels: Vec<i32> = batch.i64("label")?.iter().map(|&label| label as i32).collect();
        let labels = Tensor::from_data(TensorData::new(labels, [rows]), &device);
        let ids = if batch.schema().find("ids").is_some() { batch.i64("ids")? } else { &[] };
        Ok((numbers, labels, ids))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_over_and_over() {
        let folder = tempfile::tempdir().unwrap();
        let (path, sizes) = (folder.path().join("a.tfrecord"), Sizes::new(Kind::WideDeep));
        InputFile::write(&path, &sizes, 5).unwrap();
        let batches: Vec<_> =
            InputFile::dataset(&path, &sizes, 4).iter().unwrap().take(5).map(Result::unwrap).collect();
        let (numbers, labels, ids) = InputFile::tensors(&batches[4]).unwrap();
        assert_eq!((numbers.dims(), labels.dims(), ids.len()), ([4, 13], [4], 104));
        assert!(ids.iter().enumerate().all(|(at, &id)| id / 10_000 == (at % IDS) as i64));
        // Twenty rows are the five of the file four times.
        assert_eq!(batches[0].f32("x").unwrap()[..13], batches[1].f32("x").unwrap()[13..26]);
    }
}
