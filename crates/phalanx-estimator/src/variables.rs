//! The dense variables of canned models, under the names of TensorFlow's checkpoints.

use phalanx_base::{Result, Shape};
use phalanx_nn::model::Initializer;
use phalanx_nn::{Parameter, ParameterValues};

/// The plan of a variable.
#[derive(Clone, Debug)]
pub(crate) struct VariablePlan {
    pub(crate) name: String,
    pub(crate) dims: Vec<usize>,
    pub(crate) initializer: Initializer,
}

/// Returns the planned variables with their initial values, each with its own seed.
pub(crate) fn initial_values(plans: &[VariablePlan], seed: u64) -> Result<ParameterValues> {
    let make = |plan: &VariablePlan| {
        let values = plan.initializer.values(&plan.dims, seed_of(&plan.name, seed));
        Ok((Parameter { name: plan.name.clone(), shape: Shape::new(plan.dims.clone())? }, values))
    };
    Ok(ParameterValues::new(plans.iter().map(make).collect::<Result<Vec<_>>>()?))
}

/// Returns a seed that depends only on the name, so that a variable's start does not depend on the others.
pub(crate) fn seed_of(name: &str, seed: u64) -> u64 {
    phalanx_formats::fingerprint::fingerprint64(name.as_bytes()) ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
