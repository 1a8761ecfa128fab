//! The model: two convolutions, a hidden layer, ten classes.

use crate::network::cnn;
use phalanx::burn::tensor::{Device, Tensor};
use phalanx::estimator::{Served, ServingInput};
use phalanx::model::DynTensor;
use phalanx::prelude::*;

/// The model, TensorFlow's `model_fn`.
#[derive(Clone)]
pub(crate) struct Clothes {
    /// The seed of the weights.
    pub(crate) seed: u64,
}

impl ModelFn for Clothes {
    type Module = Model;

    fn spec(&self) -> EstimatorSpec {
        EstimatorSpec::new(Head::classes(10), Adam::new(1e-3))
    }

    fn module(&self, _: &Device) -> phalanx::Result<Model> {
        cnn().seed(self.seed).build([28, 28])
    }

    fn logits(&self, module: &Model, batch: &ModelInput<'_>, mode: Mode) -> phalanx::Result<Tensor<2>> {
        let pixels = batch.f32("image")?.to_vec();
        module.forward(DynTensor::floats(pixels, &[batch.rows(), 28, 28], &default_device())?, mode)
    }

    fn served(&self, input: ServingInput) -> phalanx::Result<Served> {
        Served::of_model(&self.module(&default_device())?, input, &["image"])
    }
}
