//! A module's trainable parameters, by name.

use crate::to_bytes;
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::{DType, Gradients, Tensor, TensorData};
use bytes::Bytes;
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
/// same book in every process. Parameters that need no gradient stay with the module.
#[derive(Clone, Debug)]
pub struct Book {
    parameters: Vec<Parameter>,
    ids: Vec<ParamId>,
}

impl Book {
    /// Lists the parameters of `module`.
    ///
    /// # Errors
    /// When it has none that need a gradient, or some are not 32-bit floats.
    pub fn of<M: Module>(module: &M) -> Result<Self> {
        let mut reader = Reader { path: Vec::new(), parameters: Vec::new(), ids: Vec::new(), error: None };
        module.visit(&mut reader);
        match reader.error {
            Some(error) => Err(error),
            None if reader.parameters.is_empty() => {
                Err(Error::new(Code::BadSetting, "the model has no trainable parameter")
                    .because("none of its parameters needs a gradient")
                    .help("build it on a device with gradients, such as phalanx::default_device()"))
            }
            None => Ok(Self { parameters: reader.parameters, ids: reader.ids }),
        }
    }

    /// The parameters.
    #[must_use]
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// The values that `module` has now.
    ///
    /// # Errors
    /// When they are not 32-bit floats.
    pub fn values<M: Module>(&self, module: &M) -> Result<Vec<Bytes>> {
        let mut taker = Taker { book: self, gradients: None, found: Vec::with_capacity(self.ids.len()) };
        module.visit(&mut taker);
        taker.found.into_iter().map(|value| value.map(Option::unwrap_or_default)).collect()
    }

    /// The module with new values; where there is `None` it keeps what it has.
    #[must_use]
    pub fn load<M: Module>(&self, module: M, values: Vec<Option<Vec<f32>>>) -> M {
        if values.iter().all(Option::is_none) {
            return module;
        }
        module.map(&mut Loader { book: self, values, next: 0 })
    }

    /// The gradient of each parameter; `None` where the loss does not depend on it.
    ///
    /// # Errors
    /// When they are not 32-bit floats.
    pub fn gradients<M: Module>(&self, module: &M, gradients: &mut Gradients) -> Result<Vec<Option<Bytes>>> {
        let mut taker = Taker { book: self, gradients: Some(gradients), found: Vec::with_capacity(self.ids.len()) };
        module.visit(&mut taker);
        taker.found.into_iter().collect()
    }

    fn is_next(&self, next: usize, id: ParamId) -> bool {
        self.ids.get(next) == Some(&id)
    }
}

struct Reader {
    path: Vec<String>,
    parameters: Vec<Parameter>,
    ids: Vec<ParamId>,
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
        if !tensor.is_require_grad() {
            return;
        }
        let name = self.path.join("/");
        if tensor.dtype() != DType::F32 {
            let error = Error::new(Code::ShapeMismatch, format!("parameter {name:?} holds {:?}", tensor.dtype()));
            self.error.get_or_insert(error.because("parameters are 32-bit floats"));
            return;
        }
        match Shape::new(tensor.dims().to_vec()) {
            Ok(shape) => {
                self.parameters.push(Parameter { name, shape });
                self.ids.push(param.id);
            }
            Err(error) => {
                self.error.get_or_insert(error.at(name));
            }
        }
    }
}

/// Takes values, or gradients where there are some to take from.
struct Taker<'a> {
    book: &'a Book,
    gradients: Option<&'a mut Gradients>,
    found: Vec<Result<Option<Bytes>>>,
}

impl ModuleVisitor for Taker<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.book.is_next(self.found.len(), param.id) {
            let taken = match &mut self.gradients {
                Some(gradients) => param.val().grad_remove(gradients),
                None => Some(param.val()),
            };
            self.found.push(taken.map(to_bytes).transpose());
        }
    }
}

struct Loader<'a> {
    book: &'a Book,
    values: Vec<Option<Vec<f32>>>,
    next: usize,
}

impl ModuleMapper for Loader<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if !self.book.is_next(self.next, param.id) {
            return param;
        }
        let value = self.values.get_mut(self.next).and_then(Option::take);
        self.next += 1;
        match value {
            Some(value) => param.map(|old| {
                let (shape, device) = (old.shape(), old.device());
                Tensor::from_data(TensorData::new(value, shape), &device).require_grad()
            }),
            None => param,
        }
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
        let mut seen = vec![0.0; 8];
        phalanx_base::read_f32s(&book.values(&net).unwrap()[2], &mut seen);
        assert_eq!(seen, new);
    }

    #[test]
    fn gradients_come_out_after_values_went_in() {
        let net = net();
        let book = Book::of(&net).unwrap();
        let net = book.load(net, vec![Some(vec![1.0; 12]), Some(vec![0.0; 4]), None, None]);
        let x = Tensor::<2>::ones([5, 3], &crate::default_device());
        let loss = net.first.forward(x).sum();
        let gradients = book.gradients(&net, &mut loss.backward()).unwrap();
        let mut weight = [0.0; 12];
        phalanx_base::read_f32s(gradients[0].as_ref().unwrap(), &mut weight);
        assert_eq!(weight, [5.0; 12]);
        assert!(gradients[2].is_none(), "the loss does not depend on the head");
    }

    #[test]
    fn a_model_without_gradients_is_refused() {
        let plain = LinearConfig::new(2, 2).init(&burn::tensor::Device::flex());
        assert_eq!(Book::of(&plain).unwrap_err().code(), Code::BadSetting);
    }
}
