//! Rows as bytes, as a shuffle keeps them.
//!
//! Picking a random row out of a buffer larger than the CPU's caches costs a cache miss per column if columns are stored
//! apart, and few if the row is contiguous. With 40 columns that is most of the time of a shuffle.
//!
//! Hot: no allocation per row, one pass over the columns per row.

use super::Batch;
use crate::{Column, DType, Strings, Values, ValuesView};

/// Every row ends with this many padding bytes, so that short strings can be copied as one block of fixed size.
const SLACK: usize = Strings::SHORT;

/// Encodes rows of a batch as bytes.
pub(crate) struct RowWriter<'a>(Vec<From<'a>>);

impl<'a> RowWriter<'a> {
    pub(crate) fn new(batch: &'a Batch) -> Self {
        Self(batch.columns.iter().map(From::new).collect())
    }

    /// Replaces the content of `out` with one row.
    #[inline]
    pub(crate) fn write(&self, row: usize, out: &mut Vec<u8>) {
        out.clear();
        self.0.iter().for_each(|column| column.put(row, out));
        out.extend_from_slice(&[0; SLACK]);
    }
}

/// Decodes rows into a batch.
pub(crate) struct RowReader {
    columns: Vec<To>,
    rows: usize,
}

impl RowReader {
    /// Creates a reader for about `rows` rows of batches with the layout of `like`.
    pub(crate) fn new(like: &Batch, rows: usize) -> Self {
        Self { columns: like.columns.iter().map(|column| To::new(column, rows)).collect(), rows: 0 }
    }

    /// Appends a row.
    #[inline]
    pub(crate) fn read(&mut self, mut row: &[u8]) {
        for column in &mut self.columns {
            row = column.take(row);
        }
        self.rows += 1;
    }

    /// The rows read, as a batch of the layout of `like`.
    pub(crate) fn finish(self, like: &Batch) -> Batch {
        let columns = self.columns.into_iter().zip(&like.columns);
        let columns = columns.map(|(column, like)| column.finish(like, self.rows)).collect();
        Batch::from_raw(like.schema.clone(), columns, self.rows)
    }
}

/// A column that rows are read from.
struct From<'a> {
    values: ValuesView<'a>,
    splits: Option<&'a [usize]>,
    width: usize,
}

impl<'a> From<'a> {
    fn new(column: &'a Column) -> Self {
        Self { values: column.values(), splits: column.splits(), width: column.width() }
    }

    #[inline]
    fn put(&self, row: usize, out: &mut Vec<u8>) {
        let (start, end) = match self.splits {
            None => (row * self.width, (row + 1) * self.width),
            Some(splits) => {
                let items = splits[row + 1] - splits[row];
                put_length(items, out);
                ((splits[row] - splits[0]) * self.width, (splits[row + 1] - splits[0]) * self.width)
            }
        };
        match self.values {
            ValuesView::F32(values) => values[start..end].iter().for_each(|v| out.extend_from_slice(&v.to_le_bytes())),
            ValuesView::I64(values) => values[start..end].iter().for_each(|v| out.extend_from_slice(&v.to_le_bytes())),
            ValuesView::U8(values) => out.extend_from_slice(&values[start..end]),
            ValuesView::Bytes(values) => (start..end).for_each(|index| put_string(values.from(index), out)),
        }
    }
}

/// A column that rows are appended to.
struct To {
    values: Values,
    splits: Option<Vec<usize>>,
    width: usize,
}

impl To {
    fn new(like: &Column, rows: usize) -> Self {
        let width = like.width();
        let splits = like.is_ragged().then(|| vec![0]);
        let values = match like.dtype() {
            // Strings of a few bytes are the rule; longer ones make the buffer grow.
            DType::Bytes => Values::Bytes(Strings::with_capacity(rows * width, rows * width * 8)),
            dtype => Values::with_capacity(dtype, rows * width),
        };
        Self { values, splits, width }
    }

    /// Takes this column's part of a row; returns the rest of the row.
    #[inline]
    fn take<'a>(&mut self, row: &'a [u8]) -> &'a [u8] {
        let (count, row) = match &mut self.splits {
            None => (self.width, row),
            Some(splits) => {
                let (items, row) = length(row);
                splits.push(splits[splits.len() - 1] + items);
                (items * self.width, row)
            }
        };
        match &mut self.values {
            Values::F32(values) => {
                let (part, rest) = row.split_at(count * 4);
                values.extend(part.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)));
                rest
            }
            Values::I64(values) => {
                let (part, rest) = row.split_at(count * 8);
                values.extend(part.as_chunks().0.iter().map(|&bytes| i64::from_le_bytes(bytes)));
                rest
            }
            Values::U8(values) => {
                let (part, rest) = row.split_at(count);
                values.extend_from_slice(part);
                rest
            }
            Values::Bytes(values) => (0..count).fold(row, |row, _| {
                let (bytes, row) = length(row);
                values.push_short(row, bytes);
                &row[bytes..]
            }),
        }
    }

    fn finish(self, like: &Column, rows: usize) -> Column {
        Column::from_raw(self.values, self.splits, like.shape_arc(), rows)
    }
}

#[inline]
fn put_string((from, bytes): (&[u8], usize), out: &mut Vec<u8>) {
    put_length(bytes, out);
    Strings::copy_short(out, from, bytes);
}

/// One byte for the lengths that are common, so that rows take few cache lines.
#[inline]
fn put_length(length: usize, out: &mut Vec<u8>) {
    if length < 255 {
        out.push(length as u8);
    } else {
        out.push(255);
        out.extend_from_slice(&(length as u64).to_le_bytes());
    }
}

#[inline]
fn length(row: &[u8]) -> (usize, &[u8]) {
    match row.split_first() {
        Some((255, rest)) => match rest.split_first_chunk() {
            Some((bytes, rest)) => (u64::from_le_bytes(*bytes) as usize, rest),
            // Rows are made only here, so they are complete.
            None => (0, rest),
        },
        Some((&length, rest)) => (usize::from(length), rest),
        None => (0, row),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_every_kind_of_column_come_back() {
        let long = "x".repeat(300);
        let batch = Batch::new([
            ("long", Column::text([long.as_str(), "y", &long[..255]])),
            ("ids", Column::i64(vec![1, 2, 3, 4, 5, 6]).with_splits(vec![0, 2, 2, 6]).unwrap()),
            ("dense", Column::f32(vec![0.0, 0.5, 1.0, 1.5, 2.0, 2.5]).with_row_shape([2]).unwrap()),
            ("text", Column::text(["a", "", "a string longer than the short ones are"])),
            ("words", Column::text(["x", "yy", "z", ""]).with_splits(vec![0, 1, 3, 4]).unwrap()),
            ("pixels", Column::u8(vec![1, 2, 3, 4, 5, 6]).with_row_shape([2]).unwrap()),
        ])
        .unwrap();
        for part in [batch.clone(), batch.slice(1..3), batch.slice(0..0)] {
            let (writer, mut reader) = (RowWriter::new(&part), RowReader::new(&batch, 3));
            let mut bytes = vec![1, 2, 3];
            for row in 0..part.rows() {
                writer.write(row, &mut bytes);
                reader.read(&bytes);
            }
            assert_eq!(reader.finish(&batch.empty_like()), part);
        }
    }
}
