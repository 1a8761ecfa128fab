//! From a step's gradients to an update.

use super::clip::GradientClipper;
use super::measures::{LearningRates, NormRequest};
use super::{NonFinite, StepGradients};
use crate::Server;
use bytes::Bytes;
use phalanx_base::{Code, Error, Result};
use phalanx_nn::{HostBuffer, ParameterRegistry, all_finite};
use phalanx_ps::Layout;
use phalanx_ps::client::{RowGradients, RowSet};

/// What a trainer does to gradients before it sends them.
pub(super) struct GradientPolicy {
    pub(super) non_finite: NonFinite,
    /// The learning rate of dense gradients, where it differs from that of the supervisor's optimizer.
    pub(super) learning_rate: Option<f32>,
    /// The steps that were dropped because something was not finite.
    pub(super) skipped: u64,
    /// A request for the norm before clipping.
    pub(super) norm: NormRequest,
    clipper: GradientClipper,
    rates: LearningRates,
}

/// The gradients of an update: those of variables, and those of rows.
pub(super) type UpdateGradients = (Vec<Option<Bytes>>, Vec<RowGradients>);

impl GradientPolicy {
    /// `parameters`: how many of the variables are learned.
    pub(super) fn new(layout: &Layout, parameters: usize, non_finite: NonFinite) -> Self {
        let (clipper, rates) = (GradientClipper::of(layout), LearningRates::of(layout, parameters));
        Self { non_finite, learning_rate: None, skipped: 0, norm: NormRequest::default(), clipper, rates }
    }

    /// Returns the learning rates of an update that is computed at global step `step`.
    pub(super) fn learning_rates(&self, step: u64) -> Vec<f32> {
        self.rates.at(step, self.learning_rate)
    }

    /// Checks and clips the gradients of the step that is to become update number `step`. `None` if they are dropped.
    pub(super) fn apply(
        &mut self,
        (server, registry, layout): (&Server, &ParameterRegistry, &Layout),
        step: u64,
        computed: StepGradients,
        sets: Vec<RowSet>,
    ) -> Result<Option<UpdateGradients>> {
        let StepGradients { loss, mut dense, rows, .. } = computed;
        // What is missing at the end has no gradient.
        dense.resize_with(layout.variables().len(), || None);
        let mut rows: Vec<(RowSet, HostBuffer)> =
            sets.into_iter().zip(rows).filter_map(|(set, gradients)| Some((set, gradients?))).collect();
        check_sizes(layout, &dense, &rows)?;
        if let Some(what) = not_finite(registry, layout, loss, &dense, &rows) {
            let place = format!("{}, step {step}", server.known_as());
            if self.non_finite == NonFinite::Stop {
                return Err(Error::new(Code::NotFinite, what)
                    .at(place)
                    .because("it contains NaN or an infinity")
                    .help("lower the learning rate, look for bad values in the input, or skip such steps (non_finite_steps = \"skip\" in [train], NonFinite::Skip in a program)"));
            }
            self.skipped += 1;
            server.in_scope(|| tracing::warn!(step, "step skipped: {what} ({place})"));
            return Ok(None);
        }
        self.clipper.apply(layout, &mut dense, &mut rows);
        let dense = dense.into_iter().map(|gradient| gradient.map(Bytes::from_owner)).collect();
        let of = |(set, gradients)| RowGradients { set, gradients: Bytes::from_owner(gradients) };
        Ok(Some((dense, rows.into_iter().map(of).collect())))
    }
}

/// Refuses gradients of another size than what they change.
fn check_sizes(layout: &Layout, dense: &[Option<HostBuffer>], rows: &[(RowSet, HostBuffer)]) -> Result<()> {
    let variables =
        layout.variables().iter().zip(dense).filter_map(|(variable, gradient)| {
            Some((&variable.name, variable.shape.elements(), gradient.as_ref()?.len()))
        });
    let tables = rows.iter().map(|(set, gradients)| {
        let table = &layout.tables()[set.table()];
        (&table.name, set.unique().len() * table.dim, gradients.len())
    });
    match variables.chain(tables).find(|(_, expected, found)| expected != found) {
        Some((name, expected, found)) => {
            Err(Error::new(Code::ShapeMismatch, format!("the gradient of {name:?} has {found} numbers"))
                .because(format!("a step's gradient of it has {expected}"))
                .help("return one number for each number of a variable, and of each unique row"))
        }
        None => Ok(()),
    }
}

fn not_finite(
    registry: &ParameterRegistry,
    layout: &Layout,
    loss: Option<f32>,
    dense: &[Option<HostBuffer>],
    rows: &[(RowSet, HostBuffer)],
) -> Option<String> {
    let parameters = registry.parameters().iter().map(|parameter| &parameter.name);
    let bad = |gradient: &Option<HostBuffer>| gradient.as_ref().is_some_and(|numbers| !all_finite(numbers));
    if let Some((name, _)) = parameters.zip(dense).find(|(_, gradient)| bad(gradient)) {
        return Some(format!("the gradient of {name:?} is not finite"));
    }
    if let Some((set, _)) = rows.iter().find(|(_, numbers)| !all_finite(numbers)) {
        let name = &layout.tables()[set.table()].name;
        return Some(format!("the gradient of table {name:?} is not finite"));
    }
    loss.is_some_and(|loss| !loss.is_finite()).then(|| "the loss is not finite".to_owned())
}
