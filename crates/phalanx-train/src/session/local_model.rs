//! A trainer's own copy of the model.

use super::{RowValues, StepGradients};
use bytes::Bytes;
use phalanx_base::{Code, Error, Result, Shape};
use phalanx_nn::{HostBuffer, Parameter, ParameterRegistry, Parameters};
use phalanx_ps::client::PulledValues;

/// The module that a trainer computes with, and the names of its parameters.
pub(crate) struct LocalModel<M> {
    registry: ParameterRegistry,
    /// `None` only while values are being put into it.
    module: Option<M>,
    /// Whether the servers keep the moving averages of the model, as variables that follow its own.
    moving_averages: bool,
}

impl<M: Parameters> LocalModel<M> {
    pub(crate) fn new(registry: ParameterRegistry, module: M, moving_averages: bool) -> Self {
        Self { registry, module: Some(module), moving_averages }
    }

    pub(super) fn registry(&self) -> &ParameterRegistry {
        &self.registry
    }

    pub(super) fn module(&self) -> Result<&M> {
        self.module.as_ref().ok_or_else(gone)
    }

    /// Changes the model, not its values.
    pub(super) fn change(&mut self, change: impl FnOnce(M) -> M) {
        self.module = self.module.take().map(change);
    }

    /// Puts values that came from the servers into the module; `None` leaves a variable as it is.
    pub(super) fn load(&mut self, values: Vec<Option<PulledValues>>) -> Result<()> {
        let values = values.into_iter().map(|values| values.map(HostBuffer::from_owner).transpose());
        let mut values: Vec<Option<HostBuffer>> = values.collect::<Result<_>>()?;
        let states = values.split_off(self.registry.parameters().len().min(values.len()));
        let module = self.registry.load(self.module.take().ok_or_else(gone)?, values);
        self.module = Some(if states.iter().all(Option::is_none) {
            module
        } else {
            let present = self.registry.state_values(&module)?;
            let states = states.into_iter().zip(present).map(|(new, old)| new.unwrap_or(old).into()).collect();
            self.registry.load_states(module, states)
        });
        Ok(())
    }

    /// Computes a step's gradients on the present values. Only the update changes them, moving averages among them.
    pub(super) fn compute(
        &mut self,
        rows: Vec<RowValues>,
        compute: impl FnOnce(&M, &ParameterRegistry, Vec<RowValues>) -> Result<StepGradients>,
    ) -> Result<StepGradients> {
        let module = self.module()?;
        let states = self.registry.state_values(module)?;
        let computed = compute(module, &self.registry, rows);
        if self.moving_averages {
            let module = self.module.take().ok_or_else(gone)?;
            self.module = Some(self.registry.load_states(module, states.into_iter().map(Vec::from).collect()));
        }
        computed
    }

    /// Returns the present values of all variables, with their names and shapes.
    pub(super) fn values(&self) -> Result<Vec<(String, Shape, Vec<f32>)>> {
        let variable = |(parameter, values): (&Parameter, HostBuffer)| {
            (parameter.name.clone(), parameter.shape.clone(), values.into())
        };
        Ok(self.variables()?.map(variable).collect())
    }

    /// Returns all variables with their present values.
    pub(super) fn variables(&self) -> Result<impl Iterator<Item = (&Parameter, HostBuffer)>> {
        let states = if self.moving_averages { self.registry.states() } else { &[] };
        let variables = self.registry.parameters().iter().chain(states);
        Ok(variables.zip(variable_values(&self.registry, self.module()?, self.moving_averages)?))
    }

    /// Returns the values of a module of the same kind, as the servers take them.
    pub(super) fn wire_values_of(&self, module: &M) -> Result<Vec<Bytes>> {
        wire_values(&ParameterRegistry::beside_tables(module)?, module, self.moving_averages)
    }
}

/// Returns a module's values, one for each variable on the servers, as the client sends them: without a copy.
pub(crate) fn wire_values<M: Parameters>(
    registry: &ParameterRegistry,
    module: &M,
    moving_averages: bool,
) -> Result<Vec<Bytes>> {
    Ok(variable_values(registry, module, moving_averages)?.into_iter().map(Bytes::from_owner).collect())
}

fn variable_values<M: Parameters>(
    registry: &ParameterRegistry,
    module: &M,
    moving_averages: bool,
) -> Result<Vec<HostBuffer>> {
    let mut values = registry.values(module)?;
    if moving_averages {
        values.extend(registry.state_values(module)?);
    }
    Ok(values)
}

fn gone() -> Error {
    Error::new(Code::Internal, "the model is gone").because("an earlier step of this session did not end")
}
