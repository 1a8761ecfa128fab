//! The Python module `phalanx._phalanx`: what the package `phalanx` is written on.
//!
//! | file | contents |
//! | --- | --- |
//! | `gate` | [`gate::Gate`], through which every call goes that can wait: no GIL, Ctrl-C, forks |
//! | `process` | what a fork does not have |
//! | `error` | errors as `phalanx.Error` |
//! | `buffer` | numbers that Python reads and writes without a copy |
//! | `command`, `dashboard` | the command `phalanx`; a run in a browser |
//! | `task`, `mini_cluster` | tasks of a job |
//! | `optimizer` | how the servers change values |
//! | `session`, `module` | a trainer's session, for a model that another library computes |
//! | `coordinator` | a coordinated job, whose steps are functions of Python |
//! | `sidecar` | an evaluator beside a job |
//! | `metric` | metrics with Keras' names |
//! | `data`, `data_sources`, `data_columns`, `arrow` | datasets, and how their columns come and go |
//! | `feature_column` | feature columns |
//! | `estimator` and `estimator_*` | canned models, their settings, and training in every role |
//! | `keras`, `keras_layers` | models of layers, fitted under a strategy |
//! | `jobfile` | jobs described by a file |

mod arrow;
mod buffer;
mod command;
mod coordinator;
mod dashboard;
mod data;
mod data_columns;
mod data_sources;
mod error;
mod estimator;
mod estimator_calls;
mod estimator_config;
mod estimator_model;
mod estimator_specs;
mod feature_column;
mod gate;
mod jobfile;
mod keras;
mod keras_layers;
mod metric;
mod mini_cluster;
mod module;
mod optimizer;
mod process;
mod session;
mod sidecar;
mod task;

use pyo3::prelude::*;

#[pymodule(gil_used = true)]
fn _phalanx(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    buffer::register(module)?;
    command::register(module)?;
    dashboard::register(module)?;
    optimizer::register(module)?;
    task::register(module)?;
    mini_cluster::register(module)?;
    session::register(module)?;
    coordinator::register(module)?;
    metric::register(module)?;
    sidecar::register(module)?;
    data::register(module)?;
    feature_column::register(module)?;
    estimator::register(module)?;
    keras::register(module)?;
    jobfile::register(module)?;
    Ok(())
}
