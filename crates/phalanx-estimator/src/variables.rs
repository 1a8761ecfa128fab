//! Named dense variables as a Burn module, under the names of TensorFlow's checkpoints.

use phalanx_base::{Code, Error, Result};
use phalanx_nn::burn::module::{Devices, Module, ModuleMapper, ModuleVisitor, Param};
use phalanx_nn::burn::tensor::{Device, Tensor, TensorData};
use phalanx_nn::model::Initializer;

/// The plan of a variable.
#[derive(Clone, Debug)]
pub(crate) struct VariablePlan {
    pub(crate) name: String,
    pub(crate) dims: Vec<usize>,
    pub(crate) initializer: Initializer,
}

#[derive(Clone, Debug)]
enum Held {
    Vector(Param<Tensor<1>>),
    Matrix(Param<Tensor<2>>),
}

/// The dense variables of a canned model, in the order of its plan.
#[derive(Clone, Debug)]
pub struct Variables {
    names: Vec<String>,
    held: Vec<Held>,
}

macro_rules! changed {
    ($held:expr, $param:ident => $body:expr) => {
        match $held {
            Held::Vector($param) => Held::Vector($body),
            Held::Matrix($param) => Held::Matrix($body),
        }
    };
}

impl Variables {
    /// Creates and initializes the planned variables, each with its own seed.
    pub(crate) fn new(plans: &[VariablePlan], seed: u64, device: &Device) -> Result<Self> {
        let make = |plan: &VariablePlan| {
            let values = plan.initializer.values(&plan.dims, seed_of(&plan.name, seed));
            let data = TensorData::new(values, plan.dims.clone());
            match plan.dims.len() {
                1 => Ok(Held::Vector(Param::from_tensor(Tensor::from_data(data, device)))),
                2 => Ok(Held::Matrix(Param::from_tensor(Tensor::from_data(data, device)))),
                axes => Err(Error::new(Code::Internal, format!("variable {:?} has {axes} axes", plan.name))),
            }
        };
        let held = plans.iter().map(make).collect::<Result<_>>()?;
        Ok(Self { names: plans.iter().map(|plan| plan.name.clone()).collect(), held })
    }

    pub(crate) fn matrix(&self, at: usize) -> Result<Tensor<2>> {
        match self.held.get(at) {
            Some(Held::Matrix(param)) => Ok(param.val()),
            _ => Err(not_planned(at)),
        }
    }

    /// Returns a vector as a `[1, length]` row, which broadcasts over a batch.
    pub(crate) fn row(&self, at: usize) -> Result<Tensor<2>> {
        self.vector(at).map(Tensor::unsqueeze)
    }

    pub(crate) fn vector(&self, at: usize) -> Result<Tensor<1>> {
        match self.held.get(at) {
            Some(Held::Vector(param)) => Ok(param.val()),
            _ => Err(not_planned(at)),
        }
    }

    fn change(self, mut change: impl FnMut(Held) -> Held) -> Self {
        Self { held: self.held.into_iter().map(&mut change).collect(), ..self }
    }
}

/// Returns a seed that depends only on the name, so that a variable's start does not depend on the others.
pub(crate) fn seed_of(name: &str, seed: u64) -> u64 {
    phalanx_formats::fingerprint::fingerprint64(name.as_bytes()) ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn not_planned(at: usize) -> Error {
    Error::new(Code::Internal, format!("variable {at} is not as planned"))
}

impl Module for Variables {
    fn collect_devices(&self, mut devices: Devices) -> Devices {
        for held in &self.held {
            devices = match held {
                Held::Vector(param) => param.collect_devices(devices),
                Held::Matrix(param) => param.collect_devices(devices),
            };
        }
        devices
    }

    fn fork(self, device: &Device) -> Self {
        self.change(|held| changed!(held, param => param.fork(device)))
    }

    fn to_device(self, device: &Device) -> Self {
        self.change(|held| changed!(held, param => param.to_device(device)))
    }

    fn train(self) -> Self {
        self.change(|held| changed!(held, param => param.train()))
    }

    fn valid(&self) -> Self {
        self.clone().change(|held| changed!(held, param => param.valid()))
    }

    fn materialize(self) -> Self {
        self.change(|held| changed!(held, param => param.materialize()))
    }

    fn visit<V: ModuleVisitor>(&self, visitor: &mut V) {
        for (name, held) in self.names.iter().zip(&self.held) {
            visitor.enter_module(name, "Variable");
            match held {
                Held::Vector(param) => param.visit(visitor),
                Held::Matrix(param) => param.visit(visitor),
            }
            visitor.exit_module(name, "Variable");
        }
    }

    fn map<M: ModuleMapper>(self, mapper: &mut M) -> Self {
        let mut mapped = Vec::with_capacity(self.held.len());
        for (name, held) in self.names.iter().zip(self.held) {
            mapper.enter_module(name, "Variable");
            mapped.push(changed!(held, param => Module::map(param, mapper)));
            mapper.exit_module(name, "Variable");
        }
        Self { names: self.names, held: mapped }
    }
}
