//! The model: two convolutions, a hidden layer, ten classes.

use phalanx::burn::tensor::{Device, Tensor};
use phalanx::estimator::{Served, ServingInput};
use phalanx::layers::{Conv2D, Dense, Dropout, Flatten, MaxPooling2D, Reshape};
use phalanx::model::Value;
use phalanx::prelude::*;

/// What TensorFlow calls a `model_fn`.
#[derive(Clone)]
pub(crate) struct Clothes {
    /// Where the weights begin.
    pub(crate) seed: u64,
}

impl ModelFn for Clothes {
    type Module = Model;

    fn head(&self) -> Head {
        Head::classes(10)
    }

    fn module(&self, _: &Device) -> phalanx::Result<Model> {
        let relu = Function::Relu;
        let layers = Sequential::new()
            .add(Reshape::new([28, 28, 1]))
            .add(Conv2D::new(32, [3, 3]).activation(relu))
            .add(MaxPooling2D::new([2, 2]))
            .add(Conv2D::new(64, [3, 3]).activation(relu))
            .add(MaxPooling2D::new([2, 2]))
            .add(Flatten::new())
            .add(Dropout::new(0.3))
            .add(Dense::new(128).activation(relu))
            .add(Dense::new(10));
        layers.seed(self.seed).build([28, 28])
    }

    fn optimizer(&self) -> Optimizer {
        Adam::new(1e-3).into()
    }

    fn logits(&self, module: &Model, batch: &Batch, mode: Mode) -> phalanx::Result<Tensor<2>> {
        let pixels = batch.f32("image")?.to_vec();
        module.forward(Value::floats(pixels, &[batch.rows(), 28, 28], &default_device())?, mode)
    }

    fn served(&self, input: ServingInput) -> phalanx::Result<Served> {
        Served::of_model(&self.module(&default_device())?, input, &["image"])
    }
}
