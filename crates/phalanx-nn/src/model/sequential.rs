//! Layers one after the other.

use super::functional::{Model, Style};
use super::graph::{Input, Symbol};
use super::layer::Layer;
use phalanx_base::Result;
use std::sync::Arc;

/// A list of layers, each fed by the one before. It becomes a [`Model`] when the shape of its input is known.
///
/// ```
/// use phalanx_nn::model::{Dense, Function, Sequential};
/// let layers = Sequential::new().add(Dense::new(4).activation(Function::Relu)).add(Dense::new(1)).seed(7);
/// let model = layers.build([3])?;
/// assert_eq!(model.count_params(), 3 * 4 + 4 + 4 + 1);
/// # Ok::<(), phalanx_nn::model::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Sequential {
    layers: Vec<Arc<dyn Layer>>,
    name: Option<String>,
    seed: u64,
}

impl Sequential {
    /// No layers yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With one layer more.
    // Keras' name for it; it adds no numbers.
    #[allow(clippy::should_implement_trait)]
    #[must_use]
    pub fn add(mut self, layer: impl Layer) -> Self {
        self.layers.push(Arc::new(layer));
        self
    }

    /// What the weights start from: the same seed gives the same weights. 0 unless set.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Gives the model a name; `sequential` unless set.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Makes the model for inputs of these extents, the batch not among them.
    ///
    /// # Errors
    /// When a layer cannot take what the one before gives: the error names it and shows both shapes.
    pub fn build(&self, input: impl Into<Vec<usize>>) -> Result<Model> {
        let input = Input::new(input);
        let mut output = input.clone();
        for layer in &self.layers {
            output = Symbol::after(Arc::clone(layer), (&output).into());
        }
        let name = self.name.as_deref().unwrap_or("sequential");
        Model::build(&[&input], &[&output], Style { sequential: true, name: name.to_owned(), seed: self.seed })
    }
}
