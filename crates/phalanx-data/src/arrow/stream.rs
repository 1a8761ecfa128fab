//! Arrow's C stream interface.
#![allow(unsafe_code)]

use super::{ArrowBatches, PLACE};
use arrow_array::RecordBatchReader;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use phalanx_base::{Code, Error, Result};
use std::ffi::c_void;
use std::ptr::NonNull;

/// Takes all record batches of a stream of Arrow's C stream interface. Their memory stays the producer's, and is released when
/// nothing reads it any more.
///
/// # Safety
/// `stream` points to a valid `ArrowArrayStream` that nobody else uses. It is released: what it points to may be freed, but not
/// used.
///
/// # Errors
/// If the producer fails, or its rows have no named columns.
pub unsafe fn arrow_stream(stream: NonNull<c_void>) -> Result<ArrowBatches> {
    let wrong = |error: &dyn std::fmt::Display| {
        Error::new(Code::DataFormat, format!("{PLACE} cannot be read"))
            .because(error)
            .help("give a table: a data frame, a pyarrow.Table, or another object with rows of named columns")
    };
    // SAFETY: what the caller promises is what this asks for.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(stream.as_ptr().cast()) };
    let mut reader = RecordBatchStreamReader::try_new(stream).map_err(|error| wrong(&error))?;
    let schema = reader.schema();
    let batches = reader.by_ref().collect::<std::result::Result<Vec<_>, _>>().map_err(|error| wrong(&error))?;
    Ok(ArrowBatches::new(schema, batches))
}
