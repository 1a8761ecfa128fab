//! A batch as bytes, and back: what a file cache holds.

use super::{Batch, Schema};
use crate::position::{Loader, Saver};
use crate::{Column, DType, Strings, Values, ValuesView};
use phalanx_base::{Code, Error, Result, Shape};
use std::sync::Arc;

impl Batch {
    /// Writes the rows and their schema; sizes first, little-endian values after.
    pub(crate) fn to_bytes(&self, out: &mut Saver) {
        out.u64(self.rows as u64);
        out.u64(self.columns.len() as u64);
        out.u64(self.schema.label().map_or(0, |label| label as u64 + 1));
        for (name, column) in self.iter() {
            out.bytes(name.as_bytes());
            put_column(column, out);
        }
    }

    /// Reads what [`Batch::to_bytes`] wrote.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut from = Loader::new(bytes);
        let (rows, columns, label) = (from.usize()?, from.usize()?, from.usize()?);
        let (mut names, mut read): (Vec<Arc<str>>, Vec<Column>) = (Vec::new(), Vec::new());
        for _ in 0..columns {
            names.push(std::str::from_utf8(from.bytes()?).map_err(|_| damaged())?.into());
            read.push(get_column(&mut from)?);
        }
        let mut schema = Schema::new(names)?;
        if let Some(label) = label.checked_sub(1) {
            schema = schema.with_label(&schema.names().get(label).ok_or_else(damaged)?.clone())?;
        }
        let batch = Self::with_schema(Arc::new(schema), read)?;
        let right = batch.rows == rows || columns == 0;
        if right && from.is_empty() { Ok(Self { rows, ..batch }) } else { Err(damaged()) }
    }
}

fn damaged() -> Error {
    Error::new(Code::DataFormat, "a cache file holds something that is not a batch").help("delete the cache file")
}

fn put_column(column: &Column, out: &mut Saver) {
    out.u64(match column.dtype() {
        DType::F32 => 0,
        DType::I64 => 1,
        DType::U8 => 2,
        DType::Bytes => 3,
    });
    out.u64(column.rows() as u64);
    out.u64(column.row_shape().len() as u64);
    column.row_shape().iter().for_each(|&extent| out.u64(extent as u64));
    out.flag(column.is_ragged());
    for pair in column.splits().unwrap_or(&[]).windows(2) {
        out.u64((pair[1] - pair[0]) as u64);
    }
    match column.values() {
        ValuesView::F32(values) => {
            out.u64(values.len() as u64 * 4);
            values.iter().for_each(|value| out.raw(&value.to_le_bytes()));
        }
        ValuesView::I64(values) => {
            out.u64(values.len() as u64 * 8);
            values.iter().for_each(|value| out.raw(&value.to_le_bytes()));
        }
        ValuesView::U8(values) => out.bytes(values),
        ValuesView::Bytes(values) => {
            out.u64(values.len() as u64);
            values.iter().for_each(|value| out.bytes(value));
        }
    }
}

fn get_column(from: &mut Loader<'_>) -> Result<Column> {
    let (dtype, rows, rank) = (from.u64()?, from.usize()?, from.usize()?);
    let mut shape = Vec::new();
    for _ in 0..rank {
        shape.push(from.usize()?);
    }
    let shape = Shape::new(shape)?;
    let mut splits = from.flag()?.then(|| vec![0_usize]);
    if let Some(splits) = &mut splits {
        let mut items = 0_usize;
        for _ in 0..rows {
            items = items.checked_add(from.usize()?).ok_or_else(damaged)?;
            splits.push(items);
        }
    }
    let values = match dtype {
        0 => Values::F32(from.bytes()?.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()),
        1 => Values::I64(from.bytes()?.as_chunks().0.iter().map(|&bytes| i64::from_le_bytes(bytes)).collect()),
        2 => Values::U8(from.bytes()?.to_vec()),
        3 => {
            let mut strings = Strings::new();
            for _ in 0..from.usize()? {
                strings.push(from.bytes()?);
            }
            Values::Bytes(strings)
        }
        _ => return Err(damaged()),
    };
    let items = splits.as_ref().map_or(rows, |splits| splits[rows]);
    if items.checked_mul(shape.elements()) != Some(values.len()) {
        return Err(damaged());
    }
    let row_shape = (!shape.dims().is_empty()).then(|| shape.dims().into());
    Ok(Column::from_raw(values, splits, row_shape, rows))
}
