//! The parameters of a module, by name.

use crate::HostBuffer;
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::{DType, Gradients, Tensor};
use phalanx_base::{Code, Error, Result, Shape};

/// A trainable parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Its path in the module, such as `layer/weight`.
    pub name: String,
    /// Its shape.
    pub shape: Shape,
}

/// Identifies a parameter of a model while the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterKey(pub(crate) u64);

/// A model whose parameters can be listed, read and replaced: every Burn module, and
/// [`ParameterValues`](crate::ParameterValues), with which a graph is computed.
pub trait Parameters: Clone + Send + Sized {
    /// Lists the parameters.
    ///
    /// # Errors
    /// If some parameter is not a 32-bit float.
    fn parameter_registry(&self) -> Result<ParameterRegistry>;

    /// Returns the present values of these parameters.
    ///
    /// # Errors
    /// If they are not 32-bit floats.
    fn parameter_values(&self, keys: &[ParameterKey]) -> Result<Vec<HostBuffer>>;

    /// Returns the model with new values of these parameters, which training changes if `learns` is set. A parameter with
    /// `None` keeps its value.
    #[must_use]
    fn with_parameter_values(self, keys: &[ParameterKey], learns: bool, values: Vec<Option<HostBuffer>>) -> Self;

    /// Returns the model without what only training needs.
    #[must_use]
    fn for_inference(&self) -> Self;

    /// Returns a model that shares the values, and whose gradients are its own.
    #[must_use]
    fn for_replica(&self) -> Self;
}

impl<M: Module> Parameters for M {
    fn parameter_registry(&self) -> Result<ParameterRegistry> {
        let mut lister = Lister::default();
        self.visit(&mut lister);
        let ((parameters, keys), (states, state_keys)) = (lister.trainable, lister.states);
        lister.error.map_or(Ok(ParameterRegistry { parameters, keys, states, state_keys }), Err)
    }

    fn parameter_values(&self, keys: &[ParameterKey]) -> Result<Vec<HostBuffer>> {
        Ok(collect(keys, self, None)?.into_iter().flatten().collect())
    }

    fn with_parameter_values(self, keys: &[ParameterKey], learns: bool, values: Vec<Option<HostBuffer>>) -> Self {
        self.map(&mut Loader { keys, learns, values, next: 0 })
    }

    fn for_inference(&self) -> Self {
        self.valid()
    }

    fn for_replica(&self) -> Self {
        let device = self.devices().into_iter().next().unwrap_or_else(crate::default_device);
        self.clone().fork(&device)
    }
}

/// The trainable parameters of a module, in the module's own order, which is the same in every process. Parameters
/// without gradients, such as moving averages, are listed separately as states.
///
/// ```
/// use phalanx_nn::burn::nn::LinearConfig;
/// use phalanx_nn::{ParameterRegistry, default_device};
/// let module = LinearConfig::new(3, 2).init(&default_device());
/// let registry = ParameterRegistry::of(&module)?;
/// assert_eq!(registry.parameters()[0].name, "weight");
/// assert_eq!(registry.values(&module)?[0].len(), 6);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ParameterRegistry {
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) keys: Vec<ParameterKey>,
    pub(crate) states: Vec<Parameter>,
    pub(crate) state_keys: Vec<ParameterKey>,
}

impl ParameterRegistry {
    /// Lists the parameters of `module`.
    ///
    /// # Errors
    /// If no parameter needs a gradient, or some parameter is not a 32-bit float.
    pub fn of<M: Parameters>(module: &M) -> Result<Self> {
        let registry = Self::beside_tables(module)?;
        if registry.parameters.is_empty() {
            return Err(Error::new(Code::BadSetting, "the model has no trainable parameter")
                .because("none of its parameters needs a gradient")
                .help("build it on a device with gradients, such as phalanx::default_device()"));
        }
        Ok(registry)
    }

    /// As [`Self::of`], for a module whose trainable parameters may all be rows of tables elsewhere.
    ///
    /// # Errors
    /// If some parameter is not a 32-bit float.
    pub fn beside_tables<M: Parameters>(module: &M) -> Result<Self> {
        module.parameter_registry()
    }

    /// Returns the trainable parameters.
    #[must_use]
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// Returns the parameters that are not trained, such as moving averages.
    #[must_use]
    pub fn states(&self) -> &[Parameter] {
        &self.states
    }

    /// Returns the current values of the parameters of `module`.
    ///
    /// # Errors
    /// If they are not 32-bit floats.
    pub fn values<M: Parameters>(&self, module: &M) -> Result<Vec<HostBuffer>> {
        module.parameter_values(&self.keys)
    }

    /// Returns the current values of the [`states`](Self::states) of `module`.
    ///
    /// # Errors
    /// If they are not 32-bit floats.
    pub fn state_values<M: Parameters>(&self, module: &M) -> Result<Vec<HostBuffer>> {
        if self.state_keys.is_empty() { Ok(Vec::new()) } else { module.parameter_values(&self.state_keys) }
    }

    /// Returns the module with new parameter values. A parameter with `None` keeps its value.
    #[must_use]
    pub fn load<M: Parameters>(&self, module: M, values: Vec<Option<impl Into<HostBuffer>>>) -> M {
        if values.iter().all(Option::is_none) {
            return module;
        }
        let values = values.into_iter().map(|values| values.map(Into::into)).collect();
        module.with_parameter_values(&self.keys, true, values)
    }

    /// Returns the module with new values of its [`states`](Self::states).
    #[must_use]
    pub fn load_states<M: Parameters>(&self, module: M, values: Vec<Vec<f32>>) -> M {
        if values.is_empty() {
            return module;
        }
        let values = values.into_iter().map(|values| Some(values.into())).collect();
        module.with_parameter_values(&self.state_keys, false, values)
    }

    /// Returns the gradient of each parameter, `None` if the loss does not depend on it.
    ///
    /// # Errors
    /// If they are not 32-bit floats.
    pub fn gradients<M: Module>(&self, module: &M, gradients: &mut Gradients) -> Result<Vec<Option<HostBuffer>>> {
        collect(&self.keys, module, Some(gradients))
    }

    /// Returns the module after `change` has modified its values in place; `change` is given the index and the values of
    /// each parameter. Nothing is copied unless something else, such as a clone of the module, holds the parameter too.
    ///
    /// # Errors
    /// Whatever `change` returns, or if values are not 32-bit floats. The module is then lost.
    pub fn update<M: Module>(&self, module: M, change: impl FnMut(usize, &mut [f32]) -> Result<()>) -> Result<M> {
        let mut changer = Changer { keys: &self.keys, change, next: 0, error: None };
        let module = module.map(&mut changer);
        changer.error.map_or(Ok(module), Err)
    }
}

fn collect<M: Module>(
    keys: &[ParameterKey],
    module: &M,
    gradients: Option<&mut Gradients>,
) -> Result<Vec<Option<HostBuffer>>> {
    let mut collector = Collector { keys, gradients, found: Vec::with_capacity(keys.len()) };
    module.visit(&mut collector);
    collector.found.into_iter().collect()
}

/// Returns the key of a parameter of a module.
fn key(id: ParamId) -> ParameterKey {
    ParameterKey(id.val())
}

type Listed = (Vec<Parameter>, Vec<ParameterKey>);

/// Lists parameters by path.
#[derive(Default)]
struct Lister {
    path: Vec<String>,
    trainable: Listed,
    states: Listed,
    error: Option<Error>,
}

impl ModuleVisitor for Lister {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let tensor = param.val();
        let listed = if tensor.is_require_grad() { &mut self.trainable } else { &mut self.states };
        let name = self.path.join("/");
        if tensor.dtype() != DType::F32 {
            let error = Error::new(Code::ShapeMismatch, format!("parameter {name:?} holds {:?}", tensor.dtype()));
            self.error.get_or_insert(error.because("parameters are 32-bit floats"));
            return;
        }
        match Shape::new(tensor.dims().to_vec()) {
            Ok(shape) => {
                listed.0.push(Parameter { name, shape });
                listed.1.push(key(param.id));
            }
            Err(error) => {
                self.error.get_or_insert(error.at(name));
            }
        }
    }
}

/// Collects values or, if `gradients` is set, gradients.
struct Collector<'a> {
    keys: &'a [ParameterKey],
    gradients: Option<&'a mut Gradients>,
    found: Vec<Result<Option<HostBuffer>>>,
}

impl ModuleVisitor for Collector<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.keys.get(self.found.len()) == Some(&key(param.id)) {
            let tensor = match &mut self.gradients {
                Some(gradients) => param.val().grad_remove(gradients),
                None => Some(param.val()),
            };
            self.found.push(tensor.map(HostBuffer::of).transpose());
        }
    }
}

struct Loader<'a> {
    keys: &'a [ParameterKey],
    learns: bool,
    values: Vec<Option<HostBuffer>>,
    next: usize,
}

impl ModuleMapper for Loader<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if self.keys.get(self.next) != Some(&key(param.id)) {
            return param;
        }
        let value = self.values.get_mut(self.next).and_then(Option::take);
        self.next += 1;
        match value {
            Some(value) => param.map(|old| {
                let (shape, device) = (old.shape(), old.device());
                value.into_tensor(shape, &device).set_require_grad(self.learns)
            }),
            None => param,
        }
    }
}

struct Changer<'a, F> {
    keys: &'a [ParameterKey],
    change: F,
    next: usize,
    error: Option<Error>,
}

impl<F: FnMut(usize, &mut [f32]) -> Result<()>> ModuleMapper for Changer<'_, F> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if self.keys.get(self.next) != Some(&key(param.id)) || self.error.is_some() {
            return param;
        }
        let number = self.next;
        self.next += 1;
        param.map(|old| {
            let device = old.device();
            let mut data = old.into_data();
            let wrong = |error| {
                Error::new(Code::ShapeMismatch, "a parameter does not hold 32-bit floats").because(format!("{error:?}"))
            };
            let changed = data.as_mut_slice::<f32>().map_err(wrong).and_then(|values| (self.change)(number, values));
            self.error = changed.err();
            Tensor::from_data(data, &device).require_grad()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::nn::{Linear, LinearConfig};

    #[derive(Module, Debug)]
    struct Net {
        first: Linear,
        head: Linear,
    }

    fn net() -> Net {
        let device = crate::default_device();
        Net { first: LinearConfig::new(3, 4).init(&device), head: LinearConfig::new(4, 2).init(&device) }
    }

    #[test]
    fn parameters_are_named_by_their_path() {
        let registry = ParameterRegistry::of(&net()).unwrap();
        let seen: Vec<_> = registry.parameters().iter().map(|p| format!("{} {}", p.name, p.shape)).collect();
        assert_eq!(seen, ["first/weight [3, 4]", "first/bias [4]", "head/weight [4, 2]", "head/bias [2]"]);
    }

    #[test]
    fn values_go_in_and_come_out() {
        let net = net();
        let registry = ParameterRegistry::of(&net).unwrap();
        let new: Vec<f32> = (0..8_u8).map(f32::from).collect();
        let net = registry.load(net, vec![None, None, Some(new.clone()), None]);
        assert_eq!(*registry.values(&net).unwrap()[2], new);
    }

    #[test]
    fn values_change_where_they_are() {
        let net = net();
        let registry = ParameterRegistry::of(&net).unwrap();
        let old = net.head.weight.val().into_data();
        let double = |_: usize, values: &mut [f32]| {
            values.iter_mut().for_each(|value| *value *= 2.0);
            Ok(())
        };
        let net = registry.update(net, double).unwrap();
        let new = net.head.weight.val().into_data();
        let doubled: Vec<f32> = old.as_slice::<f32>().unwrap().iter().map(|value| value * 2.0).collect();
        assert_eq!(new.as_slice::<f32>().unwrap(), doubled);
        assert!(registry.update(net, |_, _| Err(Error::new(Code::Internal, "no"))).is_err());
    }

    #[test]
    fn gradients_come_out_after_values_went_in() {
        let net = net();
        let registry = ParameterRegistry::of(&net).unwrap();
        let net = registry.load(net, vec![Some(vec![1.0; 12]), Some(vec![0.0; 4]), None, None]);
        let x = Tensor::<2>::ones([5, 3], &crate::default_device());
        let loss = net.first.forward(x).sum();
        let gradients = registry.gradients(&net, &mut loss.backward()).unwrap();
        assert_eq!(**gradients[0].as_ref().unwrap(), [5.0; 12]);
        assert!(gradients[2].is_none(), "the loss does not depend on the head");
    }

    #[test]
    fn a_model_without_gradients_is_refused() {
        let plain = LinearConfig::new(2, 2).init(&burn::tensor::Device::flex());
        assert_eq!(ParameterRegistry::of(&plain).unwrap_err().code(), Code::BadSetting);
    }
}
