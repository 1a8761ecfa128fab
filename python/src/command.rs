//! The command `phalanx`, as a part of the module.

use phalanx_launch::ThisProgram;
use pyo3::prelude::*;
use std::ffi::OsString;

/// Runs the command `phalanx` with these arguments and returns its exit code. `this` is the command that calls this function in a
/// new process. Arguments that are wrong, and `--help`, end the process.
#[pyfunction]
fn run_command(py: Python<'_>, args: Vec<OsString>, this: Vec<OsString>) -> u8 {
    py.detach(|| phalanx_cli::run(args, &ThisProgram::command(this)).number())
}

/// Adds the function to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(run_command, module)?)
}
