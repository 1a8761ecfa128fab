//! The Python module `phalanx._phalanx`: what the package `phalanx` is written on.
//!
//! | file | contents |
//! | --- | --- |
//! | `gate` | [`gate::Gate`], through which every call goes that can wait: no GIL, Ctrl-C, forks |
//! | `error` | errors as `phalanx.Error` |
//! | `buffer` | numbers that Python reads and writes without a copy |
//! | `command` | the command `phalanx` |
//! | `task`, `mini_cluster` | tasks of a job |
//! | `optimizer` | how the servers change values |
//! | `session`, `module` | a trainer's session, for a model that another library computes |

mod buffer;
mod command;
mod error;
mod gate;
mod mini_cluster;
mod module;
mod optimizer;
mod session;
mod task;

use pyo3::prelude::*;

#[pymodule(gil_used = true)]
fn _phalanx(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    buffer::register(module)?;
    command::register(module)?;
    optimizer::register(module)?;
    task::register(module)?;
    mini_cluster::register(module)?;
    session::register(module)?;
    Ok(())
}
