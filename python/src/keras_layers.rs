//! The layers of `phalanx.keras`.

use crate::data_sources::no_such;
use phalanx::layers::{
    Activation, AveragePooling2D, BatchNormalization, Conv2D, Dense, Dropout, Embedding, Flatten,
    GlobalAveragePooling2D, LayerNormalization, MaxPooling2D, Padding, Reshape,
};
use phalanx::model::{Function, Model, Sequential};
use phalanx_base::Result;
use pyo3::prelude::*;

/// A layer: its class in Keras, its sizes, its number, its activation, and whether its padding is `same`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct LayerOf {
    kind: String,
    sizes: Vec<isize>,
    rate: f64,
    activation: String,
    same: bool,
}

impl LayerOf {
    /// Returns a size; layers are made with as many as they have.
    fn size(&self, at: usize) -> usize {
        self.sizes.get(at).copied().unwrap_or(0).max(0).cast_unsigned()
    }

    fn pair(&self, at: usize) -> [usize; 2] {
        [self.size(at), self.size(at + 1)]
    }

    fn padding(&self) -> Padding {
        if self.same { Padding::Same } else { Padding::Valid }
    }

    fn add_to(&self, model: Sequential) -> Result<Sequential> {
        let activation: Function = self.activation.parse()?;
        Ok(match self.kind.as_str() {
            "Dense" => model.add(Dense::new(self.size(0)).activation(activation)),
            "Activation" => model.add(Activation::new(activation)),
            "Dropout" => model.add(Dropout::new(self.rate)),
            "Embedding" => model.add(Embedding::new(self.size(0), self.size(1))),
            "Flatten" => model.add(Flatten::new()),
            "Reshape" => model.add(Reshape::new(self.sizes.clone())),
            "BatchNormalization" => model.add(BatchNormalization::new().momentum(self.rate)),
            "LayerNormalization" => model.add(LayerNormalization::new()),
            "Conv2D" => {
                let layer = Conv2D::new(self.size(0), self.pair(1)).strides(self.pair(3)).padding(self.padding());
                model.add(layer.activation(activation))
            }
            "MaxPooling2D" => model.add(MaxPooling2D::new(self.pair(0)).strides(self.pair(2)).padding(self.padding())),
            "AveragePooling2D" => {
                model.add(AveragePooling2D::new(self.pair(0)).strides(self.pair(2)).padding(self.padding()))
            }
            "GlobalAveragePooling2D" => model.add(GlobalAveragePooling2D::new()),
            other => return Err(no_such("a layer", other, &["Dense", "Conv2D", "Embedding"])),
        })
    }
}

/// Builds a model of these layers.
pub(crate) fn model(layers: &[LayerOf], input_shape: &[usize], seed: u64) -> Result<Model> {
    let model = layers.iter().try_fold(Sequential::new().seed(seed), |model, layer| layer.add_to(model))?;
    model.build(input_shape)
}
