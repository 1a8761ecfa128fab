//! The weights of a model, as a Burn module.

use super::WeightPlan;
use burn::module::{Devices, Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::{Device, Tensor, TensorData};
use phalanx_base::{Code, Error, Result, Shape};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A moving average: moved by the forward pass, never by a gradient. A clone is a copy that moves on its own.
#[derive(Debug)]
pub struct Moving(Mutex<Param<Tensor<1>>>);

impl Moving {
    /// What it is now.
    #[must_use]
    pub fn value(&self) -> Tensor<1> {
        self.lock().val()
    }

    /// Sets it to `momentum` of itself and the rest of `value`.
    pub fn update(&self, value: Tensor<1>, momentum: f64) {
        let mut held = self.lock();
        let moved = held.val() * momentum + value.detach() * (1.0 - momentum);
        *held = Param::initialized(held.id, moved.detach());
    }

    fn lock(&self) -> MutexGuard<'_, Param<Tensor<1>>> {
        // A value is replaced whole, so one left by a panic is sound.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(self, change: impl FnOnce(Param<Tensor<1>>) -> Param<Tensor<1>>) -> Self {
        let param = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        // Whoever asks for gradients everywhere must not make a moving average learn.
        Self(Mutex::new(change(param).set_require_grad(false)))
    }
}

impl Clone for Moving {
    fn clone(&self) -> Self {
        Self(Mutex::new(self.lock().clone()))
    }
}

#[derive(Clone, Debug)]
enum Held {
    R1(Param<Tensor<1>>),
    R2(Param<Tensor<2>>),
    R3(Param<Tensor<3>>),
    R4(Param<Tensor<4>>),
    Moving(Moving),
}

/// One weight of a layer.
#[derive(Clone, Debug)]
pub(crate) struct Weight {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    pub(crate) trainable: bool,
    held: Held,
}

macro_rules! changed {
    ($held:expr, $param:ident => $body:expr) => {
        match $held {
            Held::R1($param) => Held::R1($body),
            Held::R2($param) => Held::R2($body),
            Held::R3($param) => Held::R3($body),
            Held::R4($param) => Held::R4($body),
            Held::Moving(moving) => Held::Moving(moving.change(|$param| $body)),
        }
    };
}

macro_rules! read {
    ($held:expr, $param:ident => $body:expr) => {
        match $held {
            Held::R1($param) => $body,
            Held::R2($param) => $body,
            Held::R3($param) => $body,
            Held::R4($param) => $body,
            Held::Moving(moving) => {
                let $param = &*moving.lock();
                $body
            }
        }
    };
}

impl Weight {
    /// Makes the weight that was planned.
    pub(crate) fn new(plan: &WeightPlan, seed: u64, device: &Device) -> Result<Self> {
        let shape = Shape::new(plan.dims.clone())?;
        let data = TensorData::new(plan.initializer.values(&plan.dims, seed), plan.dims.clone());
        let held = match (plan.dims.len(), plan.trainable) {
            (1, true) => Held::R1(Param::from_tensor(Tensor::from_data(data, device))),
            (2, true) => Held::R2(Param::from_tensor(Tensor::from_data(data, device))),
            (3, true) => Held::R3(Param::from_tensor(Tensor::from_data(data, device))),
            (4, true) => Held::R4(Param::from_tensor(Tensor::from_data(data, device))),
            (1, false) => {
                let param = Param::initialized(ParamId::new(), Tensor::from_data(data, device));
                Held::Moving(Moving(Mutex::new(param.set_require_grad(false))))
            }
            _ => {
                let what = format!("weight {:?} of shape {shape}", plan.name);
                return Err(Error::new(Code::ShapeMismatch, what)
                    .because("a weight has one to four axes, a moving average one"));
            }
        };
        Ok(Self { name: plan.name, shape, trainable: plan.trainable, held })
    }

    /// Its numbers.
    pub(crate) fn values(&self) -> Result<Vec<f32>> {
        let data = read!(&self.held, param => param.val().into_data());
        data.try_into_vec::<f32>().map_err(|error| {
            Error::new(Code::ShapeMismatch, format!("weight {:?} does not hold 32-bit floats", self.name))
                .because(format!("{error:?}"))
        })
    }

    /// Replaces its numbers.
    pub(crate) fn set(&mut self, values: Vec<f32>) -> Result<()> {
        if values.len() != self.shape.elements() {
            let what = format!("weight {:?} of shape {} was given {} numbers", self.name, self.shape, values.len());
            return Err(Error::new(Code::ShapeMismatch, what).because(format!("it holds {}", self.shape.elements())));
        }
        let data = TensorData::new(values, self.shape.dims().to_vec());
        self.held = changed!(self.held.clone(), param => param.map(|old| {
            Tensor::from_data(data, &old.device()).set_require_grad(old.is_require_grad())
        }));
        Ok(())
    }

    fn change(self, change: impl FnOnce(Held) -> Held) -> Self {
        Self { held: change(self.held), ..self }
    }
}

impl Module for Weight {
    fn collect_devices(&self, devices: Devices) -> Devices {
        read!(&self.held, param => param.collect_devices(devices))
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
        read!(&self.held, param => param.visit(visitor));
    }

    fn map<M: ModuleMapper>(self, mapper: &mut M) -> Self {
        self.change(|held| changed!(held, param => Module::map(param, mapper)))
    }
}

/// The weights of one layer, in the order of its [`Plan`](super::Plan).
#[derive(Clone, Copy, Debug)]
pub struct Weights<'a>(pub(crate) &'a [Weight]);

macro_rules! getters {
    ($($(#[$doc:meta])* $name:ident $variant:ident $result:ty = $held:ident => $body:expr;)*) => {
        impl<'a> Weights<'a> {
            $($(#[$doc])*
            ///
            /// # Errors
            /// When the plan has another weight there.
            pub fn $name(&self, at: usize) -> Result<$result> {
                match self.0.get(at).map(|weight| &weight.held) {
                    Some(Held::$variant($held)) => Ok($body),
                    _ => Err(not_planned(at, stringify!($name))),
                }
            })*
        }
    };
}

getters! {
    /// A weight of one axis.
    vector R1 Tensor<1> = param => param.val();
    /// A weight of two axes.
    matrix R2 Tensor<2> = param => param.val();
    /// A weight of three axes.
    cube R3 Tensor<3> = param => param.val();
    /// A weight of four axes.
    kernel R4 Tensor<4> = param => param.val();
    /// A moving average.
    moving Moving &'a Moving = moving => moving;
}

fn not_planned(at: usize, kind: &str) -> Error {
    Error::new(Code::Internal, format!("weight {at} of the layer is no {kind}"))
        .because("the layer computes with other weights than it planned")
}
