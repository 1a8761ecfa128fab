//! A model of another library, as its variables: names, shapes and values.

use phalanx::burn::module::{Devices, Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use phalanx::burn::tensor::{Device, Tensor, TensorData};
use phalanx_base::{Code, Error, Result, Shape};

/// The variables of a model that computes elsewhere. The session keeps their values here, as it does for models of its own.
#[derive(Clone, Debug)]
pub(crate) struct Variables(Vec<Variable>);

#[derive(Clone, Debug)]
struct Variable {
    name: String,
    values: Values,
}

#[derive(Clone, Debug)]
enum Values {
    R1(Param<Tensor<1>>),
    R2(Param<Tensor<2>>),
    R3(Param<Tensor<3>>),
    R4(Param<Tensor<4>>),
    R5(Param<Tensor<5>>),
    R6(Param<Tensor<6>>),
}

macro_rules! changed {
    ($values:expr, $param:ident => $body:expr) => {
        match $values {
            Values::R1($param) => Values::R1($body),
            Values::R2($param) => Values::R2($body),
            Values::R3($param) => Values::R3($body),
            Values::R4($param) => Values::R4($body),
            Values::R5($param) => Values::R5($body),
            Values::R6($param) => Values::R6($body),
        }
    };
}

macro_rules! read {
    ($values:expr, $param:ident => $body:expr) => {
        match $values {
            Values::R1($param) => $body,
            Values::R2($param) => $body,
            Values::R3($param) => $body,
            Values::R4($param) => $body,
            Values::R5($param) => $body,
            Values::R6($param) => $body,
        }
    };
}

/// A variable as Python describes it.
pub(crate) struct Described {
    pub(crate) name: String,
    pub(crate) dims: Vec<usize>,
    pub(crate) values: Vec<f32>,
    /// Whether gradients change it; otherwise it changes as a moving average does.
    pub(crate) trained: bool,
}

impl Variables {
    /// # Errors
    /// If a variable has more than six axes, or not as many values as its shape says.
    pub(crate) fn new(described: Vec<Described>) -> Result<Self> {
        let device = phalanx::default_device();
        described.into_iter().map(|one| Variable::new(one, &device)).collect::<Result<_>>().map(Self)
    }

    fn change(self, mut change: impl FnMut(Values) -> Values) -> Self {
        Self(self.0.into_iter().map(|one| Variable { values: change(one.values), ..one }).collect())
    }
}

impl Variable {
    fn new(described: Described, device: &Device) -> Result<Self> {
        let Described { name, mut dims, values, trained } = described;
        if dims.is_empty() {
            // A single number.
            dims.push(1);
        }
        let elements = Shape::new(dims.clone()).map_err(|error| error.at(name.clone()))?.elements();
        if elements != values.len() {
            let what = format!("variable {name:?} of shape {dims:?} has {} numbers", values.len());
            return Err(Error::new(Code::ShapeMismatch, what).because(format!("the shape has {elements}")));
        }
        macro_rules! param {
            () => {{
                let tensor = Tensor::from_data(TensorData::new(values, dims), device);
                Param::initialized(ParamId::new(), tensor.set_require_grad(trained)).set_require_grad(trained)
            }};
        }
        let values = match dims.len() {
            1 => Values::R1(param!()),
            2 => Values::R2(param!()),
            3 => Values::R3(param!()),
            4 => Values::R4(param!()),
            5 => Values::R5(param!()),
            6 => Values::R6(param!()),
            more => {
                let what = format!("variable {name:?} has {more} axes");
                return Err(Error::new(Code::ShapeMismatch, what).because("a variable has at most six"));
            }
        };
        Ok(Self { name, values })
    }
}

impl Module for Variables {
    fn collect_devices(&self, devices: Devices) -> Devices {
        self.0.iter().fold(devices, |devices, one| read!(&one.values, param => param.collect_devices(devices)))
    }

    fn fork(self, device: &Device) -> Self {
        self.change(|values| changed!(values, param => param.fork(device)))
    }

    fn to_device(self, device: &Device) -> Self {
        self.change(|values| changed!(values, param => param.to_device(device)))
    }

    fn train(self) -> Self {
        self.change(|values| changed!(values, param => param.train()))
    }

    fn valid(&self) -> Self {
        self.clone().change(|values| changed!(values, param => param.valid()))
    }

    fn materialize(self) -> Self {
        self.change(|values| changed!(values, param => param.materialize()))
    }

    fn visit<V: ModuleVisitor>(&self, visitor: &mut V) {
        for Variable { name, values } in &self.0 {
            visitor.enter_module(name, "Variable");
            read!(values, param => param.visit(visitor));
            visitor.exit_module(name, "Variable");
        }
    }

    fn map<M: ModuleMapper>(self, mapper: &mut M) -> Self {
        let map = |one: Variable| {
            mapper.enter_module(&one.name, "Variable");
            let values = changed!(one.values, param => Module::map(param, mapper));
            mapper.exit_module(&one.name, "Variable");
            Variable { values, ..one }
        };
        Self(self.0.into_iter().map(map).collect())
    }
}
