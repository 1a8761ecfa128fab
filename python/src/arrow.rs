//! Arrow's PyCapsule interface: data frames of Polars, pandas, pyarrow, DuckDB.
#![allow(unsafe_code)]

use phalanx::data::{ArrowBatches, arrow_stream};
use phalanx_base::Result;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::ffi::c_void;
use std::ptr::NonNull;

/// A stream of record batches, held by its capsule.
pub(crate) struct Stream {
    capsule: Py<PyCapsule>,
    at: NonNull<c_void>,
}

// SAFETY: the C stream interface lets any one thread at a time use a stream, and this is its only holder.
unsafe impl Send for Stream {}

/// Returns the stream of a capsule that `__arrow_c_stream__` returned.
pub(crate) fn import(capsule: &Bound<'_, PyAny>) -> PyResult<Stream> {
    let capsule = capsule.cast::<PyCapsule>()?;
    let at = capsule.pointer_checked(Some(c"arrow_array_stream"))?;
    Ok(Stream { capsule: capsule.clone().unbind(), at })
}

impl Stream {
    /// Takes all record batches.
    pub(crate) fn batches(self) -> Result<ArrowBatches> {
        // SAFETY: a capsule of this name holds a valid stream, and lives until this returns. If it was used before, the stream
        // says so.
        let batches = unsafe { arrow_stream(self.at) };
        drop(self.capsule);
        batches
    }
}
