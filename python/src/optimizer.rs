//! Optimizers, with Keras' names and defaults. The servers apply them.

use crate::error::Raise;
use phalanx_optim::{Adagrad, Adam, AdamW, Clip, Ftrl, Momentum, RmsProp, Sgd};
use pyo3::prelude::*;

/// How the servers change values by gradients. `SGD`, `Adagrad` and the others make one.
#[pyclass(frozen, eq, module = "phalanx", from_py_object)]
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Optimizer(phalanx_optim::Optimizer);

impl Optimizer {
    /// Returns it for the crates.
    pub(crate) fn inner(self) -> phalanx_optim::Optimizer {
        self.0
    }
}

#[pymethods]
impl Optimizer {
    /// The name in lower case.
    #[getter]
    fn name(&self) -> &'static str {
        self.0.name()
    }

    /// The learning rate.
    #[getter]
    fn learning_rate(&self) -> f32 {
        self.0.learning_rate()
    }

    /// Returns the optimizer with gradients clipped: by value, by the norm of each variable, or by the norm of all together.
    #[pyo3(signature = (*, clipvalue=None, clipnorm=None, global_clipnorm=None))]
    fn clipped(
        &self,
        py: Python<'_>,
        clipvalue: Option<f32>,
        clipnorm: Option<f32>,
        global_clipnorm: Option<f32>,
    ) -> PyResult<Self> {
        let clips = [clipvalue.map(Clip::Value), clipnorm.map(Clip::Norm), global_clipnorm.map(Clip::GlobalNorm)];
        let clipped = clips.into_iter().flatten().fold(self.0, phalanx_optim::Optimizer::with_clip);
        checked(py, clipped)
    }

    fn __repr__(&self) -> String {
        self.0.to_string()
    }
}

fn checked(py: Python<'_>, optimizer: impl Into<phalanx_optim::Optimizer>) -> PyResult<Optimizer> {
    let optimizer = optimizer.into();
    optimizer.validate().or_raise(py)?;
    Ok(Optimizer(optimizer))
}

/// Gradient descent, with Keras' momentum.
#[pyfunction(name = "SGD")]
#[pyo3(signature = (learning_rate=0.01, momentum=0.0, nesterov=false))]
fn sgd(py: Python<'_>, learning_rate: f32, momentum: f32, nesterov: bool) -> PyResult<Optimizer> {
    checked(py, Sgd::new(learning_rate).momentum(momentum).nesterov(nesterov))
}

/// Momentum as in TensorFlow 1.
#[pyfunction(name = "Momentum")]
#[pyo3(signature = (learning_rate, momentum, nesterov=false))]
fn momentum(py: Python<'_>, learning_rate: f32, momentum: f32, nesterov: bool) -> PyResult<Optimizer> {
    checked(py, Momentum::new(learning_rate, momentum).nesterov(nesterov))
}

/// Adagrad.
#[pyfunction(name = "Adagrad")]
#[pyo3(signature = (learning_rate=0.001, initial_accumulator_value=0.1, epsilon=1e-7))]
fn adagrad(py: Python<'_>, learning_rate: f32, initial_accumulator_value: f32, epsilon: f32) -> PyResult<Optimizer> {
    let adagrad = Adagrad::new(learning_rate).initial_accumulator_value(initial_accumulator_value);
    checked(py, adagrad.epsilon(epsilon))
}

/// Adam. Rows of a table without a gradient are left alone, unless `lazy` is false.
#[pyfunction(name = "Adam")]
#[pyo3(signature = (learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-7, amsgrad=false, lazy=true))]
fn adam(
    py: Python<'_>,
    learning_rate: f32,
    beta_1: f32,
    beta_2: f32,
    epsilon: f32,
    amsgrad: bool,
    lazy: bool,
) -> PyResult<Optimizer> {
    let adam = Adam::new(learning_rate).beta_1(beta_1).beta_2(beta_2).epsilon(epsilon);
    checked(py, adam.amsgrad(amsgrad).lazy(lazy))
}

/// Adam with decoupled weight decay.
#[pyfunction(name = "AdamW")]
#[pyo3(signature = (learning_rate=0.001, weight_decay=0.004, beta_1=0.9, beta_2=0.999, epsilon=1e-7))]
fn adamw(
    py: Python<'_>,
    learning_rate: f32,
    weight_decay: f32,
    beta_1: f32,
    beta_2: f32,
    epsilon: f32,
) -> PyResult<Optimizer> {
    let adamw = AdamW::new(learning_rate).weight_decay(weight_decay);
    checked(py, adamw.beta_1(beta_1).beta_2(beta_2).epsilon(epsilon))
}

/// RMSprop.
#[pyfunction(name = "RMSprop")]
#[pyo3(signature = (learning_rate=0.001, rho=0.9, momentum=0.0, epsilon=1e-7, centered=false))]
fn rmsprop(
    py: Python<'_>,
    learning_rate: f32,
    rho: f32,
    momentum: f32,
    epsilon: f32,
    centered: bool,
) -> PyResult<Optimizer> {
    checked(py, RmsProp::new(learning_rate).rho(rho).momentum(momentum).epsilon(epsilon).centered(centered))
}

/// Follow the regularized leader.
#[pyfunction(name = "Ftrl")]
#[pyo3(signature = (learning_rate=0.001, learning_rate_power=-0.5, initial_accumulator_value=0.1, l1=0.0, l2=0.0))]
fn ftrl(
    py: Python<'_>,
    learning_rate: f32,
    learning_rate_power: f32,
    initial_accumulator_value: f32,
    l1: f32,
    l2: f32,
) -> PyResult<Optimizer> {
    let ftrl = Ftrl::new(learning_rate).learning_rate_power(learning_rate_power).l1(l1).l2(l2);
    checked(py, ftrl.initial_accumulator_value(initial_accumulator_value))
}

/// Adds the class and the optimizers to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Optimizer>()?;
    module.add_function(wrap_pyfunction!(sgd, module)?)?;
    module.add_function(wrap_pyfunction!(momentum, module)?)?;
    module.add_function(wrap_pyfunction!(adagrad, module)?)?;
    module.add_function(wrap_pyfunction!(adam, module)?)?;
    module.add_function(wrap_pyfunction!(adamw, module)?)?;
    module.add_function(wrap_pyfunction!(rmsprop, module)?)?;
    module.add_function(wrap_pyfunction!(ftrl, module)?)
}
