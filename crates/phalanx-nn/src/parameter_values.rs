//! The parameters of a model that is a graph.

use crate::{HostBuffer, Parameter, ParameterKey, ParameterRegistry, Parameters};
use phalanx_base::{Code, Error, Result};
use std::sync::Arc;

/// Parameters with their values, in the order of a graph. Copies share the values.
///
/// ```
/// use phalanx_base::Shape;
/// use phalanx_nn::{Parameter, ParameterRegistry, ParameterValues};
/// let bias = Parameter { name: "bias".into(), shape: Shape::new([2])? };
/// let values = ParameterValues::new([(bias, vec![0.5, 1.5])]);
/// let registry = ParameterRegistry::of(&values)?;
/// assert_eq!((registry.parameters()[0].name.as_str(), values.slices()), ("bias", vec![&[0.5, 1.5][..]]));
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ParameterValues {
    parameters: Arc<[Parameter]>,
    values: Vec<Arc<HostBuffer>>,
}

impl ParameterValues {
    /// Takes parameters with their values.
    #[must_use]
    pub fn new(all: impl IntoIterator<Item = (Parameter, Vec<f32>)>) -> Self {
        let of = |(parameter, values): (Parameter, Vec<f32>)| (parameter, Arc::new(values.into()));
        let (parameters, values): (Vec<Parameter>, _) = all.into_iter().map(of).unzip();
        Self { parameters: parameters.into(), values }
    }

    /// Returns the values of all parameters.
    #[must_use]
    pub fn slices(&self) -> Vec<&[f32]> {
        self.values.iter().map(|values| &***values).collect()
    }
}

impl Parameters for ParameterValues {
    fn parameter_registry(&self) -> Result<ParameterRegistry> {
        let keys = (0..self.parameters.len() as u64).map(ParameterKey).collect();
        Ok(ParameterRegistry { parameters: self.parameters.to_vec(), keys, states: Vec::new(), state_keys: Vec::new() })
    }

    fn parameter_values(&self, keys: &[ParameterKey]) -> Result<Vec<HostBuffer>> {
        let of = |key: &ParameterKey| {
            let values = self.values.get(key.0 as usize).map(|values| HostBuffer::clone(values));
            values.ok_or_else(|| Error::new(Code::Internal, format!("the model has no parameter {}", key.0)))
        };
        keys.iter().map(of).collect()
    }

    fn with_parameter_values(mut self, keys: &[ParameterKey], _: bool, values: Vec<Option<HostBuffer>>) -> Self {
        for (key, new) in keys.iter().zip(values) {
            if let (Some(new), Some(own)) = (new, self.values.get_mut(key.0 as usize)) {
                *own = Arc::new(new);
            }
        }
        self
    }

    fn for_inference(&self) -> Self {
        self.clone()
    }

    fn for_replica(&self) -> Self {
        self.clone()
    }
}
