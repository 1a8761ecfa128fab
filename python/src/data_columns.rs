//! Columns as Python hands them over and takes them: flat numbers or texts, the shape of a row, the ends of ragged rows.
//!
//! `phalanx.data_columns` makes NumPy's arrays of them.

use crate::buffer::Buffer;
use crate::error::caught;
use phalanx::data::{Batch, Column, Strings, Values, ValuesView};
use phalanx_base::{Code, Error, Result};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyList};

/// A column on its way to Python: name, flat values, number of rows, shape of a row, and where ragged rows begin.
type Leaving<'py> = (String, Bound<'py, PyAny>, usize, Vec<usize>, Option<Bound<'py, Buffer>>);

/// A column on its way from Python: name, flat values, shape of a row, and where ragged rows begin.
type Arriving<'py> = (String, Bound<'py, PyAny>, Vec<usize>, Option<Bound<'py, PyAny>>);

/// Returns the columns of a batch.
pub(crate) fn columns_of<'py>(py: Python<'py>, batch: &Batch) -> PyResult<Vec<Leaving<'py>>> {
    batch.iter().map(|(name, column)| leaving(py, name, column)).collect()
}

fn leaving<'py>(py: Python<'py>, name: &str, column: &Column) -> PyResult<Leaving<'py>> {
    // Copied: other batches may share the values, and Python may write what it gets.
    let values = match column.values() {
        ValuesView::F32(values) => Bound::new(py, Buffer::from(values.to_vec()))?.into_any(),
        ValuesView::I64(values) => Bound::new(py, Buffer::from(values.to_vec()))?.into_any(),
        ValuesView::U8(values) => PyByteArray::new(py, values).into_any(),
        ValuesView::Bytes(values) => PyList::new(py, values.iter().map(|value| PyBytes::new(py, value)))?.into_any(),
    };
    let splits = column.splits().map(|splits| {
        let first = splits.first().copied().unwrap_or(0);
        let splits: Vec<i64> = splits.iter().map(|&split| (split - first) as i64).collect();
        Bound::new(py, Buffer::from(splits))
    });
    Ok((name.to_owned(), values, column.rows(), column.row_shape().to_vec(), splits.transpose()?))
}

/// Returns the batch of columns that `phalanx.data_columns` has prepared.
pub(crate) fn batch_of(columns: &Bound<'_, PyAny>, label: Option<&str>) -> PyResult<Result<Batch>> {
    let columns: Vec<Arriving<'_>> = columns.extract()?;
    let mut arrived = Vec::with_capacity(columns.len());
    for (name, values, row_shape, splits) in columns {
        let splits = splits.map(|splits| -> PyResult<Vec<i64>> { PyBuffer::<i64>::get(&splits)?.to_vec(splits.py()) });
        let column = arriving(values_of(&values)?, row_shape, splits.transpose()?);
        match column {
            Ok(column) => arrived.push((name, column)),
            Err(error) => return Ok(Err(error.at(format!("column {name:?}")))),
        }
    }
    let batch = Batch::new(arrived);
    Ok(match label {
        Some(label) => batch.and_then(|batch| batch.with_label(label)),
        None => batch,
    })
}

fn arriving(values: Values, row_shape: Vec<usize>, splits: Option<Vec<i64>>) -> Result<Column> {
    let column = Column::new(values);
    let column = if row_shape.is_empty() { column } else { column.with_row_shape(row_shape)? };
    let Some(splits) = splits else { return Ok(column) };
    let wrong = |_| Error::new(Code::ShapeMismatch, "a ragged column begins before its first value");
    column.with_splits(splits.into_iter().map(usize::try_from).collect::<std::result::Result<_, _>>().map_err(wrong)?)
}

fn values_of(values: &Bound<'_, PyAny>) -> PyResult<Values> {
    let py = values.py();
    if let Ok(texts) = values.cast::<PyList>() {
        let mut strings = Strings::with_capacity(texts.len(), 0);
        for text in texts {
            strings.push(text.cast::<PyBytes>()?.as_bytes());
        }
        return Ok(Values::Bytes(strings));
    }
    if let Ok(buffer) = PyBuffer::<f32>::get(values) {
        return Ok(Values::F32(buffer.to_vec(py)?));
    }
    if let Ok(buffer) = PyBuffer::<i64>::get(values) {
        return Ok(Values::I64(buffer.to_vec(py)?));
    }
    Ok(Values::U8(PyBuffer::<u8>::get(values)?.to_vec(py)?))
}

/// Returns an exception of the user's own function as an error, with the line that raised it.
pub(crate) fn raised_in(py: Python<'_>, function: &str, exception: &PyErr) -> Error {
    let error = caught(py, exception);
    if error.code() != Code::StepPanicked {
        return error;
    }
    let error = Error::new(Code::StepPanicked, format!("{function} raised {exception}"));
    match last_line(py, exception) {
        Some(place) => error.at(place),
        None => error,
    }
}

/// Returns file and line of the innermost frame of a traceback.
fn last_line(py: Python<'_>, exception: &PyErr) -> Option<String> {
    let mut at = exception.traceback(py)?.into_any();
    while let Ok(next) = at.getattr("tb_next")
        && !next.is_none()
    {
        at = next;
    }
    let file: String =
        at.getattr("tb_frame").ok()?.getattr("f_code").ok()?.getattr("co_filename").ok()?.extract().ok()?;
    Some(format!("{file}, line {}", at.getattr("tb_lineno").ok()?.extract::<u64>().ok()?))
}
