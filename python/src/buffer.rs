//! Numbers that Python reads and writes in place, through the buffer protocol.

use phalanx_nn::HostBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// Numbers made by Phalanx. `numpy.frombuffer` and `torch.frombuffer` use their memory without a copy.
#[pyclass(frozen, module = "phalanx._phalanx")]
pub(crate) struct Buffer {
    /// Where the numbers are. Python may write them, so nothing here reads them after it got this.
    start: AtomicPtr<c_void>,
    shape: [ffi::Py_ssize_t; 1],
    strides: [ffi::Py_ssize_t; 1],
    format: &'static CStr,
    /// Holds the memory.
    _numbers: Numbers,
}

enum Numbers {
    Host { _held: HostBuffer },
    F32 { _held: Vec<f32> },
    I64 { _held: Vec<i64> },
}

impl From<Vec<f32>> for Buffer {
    fn from(mut numbers: Vec<f32>) -> Self {
        let (start, length) = (numbers.as_mut_ptr().cast(), numbers.len());
        Self::new(start, length, size_of::<f32>(), c"f", Numbers::F32 { _held: numbers })
    }
}

impl From<HostBuffer> for Buffer {
    fn from(mut numbers: HostBuffer) -> Self {
        // Numbers that something else holds, too, are copied here.
        let (start, length) = (numbers.as_mut_ptr().cast(), numbers.len());
        Self::new(start, length, size_of::<f32>(), c"f", Numbers::Host { _held: numbers })
    }
}

impl From<Vec<i64>> for Buffer {
    fn from(mut numbers: Vec<i64>) -> Self {
        let (start, length) = (numbers.as_mut_ptr().cast(), numbers.len());
        Self::new(start, length, size_of::<i64>(), c"q", Numbers::I64 { _held: numbers })
    }
}

impl Buffer {
    fn new(start: *mut c_void, length: usize, size: usize, format: &'static CStr, numbers: Numbers) -> Self {
        let shape = [length.cast_signed()];
        Self { start: AtomicPtr::new(start), shape, strides: [size.cast_signed()], format, _numbers: numbers }
    }
}

#[pymethods]
impl Buffer {
    fn __len__(&self) -> usize {
        self.shape[0].cast_unsigned()
    }

    /// The buffer protocol: one axis of 32-bit floats or 64-bit integers, contiguous and writable.
    #[allow(unsafe_code)]
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("a buffer needs a view"));
        }
        let own = slf.get();
        let wants = |flag: c_int| flags & flag == flag;
        // SAFETY: the view is not null, and Python passes one that may be written. What it points to lives as long as this
        // object, which is frozen, so nothing moves, and which the view holds a reference to.
        unsafe {
            (*view).buf = own.start.load(Ordering::Relaxed);
            (*view).len = own.shape[0] * own.strides[0];
            (*view).itemsize = own.strides[0];
            (*view).readonly = 0;
            (*view).ndim = 1;
            (*view).format =
                if wants(ffi::PyBUF_FORMAT) { own.format.as_ptr().cast_mut() } else { std::ptr::null_mut() };
            (*view).shape = if wants(ffi::PyBUF_ND) { own.shape.as_ptr().cast_mut() } else { std::ptr::null_mut() };
            (*view).strides =
                if wants(ffi::PyBUF_STRIDES) { own.strides.as_ptr().cast_mut() } else { std::ptr::null_mut() };
            (*view).suboffsets = std::ptr::null_mut();
            (*view).internal = std::ptr::null_mut();
            (*view).obj = slf.clone().into_any().into_ptr();
        }
        Ok(())
    }
}

/// Adds the class to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Buffer>()
}
