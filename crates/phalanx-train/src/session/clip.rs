//! Clips a step's gradients before they are sent.

use phalanx_nn::HostBuffer;
use phalanx_optim::Optimizer;
use phalanx_ps::Layout;
use phalanx_ps::client::RowSet;

/// The optimizers of a model that clip gradients.
///
/// A trainer clips its own gradients, because only it has all of a step: servers hold parts of the model.
#[derive(Default)]
pub(super) struct GradientClipper(Vec<Optimizer>);

impl GradientClipper {
    pub(super) fn of(layout: &Layout) -> Self {
        let variables = layout.variables().iter().map(|variable| variable.optimizer);
        let mut all: Vec<Optimizer> = Vec::new();
        for optimizer in variables.chain(layout.tables().iter().map(|table| table.optimizer)) {
            if optimizer.clip().is_some() && !all.contains(&optimizer) {
                all.push(optimizer);
            }
        }
        Self(all)
    }

    /// Clips the gradients of all variables and rows that have such an optimizer.
    pub(super) fn apply(&self, layout: &Layout, dense: &mut [Option<HostBuffer>], rows: &mut [(RowSet, HostBuffer)]) {
        for optimizer in &self.0 {
            let Some(clip) = optimizer.clip() else { continue };
            let variables = layout.variables().iter().zip(&mut *dense);
            let variables = variables.filter(|(variable, _)| variable.optimizer == *optimizer);
            let variables = variables.filter_map(|(_, gradient)| gradient.as_deref_mut());
            let tables = rows.iter_mut().filter(|(set, _)| layout.tables()[set.table()].optimizer == *optimizer);
            clip.apply(variables.chain(tables.map(|(_, gradient)| &mut **gradient)));
        }
    }
}
