//! The files that both sides read.

use crate::BATCH;
use arrow_array::{ArrayRef, Float32Array, Int64Array, RecordBatch};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use phalanx_base::{Code, Context, Result};
use phalanx_data::{Batch, DType, SourceExt, synthetic_clicks};
use phalanx_formats::example::ExampleWriter;
use phalanx_formats::record::RecordWriter;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const UNWRITTEN: &str = "a file to measure cannot be written";

/// The census several times over, in one file without a header.
pub(crate) fn census(data: &Path, copies: usize, dir: &Path) -> Result<PathBuf> {
    let from = data.join("census/adult.data");
    let mut text = std::fs::read(&from)
        .context(Code::DataMissing, "the census cannot be read")
        .map_err(|error| error.at(from.display().to_string()))?;
    if !text.ends_with(b"\n") {
        text.push(b'\n');
    }
    let path = dir.join("census.csv");
    let mut file = File::create(&path).context(Code::StorageWrite, UNWRITTEN)?;
    for _ in 0..copies {
        file.write_all(&text).context(Code::StorageWrite, UNWRITTEN)?;
    }
    Ok(path)
}

/// Examples of a click log.
pub(crate) fn records(rows: u64, dir: &Path) -> Result<PathBuf> {
    let path = dir.join("clicks.tfrecord");
    let file = File::create(&path).context(Code::StorageWrite, UNWRITTEN)?;
    let mut writer = RecordWriter::new(BufWriter::new(file));
    let mut example = ExampleWriter::new();
    for batch in synthetic_clicks(1, rows).batch(BATCH).iter()? {
        let batch = batch?;
        for row in 0..batch.rows() {
            example.clear();
            for (name, column) in batch.iter() {
                match column.dtype() {
                    DType::F32 => example.f32s(&**name, &column.as_f32()?[row..=row]),
                    _ => example.i64s(&**name, &column.as_i64()?[row..=row]),
                };
            }
            writer.write_record(&example.encode())?;
        }
    }
    writer.finish()?;
    Ok(path)
}

/// The same columns as Parquet, with the settings that pyarrow has by default: snappy and dictionaries.
pub(crate) fn parquet(rows: u64, dir: &Path) -> Result<PathBuf> {
    let path = dir.join("clicks.parquet");
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut writer = None;
    for batch in synthetic_clicks(1, rows).batch(64 * BATCH).iter()? {
        let batch = record_batch(&batch?)?;
        let writer = match &mut writer {
            Some(writer) => writer,
            None => {
                let file = File::create(&path).context(Code::StorageWrite, UNWRITTEN)?;
                let made = ArrowWriter::try_new(file, batch.schema(), Some(properties.clone()));
                writer.insert(made.context(Code::StorageWrite, UNWRITTEN)?)
            }
        };
        writer.write(&batch).context(Code::StorageWrite, UNWRITTEN)?;
    }
    if let Some(writer) = writer {
        writer.close().context(Code::StorageWrite, UNWRITTEN)?;
    }
    Ok(path)
}

fn record_batch(batch: &Batch) -> Result<RecordBatch> {
    let mut columns: Vec<(&str, ArrayRef)> = Vec::new();
    for (name, column) in batch.iter() {
        let array: ArrayRef = match column.dtype() {
            DType::F32 => Arc::new(Float32Array::from(column.as_f32()?.to_vec())),
            _ => Arc::new(Int64Array::from(column.as_i64()?.to_vec())),
        };
        columns.push((name, array));
    }
    RecordBatch::try_from_iter(columns).context(Code::Internal, "a batch does not become an arrow batch")
}
