//! Iteration over numeric columns of any type.

use phalanx_base::{Code, Error, Result};
use phalanx_data::{Column, DType, ValuesView};

/// Calls `f` with every value as an integer; floats are truncated, as by `tf.cast`.
#[inline]
pub(crate) fn each_i64(column: &Column, f: impl FnMut(i64)) -> Result<()> {
    match column.values() {
        ValuesView::I64(values) => values.iter().copied().for_each(f),
        ValuesView::U8(values) => values.iter().map(|&value| i64::from(value)).for_each(f),
        ValuesView::F32(values) => values.iter().map(|&value| value as i64).for_each(f),
        ValuesView::Bytes(_) => return Err(not_numbers(column)),
    }
    Ok(())
}

/// Calls `f` with every value as a float.
#[inline]
pub(crate) fn each_f32(column: &Column, f: impl FnMut(f32)) -> Result<()> {
    match column.values() {
        ValuesView::F32(values) => values.iter().copied().for_each(f),
        ValuesView::I64(values) => values.iter().map(|&value| value as f32).for_each(f),
        ValuesView::U8(values) => values.iter().map(|&value| f32::from(value)).for_each(f),
        ValuesView::Bytes(_) => return Err(not_numbers(column)),
    }
    Ok(())
}

fn not_numbers(column: &Column) -> Error {
    Error::new(Code::DataColumn, format!("a column holds {}, not numbers", column.dtype())).help(format!(
        "give the column the type {} or {} where the input is read, or look its texts up",
        DType::F32,
        DType::I64
    ))
}
