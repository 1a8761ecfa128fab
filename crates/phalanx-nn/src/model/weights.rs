//! The weights of a model as a Burn module.

use super::WeightPlan;
use burn::module::{Devices, Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::{Device, Tensor, TensorData};
use phalanx_base::{Code, Error, Result, Shape};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A moving average, which the forward pass updates, never a gradient. A clone is an independent copy.
#[derive(Debug)]
pub struct MovingAverage(Mutex<Param<Tensor<1>>>);

impl MovingAverage {
    /// Returns the current value.
    #[must_use]
    pub fn value(&self) -> Tensor<1> {
        self.lock().val()
    }

    /// Moves the average towards `value`: `average * momentum + value * (1 - momentum)`.
    pub fn update(&self, value: Tensor<1>, momentum: f64) {
        let mut held = self.lock();
        let moved = held.val() * momentum + value.detach() * (1.0 - momentum);
        *held = Param::initialized(held.id, moved.detach());
    }

    fn lock(&self) -> MutexGuard<'_, Param<Tensor<1>>> {
        // Updates replace the value, so it is consistent even after a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(self, change: impl FnOnce(Param<Tensor<1>>) -> Param<Tensor<1>>) -> Self {
        let param = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        // A moving average is not trained, even if gradients are enabled for the whole module.
        Self(Mutex::new(change(param).set_require_grad(false)))
    }
}

impl Clone for MovingAverage {
    fn clone(&self) -> Self {
        Self(Mutex::new(self.lock().clone()))
    }
}

#[derive(Clone, Debug)]
enum ParamRank {
    R1(Param<Tensor<1>>),
    R2(Param<Tensor<2>>),
    R3(Param<Tensor<3>>),
    R4(Param<Tensor<4>>),
    MovingAverage(MovingAverage),
    /// A table whose rows are elsewhere.
    Elsewhere,
}

/// A weight of a layer.
#[derive(Clone, Debug)]
pub(crate) struct Weight {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    pub(crate) trainable: bool,
    held: ParamRank,
}

macro_rules! changed {
    ($held:expr, $param:ident => $body:expr) => {
        match $held {
            ParamRank::R1($param) => ParamRank::R1($body),
            ParamRank::R2($param) => ParamRank::R2($body),
            ParamRank::R3($param) => ParamRank::R3($body),
            ParamRank::R4($param) => ParamRank::R4($body),
            ParamRank::MovingAverage(moving) => ParamRank::MovingAverage(moving.change(|$param| $body)),
            ParamRank::Elsewhere => ParamRank::Elsewhere,
        }
    };
}

macro_rules! read {
    ($held:expr, $param:ident => $body:expr, elsewhere => $other:expr) => {
        match $held {
            ParamRank::R1($param) => $body,
            ParamRank::R2($param) => $body,
            ParamRank::R3($param) => $body,
            ParamRank::R4($param) => $body,
            ParamRank::MovingAverage(moving) => {
                let $param = &*moving.lock();
                $body
            }
            ParamRank::Elsewhere => $other,
        }
    };
}

impl Weight {
    /// Creates the planned weight.
    pub(crate) fn new(plan: &WeightPlan, seed: u64, device: &Device) -> Result<Self> {
        let shape = Shape::new(plan.dims.clone())?;
        if let Some(held) = table(plan, seed, device) {
            return Ok(Self { name: plan.name, shape, trainable: plan.trainable, held });
        }
        let data = TensorData::new(plan.initializer.values(&plan.dims, seed), plan.dims.clone());
        let held = match (plan.dims.len(), plan.trainable) {
            (1, true) => ParamRank::R1(Param::from_tensor(Tensor::from_data(data, device))),
            (2, true) => ParamRank::R2(Param::from_tensor(Tensor::from_data(data, device))),
            (3, true) => ParamRank::R3(Param::from_tensor(Tensor::from_data(data, device))),
            (4, true) => ParamRank::R4(Param::from_tensor(Tensor::from_data(data, device))),
            (1, false) => {
                let param = Param::initialized(ParamId::new(), Tensor::from_data(data, device));
                ParamRank::MovingAverage(MovingAverage(Mutex::new(param.set_require_grad(false))))
            }
            _ => {
                let what = format!("weight {:?} of shape {shape}", plan.name);
                return Err(Error::new(Code::ShapeMismatch, what)
                    .because("a weight has one to four axes, a moving average one"));
            }
        };
        Ok(Self { name: plan.name, shape, trainable: plan.trainable, held })
    }

    /// Returns its values.
    pub(crate) fn values(&self) -> Result<Vec<f32>> {
        let elsewhere = || {
            Error::new(Code::NoSuchVariable, format!("the rows of weight {:?} are on the parameter servers", self.name))
                .help("Compiled::weights fetches them")
        };
        let data = read!(&self.held, param => param.val().into_data(), elsewhere => return Err(elsewhere()));
        data.try_into_vec::<f32>().map_err(|error| {
            Error::new(Code::ShapeMismatch, format!("weight {:?} does not hold 32-bit floats", self.name))
                .because(format!("{error:?}"))
        })
    }

    /// Replaces its values.
    pub(crate) fn set(&mut self, values: Vec<f32>) -> Result<()> {
        if values.len() != self.shape.elements() {
            let what = format!("weight {:?} of shape {} was given {} numbers", self.name, self.shape, values.len());
            return Err(Error::new(Code::ShapeMismatch, what).because(format!("it holds {}", self.shape.elements())));
        }
        let data = TensorData::new(values, self.shape.dims().to_vec());
        if matches!(self.held, ParamRank::Elsewhere) {
            let tensor = Tensor::from_data(data, &crate::default_device());
            self.held = ParamRank::R2(Param::from_tensor(tensor));
            return Ok(());
        }
        self.held = changed!(self.held.clone(), param => param.map(|old| {
            Tensor::from_data(data, &old.device()).set_require_grad(old.is_require_grad())
        }));
        Ok(())
    }

    /// Returns whether it has values that something has read or set. A table has none until then.
    pub(crate) fn is_created(&self) -> bool {
        match &self.held {
            ParamRank::R2(param) => param.is_initialized(),
            ParamRank::Elsewhere => false,
            _ => true,
        }
    }

    /// Drops the values of a table, whose rows are elsewhere.
    pub(crate) fn leave_out(&mut self) {
        self.held = ParamRank::Elsewhere;
    }

    /// Returns whether the rows are elsewhere.
    pub(crate) fn is_elsewhere(&self) -> bool {
        matches!(self.held, ParamRank::Elsewhere)
    }

    fn change(self, change: impl FnOnce(ParamRank) -> ParamRank) -> Self {
        Self { held: change(self.held), ..self }
    }
}

impl Module for Weight {
    fn collect_devices(&self, devices: Devices) -> Devices {
        read!(&self.held, param => param.collect_devices(devices), elsewhere => devices)
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
        read!(&self.held, param => param.visit(visitor), elsewhere => {});
    }

    fn map<M: ModuleMapper>(self, mapper: &mut M) -> Self {
        self.change(|held| changed!(held, param => Module::map(param, mapper)))
    }
}

/// Returns a table, which is created when its values are first used: where its rows are elsewhere, it never is.
fn table(plan: &WeightPlan, seed: u64, device: &Device) -> Option<ParamRank> {
    let (&[rows, dim], true) = (plan.dims.as_slice(), plan.looked_up) else { return None };
    let initializer = plan.initializer.by_row(&plan.dims, seed)?;
    let create = move |device: &Device, learns: bool| {
        Tensor::<2>::from_data(TensorData::new(initializer.table(rows, dim), [rows, dim]), device)
            .set_require_grad(learns)
    };
    Some(ParamRank::R2(Param::uninitialized(ParamId::new(), create, device.clone(), true, [rows, dim].into())))
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
            /// If the planned weight at this index is of another kind.
            pub fn $name(&self, at: usize) -> Result<$result> {
                match self.0.get(at).map(|weight| &weight.held) {
                    Some(ParamRank::$variant($held)) => Ok($body),
                    _ => Err(not_planned(at, stringify!($name))),
                }
            })*
        }
    };
}

getters! {
    /// Returns a weight with one axis.
    vector R1 Tensor<1> = param => param.val();
    /// Returns a weight with two axes.
    matrix R2 Tensor<2> = param => param.val();
    /// Returns a weight with three axes.
    cube R3 Tensor<3> = param => param.val();
    /// Returns a weight with four axes.
    kernel R4 Tensor<4> = param => param.val();
    /// Returns a moving average.
    moving MovingAverage &'a MovingAverage = moving => moving;
}

fn not_planned(at: usize, kind: &str) -> Error {
    Error::new(Code::Internal, format!("weight {at} of the layer is not a {kind}"))
        .because("the layer uses other weights than it planned")
}
