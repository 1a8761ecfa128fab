//! An evaluator beside a job, for a model that another library computes.

use crate::buffer::Buffer;
use crate::estimator_calls::{FirstRaised, PyStop};
use crate::gate::OnCtrlC;
use crate::session::{Variable, values, variables};
use phalanx::coordinator::SidecarEvaluator;
use phalanx_nn::ParameterRegistry;
use pyo3::prelude::*;

/// Calls `evaluate` with the values of every new checkpoint in a run directory and its step, until the job has ended. It returns
/// names and numbers. Returns how many checkpoints were evaluated.
#[pyfunction]
#[pyo3(signature = (stop, values, location, max_evaluations, evaluate))]
fn evaluate_checkpoints(
    py: Python<'_>,
    stop: &PyStop,
    values: Vec<Variable>,
    location: String,
    max_evaluations: Option<u64>,
    evaluate: Py<PyAny>,
) -> PyResult<u64> {
    let gate = stop.0.clone();
    let interrupt = gate.interrupt().clone();
    let model = variables(py, values)?;
    let raised = FirstRaised::default();
    let first = raised.clone();
    let work = move || {
        let mut evaluator = SidecarEvaluator::new(&location)?.interrupt(interrupt);
        if let Some(step) = max_evaluations {
            evaluator = evaluator.max_evaluations(step);
        }
        evaluator.run(model, |model, step| {
            let newest = newest(model)?;
            Python::attach(|py| {
                let newest: Vec<Buffer> = newest.into_iter().map(Buffer::from).collect();
                let call = || evaluate.bind(py).call1((newest, step))?.extract();
                call().map_err(|exception| first.keep(py, "an evaluation", exception))
            })
        })
    };
    raised.or(py, gate.enter_as(py, OnCtrlC::Finish, work))
}

fn newest(model: &crate::module::Variables) -> phalanx_base::Result<Vec<phalanx_nn::HostBuffer>> {
    values(&ParameterRegistry::beside_tables(model)?, model)
}

/// Adds the function to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(evaluate_checkpoints, module)?)
}
