//! A module's trainable parameters, by name.

use crate::Flat;
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::{DType, Gradients, Tensor};
use phalanx_base::{Code, Error, Result, Shape};

/// A trainable parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Its path in the module, `layer/weight`.
    pub name: String,
    /// Its extents.
    pub shape: Shape,
}

/// The trainable parameters of one module, in the order in which the module lists them. The same module type gives the
/// same book in every process. Parameters that need no gradient, such as moving averages, are listed as states.
///
/// ```
/// use phalanx_nn::burn::nn::LinearConfig;
/// use phalanx_nn::{Book, default_device};
/// let module = LinearConfig::new(3, 2).init(&default_device());
/// let book = Book::of(&module)?;
/// assert_eq!(book.parameters()[0].name, "weight");
/// assert_eq!(book.values(&module)?[0].len(), 6);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Book {
    parameters: Vec<Parameter>,
    ids: Vec<ParamId>,
    states: Vec<Parameter>,
    state_ids: Vec<ParamId>,
}

impl Book {
    /// Lists the parameters of `module`.
    ///
    /// # Errors
    /// When it has none that need a gradient, or some are not 32-bit floats.
    pub fn of<M: Module>(module: &M) -> Result<Self> {
        let mut reader =
            Reader { path: Vec::new(), learning: Listed::default(), states: Listed::default(), error: None };
        module.visit(&mut reader);
        match reader.error {
            Some(error) => Err(error),
            None if reader.learning.0.is_empty() => {
                Err(Error::new(Code::BadSetting, "the model has no trainable parameter")
                    .because("none of its parameters needs a gradient")
                    .help("build it on a device with gradients, such as phalanx::default_device()"))
            }
            None => {
                let ((parameters, ids), (states, state_ids)) = (reader.learning, reader.states);
                Ok(Self { parameters, ids, states, state_ids })
            }
        }
    }

    /// The parameters.
    #[must_use]
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// What belongs to the module and does not learn: moving averages.
    #[must_use]
    pub fn states(&self) -> &[Parameter] {
        &self.states
    }

    /// The values that `module` has now.
    ///
    /// # Errors
    /// When they are not 32-bit floats.
    pub fn values<M: Module>(&self, module: &M) -> Result<Vec<Flat>> {
        take(&self.ids, module)
    }

    /// The values of its [`states`](Self::states).
    ///
    /// # Errors
    /// When they are not 32-bit floats.
    pub fn state_values<M: Module>(&self, module: &M) -> Result<Vec<Flat>> {
        take(&self.state_ids, module)
    }

    /// The module with new values; where there is `None` it keeps what it has.
    #[must_use]
    pub fn load<M: Module>(&self, module: M, values: Vec<Option<impl Into<Flat>>>) -> M {
        if values.iter().all(Option::is_none) {
            return module;
        }
        let values = values.into_iter().map(|values| values.map(Into::into)).collect();
        module.map(&mut Loader { ids: &self.ids, learns: true, values, next: 0 })
    }

    /// The module with new values of its [`states`](Self::states).
    #[must_use]
    pub fn load_states<M: Module>(&self, module: M, values: Vec<Vec<f32>>) -> M {
        if values.is_empty() {
            return module;
        }
        let values = values.into_iter().map(|values| Some(values.into())).collect();
        module.map(&mut Loader { ids: &self.state_ids, learns: false, values, next: 0 })
    }

    /// The gradient of each parameter; `None` where the loss does not depend on it.
    ///
    /// # Errors
    /// When they are not 32-bit floats.
    pub fn gradients<M: Module>(&self, module: &M, gradients: &mut Gradients) -> Result<Vec<Option<Flat>>> {
        let found = Vec::with_capacity(self.ids.len());
        let mut taker = GradientTaker { ids: &self.ids, gradients, found };
        module.visit(&mut taker);
        taker.found.into_iter().collect()
    }

    /// The module with values that `change` has changed in place; it is given each parameter's number and values. No
    /// memory is copied where nothing else holds on to a parameter, such as a clone of the module.
    ///
    /// # Errors
    /// What `change` returns, and when values are not 32-bit floats. The module is then lost.
    pub fn update<M: Module>(&self, module: M, change: impl FnMut(usize, &mut [f32]) -> Result<()>) -> Result<M> {
        let mut changer = Changer { ids: &self.ids, change, next: 0, error: None };
        let module = module.map(&mut changer);
        changer.error.map_or(Ok(module), Err)
    }
}

fn take<M: Module>(ids: &[ParamId], module: &M) -> Result<Vec<Flat>> {
    let mut taker = Taker { ids, found: Vec::with_capacity(ids.len()) };
    module.visit(&mut taker);
    taker.found.into_iter().collect()
}

type Listed = (Vec<Parameter>, Vec<ParamId>);

struct Reader {
    path: Vec<String>,
    learning: Listed,
    states: Listed,
    error: Option<Error>,
}

impl ModuleVisitor for Reader {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let tensor = param.val();
        let listed = if tensor.is_require_grad() { &mut self.learning } else { &mut self.states };
        let name = self.path.join("/");
        if tensor.dtype() != DType::F32 {
            let error = Error::new(Code::ShapeMismatch, format!("parameter {name:?} holds {:?}", tensor.dtype()));
            self.error.get_or_insert(error.because("parameters are 32-bit floats"));
            return;
        }
        match Shape::new(tensor.dims().to_vec()) {
            Ok(shape) => {
                listed.0.push(Parameter { name, shape });
                listed.1.push(param.id);
            }
            Err(error) => {
                self.error.get_or_insert(error.at(name));
            }
        }
    }
}

/// Takes values.
struct Taker<'a> {
    ids: &'a [ParamId],
    found: Vec<Result<Flat>>,
}

impl ModuleVisitor for Taker<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.ids.get(self.found.len()) == Some(&param.id) {
            self.found.push(Flat::of(param.val()));
        }
    }
}

/// Takes gradients.
struct GradientTaker<'a> {
    ids: &'a [ParamId],
    gradients: &'a mut Gradients,
    found: Vec<Result<Option<Flat>>>,
}

impl ModuleVisitor for GradientTaker<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.ids.get(self.found.len()) == Some(&param.id) {
            self.found.push(param.val().grad_remove(self.gradients).map(Flat::of).transpose());
        }
    }
}

struct Loader<'a> {
    ids: &'a [ParamId],
    learns: bool,
    values: Vec<Option<Flat>>,
    next: usize,
}

impl ModuleMapper for Loader<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if self.ids.get(self.next) != Some(&param.id) {
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
    ids: &'a [ParamId],
    change: F,
    next: usize,
    error: Option<Error>,
}

impl<F: FnMut(usize, &mut [f32]) -> Result<()>> ModuleMapper for Changer<'_, F> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if self.ids.get(self.next) != Some(&param.id) || self.error.is_some() {
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
        let book = Book::of(&net()).unwrap();
        let seen: Vec<_> = book.parameters().iter().map(|p| format!("{} {}", p.name, p.shape)).collect();
        assert_eq!(seen, ["first/weight [3, 4]", "first/bias [4]", "head/weight [4, 2]", "head/bias [2]"]);
    }

    #[test]
    fn values_go_in_and_come_out() {
        let net = net();
        let book = Book::of(&net).unwrap();
        let new: Vec<f32> = (0..8_u8).map(f32::from).collect();
        let net = book.load(net, vec![None, None, Some(new.clone()), None]);
        assert_eq!(*book.values(&net).unwrap()[2], new);
    }

    #[test]
    fn values_change_where_they_are() {
        let net = net();
        let book = Book::of(&net).unwrap();
        let old = net.head.weight.val().into_data();
        let double = |_: usize, values: &mut [f32]| {
            values.iter_mut().for_each(|value| *value *= 2.0);
            Ok(())
        };
        let net = book.update(net, double).unwrap();
        let new = net.head.weight.val().into_data();
        let doubled: Vec<f32> = old.as_slice::<f32>().unwrap().iter().map(|value| value * 2.0).collect();
        assert_eq!(new.as_slice::<f32>().unwrap(), doubled);
        assert!(book.update(net, |_, _| Err(Error::new(Code::Internal, "no"))).is_err());
    }

    #[test]
    fn gradients_come_out_after_values_went_in() {
        let net = net();
        let book = Book::of(&net).unwrap();
        let net = book.load(net, vec![Some(vec![1.0; 12]), Some(vec![0.0; 4]), None, None]);
        let x = Tensor::<2>::ones([5, 3], &crate::default_device());
        let loss = net.first.forward(x).sum();
        let gradients = book.gradients(&net, &mut loss.backward()).unwrap();
        assert_eq!(**gradients[0].as_ref().unwrap(), [5.0; 12]);
        assert!(gradients[2].is_none(), "the loss does not depend on the head");
    }

    #[test]
    fn a_model_without_gradients_is_refused() {
        let plain = LinearConfig::new(2, 2).init(&burn::tensor::Device::flex());
        assert_eq!(Book::of(&plain).unwrap_err().code(), Code::BadSetting);
    }
}
