//! The Python module `phalanx._phalanx`: what the package `phalanx` is written on.
//!
//! | file | contents |
//! | --- | --- |
//! | `gate` | [`gate::Gate`], through which every call goes that can wait: no GIL, Ctrl-C, forks |
//! | `error` | errors as `phalanx.Error` |
//! | `buffer` | numbers that Python reads and writes without a copy |
//! | `command` | the command `phalanx` |

mod buffer;
mod error;
mod gate;

use pyo3::prelude::*;

#[pymodule(gil_used = true)]
fn _phalanx(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    buffer::register(module)?;
    Ok(())
}
