//! Writes batches as a Parquet file.

use crate::{Batch, Column, ValuesView};
use arrow_array::builder::{Float32Builder, Int64Builder, ListBuilder, StringBuilder};
use arrow_array::{Array, ArrayRef, Float32Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use phalanx_base::{Code, Context, Error, Result};
use std::io::Write;
use std::sync::Arc;

/// A Parquet file that is being written: float32, int64 and UTF-8 columns, and lists of these for columns with several
/// values per row. The first batch determines the columns.
///
/// ```
/// use phalanx_data::{Batch, Column, ParquetWriter};
/// let mut writer = ParquetWriter::new(Vec::new());
/// writer.write(&Batch::new([("id", Column::text(["a", "b"])), ("score", Column::f32(vec![0.5, 0.25]))])?)?;
/// assert!(writer.finish()?.starts_with(b"PAR1"));
/// # Ok::<(), phalanx_base::Error>(())
/// ```
pub struct ParquetWriter<W: Write + Send> {
    state: State<W>,
}

enum State<W: Write + Send> {
    /// Before the first batch.
    New(W),
    Open(Box<ArrowWriter<W>>, SchemaRef),
    /// After an error: the file is not complete.
    Failed,
}

const WHAT: &str = "the Parquet file cannot be written";

impl<W: Write + Send> ParquetWriter<W> {
    /// Creates a writer to `out`.
    pub fn new(out: W) -> Self {
        Self { state: State::New(out) }
    }

    /// Appends the rows of a batch.
    ///
    /// # Errors
    /// Fails if the columns differ from those of the first batch, a text is not UTF-8, or writing fails.
    pub fn write(&mut self, batch: &Batch) -> Result<()> {
        let arrays = batch.iter().map(|(name, column)| Ok((name, array(name, column)?))).collect::<Result<Vec<_>>>()?;
        let (mut writer, schema) = match std::mem::replace(&mut self.state, State::Failed) {
            State::New(out) => {
                let field = |(name, array): &(_, ArrayRef)| Field::new(*name as &str, array.data_type().clone(), false);
                let schema = Arc::new(Schema::new(arrays.iter().map(field).collect::<Vec<_>>()));
                let writer = ArrowWriter::try_new(out, Arc::clone(&schema), None).context(Code::StorageWrite, WHAT)?;
                (Box::new(writer), schema)
            }
            State::Open(writer, schema) => (writer, schema),
            State::Failed => return Err(Error::new(Code::StorageWrite, WHAT).because("an earlier write failed")),
        };
        let arrays = arrays.into_iter().map(|(_, array)| array).collect();
        let rows = RecordBatch::try_new(Arc::clone(&schema), arrays).context(Code::ShapeMismatch, WHAT)?;
        writer.write(&rows).context(Code::StorageWrite, WHAT)?;
        self.state = State::Open(writer, schema);
        Ok(())
    }

    /// Completes the file and returns what it was written to. Without this call the file has no end and cannot be read.
    ///
    /// # Errors
    /// Fails if writing fails.
    pub fn finish(self) -> Result<W> {
        match self.state {
            State::New(out) => {
                let writer = ArrowWriter::try_new(out, Arc::new(Schema::empty()), None);
                writer.and_then(ArrowWriter::into_inner).context(Code::StorageWrite, WHAT)
            }
            State::Open(writer, _) => (*writer).into_inner().context(Code::StorageWrite, WHAT),
            State::Failed => Err(Error::new(Code::StorageWrite, WHAT).because("an earlier write failed")),
        }
    }
}

fn text<'a>(name: &str, bytes: &'a [u8]) -> Result<&'a str> {
    std::str::from_utf8(bytes).map_err(|error| {
        Error::new(Code::DataRow, format!("the value {:?} is not UTF-8", String::from_utf8_lossy(bytes)))
            .at(format!("column {name:?}"))
            .because(error)
            .help("write CSV instead, which keeps the bytes as they are")
    })
}

fn array(name: &str, column: &Column) -> Result<ArrayRef> {
    if !column.is_ragged() && column.width() == 1 {
        return Ok(match column.values() {
            ValuesView::F32(values) => Arc::new(Float32Array::from(values.to_vec())),
            ValuesView::I64(values) => Arc::new(Int64Array::from(values.to_vec())),
            ValuesView::U8(values) => Arc::new(Int64Array::from_iter_values(values.iter().map(|&x| i64::from(x)))),
            ValuesView::Bytes(values) => {
                let texts = values.iter().map(|value| text(name, value)).collect::<Result<Vec<_>>>()?;
                Arc::new(StringArray::from(texts))
            }
        });
    }
    // One list per row.
    macro_rules! lists {
        ($builder:ident, |$values:ident, $list:ident| $append:expr) => {{
            let mut $list = ListBuilder::new($builder::new());
            for row in 0..column.rows() {
                let $values = column.row(row);
                $append;
                $list.append(true);
            }
            Arc::new($list.finish()) as ArrayRef
        }};
    }
    Ok(match column.values() {
        ValuesView::F32(_) => lists!(Float32Builder, |values, list| if let ValuesView::F32(values) = values {
            list.values().append_slice(values);
        }),
        ValuesView::I64(_) | ValuesView::U8(_) => lists!(Int64Builder, |values, list| match values {
            ValuesView::I64(values) => list.values().append_slice(values),
            ValuesView::U8(values) => values.iter().for_each(|&value| list.values().append_value(i64::from(value))),
            ValuesView::F32(_) | ValuesView::Bytes(_) => {}
        }),
        ValuesView::Bytes(_) => lists!(StringBuilder, |values, list| if let ValuesView::Bytes(values) = values {
            for value in values.iter() {
                list.values().append_value(text(name, value)?);
            }
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dataset, parquet};

    #[test]
    fn a_file_reads_back_as_the_batches_that_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.parquet");
        let wide = |values: Vec<f32>| Column::f32(values).with_row_shape([2]).unwrap();
        let one = |values: Vec<i64>| Column::i64(values).with_row_shape([1]).unwrap();
        let rows = |id: [&str; 2], p: Vec<f32>, class: Vec<i64>| {
            Batch::new([("id", Column::text(id)), ("p", wide(p)), ("class", one(class))]).unwrap()
        };
        let mut writer = ParquetWriter::new(std::fs::File::create(&path).unwrap());
        writer.write(&rows(["a", "b,"], vec![0.1, 0.9, f32::NAN, 0.0], vec![1, 0])).unwrap();
        writer.write(&rows(["c", "é"], vec![0.5, 0.5, 1.0, 0.0], vec![i64::MAX, -1])).unwrap();
        drop(writer.finish().unwrap());
        let source = parquet(&path).non_finite(crate::NonFiniteValues::keep());
        let read = Dataset::from(source).batch(10).iter().unwrap().next().unwrap().unwrap();
        assert_eq!(read.bytes("id").unwrap().iter().collect::<Vec<_>>(), [&b"a"[..], b"b,", b"c", "é".as_bytes()]);
        assert_eq!(read.i64("class").unwrap(), [1, 0, i64::MAX, -1]);
        assert_eq!(read.column("p").unwrap().splits(), Some(&[0, 2, 4, 6, 8][..]));
        assert_eq!(read.f32("p").unwrap()[..2], [0.1, 0.9]);
    }

    #[test]
    fn a_text_that_is_not_utf8_and_other_columns_are_refused_and_leave_no_complete_file() {
        let mut writer = ParquetWriter::new(Vec::new());
        writer.write(&Batch::new([("id", Column::text(["a"]))]).unwrap()).unwrap();
        let mut bytes = crate::Strings::new();
        bytes.push(b"\xff");
        let error = writer.write(&Batch::new([("id", Column::bytes(bytes))]).unwrap()).unwrap_err();
        assert_eq!(error.code(), Code::DataRow, "{}", error.report());
        let error = writer.write(&Batch::new([("id", Column::i64(vec![1]))]).unwrap()).unwrap_err();
        assert_eq!(error.code(), Code::ShapeMismatch, "{}", error.report());
        assert_eq!(writer.finish().unwrap_err().code(), Code::StorageWrite);
    }
}
