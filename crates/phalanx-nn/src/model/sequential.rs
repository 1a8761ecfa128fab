//! Sequential models.

use super::functional::{Model, ModelOptions};
use super::graph::{Input, Symbol};
use super::layer::Layer;
use phalanx_base::Result;
use std::sync::Arc;

/// A list of layers, each of which takes the output of the previous one. `build` turns it into a [`Model`].
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
    /// Returns a model without layers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a layer.
    // Keras' name; it is no arithmetic.
    #[allow(clippy::should_implement_trait)]
    #[must_use]
    pub fn add(mut self, layer: impl Layer) -> Self {
        self.layers.push(Arc::new(layer));
        self
    }

    setters! {
        /// Sets the seed of the weights. The default is 0.
        seed: u64 => seed;
    }

    /// Sets the name of the model. The default is `sequential`.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Builds the model for inputs of this shape, without the batch.
    ///
    /// # Errors
    /// If a layer does not accept the output of the previous one. The error names it and shows both shapes.
    pub fn build(&self, input: impl Into<Vec<usize>>) -> Result<Model> {
        let input = Input::new(input);
        let mut output = input.clone();
        for layer in &self.layers {
            output = Symbol::after(Arc::clone(layer), (&output).into());
        }
        let name = self.name.as_deref().unwrap_or("sequential");
        Model::build(&[&input], &[&output], ModelOptions { sequential: true, name: name.to_owned(), seed: self.seed })
    }
}
