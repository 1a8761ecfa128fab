//! What the chief writes about a step, on the steps whose summaries are due.

use super::{Session, StepGradients};
use crate::summary::SummaryWriter;
use phalanx_base::Result;
use phalanx_nn::Parameters;
use phalanx_optim::{Optimizer, norm};
use phalanx_ps::Layout;

/// The different learning rates of a model.
pub(super) struct LearningRates(Vec<Rate>);

#[derive(Clone, Copy)]
struct Rate {
    optimizer: Optimizer,
    /// Whether a rate that a trainer sets replaces that of the optimizer.
    can_be_set: bool,
}

impl LearningRates {
    /// The rates of the first `parameters` variables, which are learned, and of the tables.
    pub(super) fn of(layout: &Layout, parameters: usize) -> Self {
        let variables = layout.variables().iter().take(parameters).enumerate();
        let variables = variables.map(|(at, of)| Rate { optimizer: of.optimizer, can_be_set: !layout.keeps_rate(at) });
        let as_variables: Vec<usize> = layout.as_variables().collect();
        let tables = layout.tables().iter().enumerate();
        let tables = tables.map(|(at, of)| Rate { optimizer: of.optimizer, can_be_set: as_variables.contains(&at) });
        let mut rates: Vec<Rate> = Vec::new();
        for rate in variables.chain(tables) {
            if !rates.iter().any(|known| known.is_like(&rate)) {
                rates.push(rate);
            }
        }
        Self(rates)
    }

    /// Returns the rates of an update that is computed at `step`, where the trainer has set one or has not.
    pub(super) fn at(&self, step: u64, set: Option<f32>) -> Vec<f32> {
        let rate = |rate: &Rate| match set.filter(|_| rate.can_be_set) {
            Some(set) => set,
            None => rate.optimizer.schedule().map_or(rate.optimizer.learning_rate(), |schedule| schedule.at(step)),
        };
        self.0.iter().map(rate).collect()
    }
}

impl Rate {
    fn is_like(&self, other: &Self) -> bool {
        let parts = |rate: &Self| (rate.optimizer.schedule(), rate.optimizer.learning_rate(), rate.can_be_set);
        parts(self) == parts(other)
    }
}

/// A request for the norm of the gradients of a step, and its answer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NormRequest {
    wanted: bool,
    norm: Option<f32>,
}

impl NormRequest {
    pub(crate) fn want(&mut self) {
        self.wanted = true;
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// Answers the request.
    pub(crate) fn set(&mut self, norm: f32) {
        *self = Self { wanted: false, norm: Some(norm) };
    }

    /// Takes the answer, if there is one.
    pub(crate) fn take(&mut self) -> Option<f32> {
        self.norm.take()
    }
}

/// The measures of a step.
pub(super) struct StepMeasures {
    loss: Option<f32>,
    gradient_norm: f32,
    learning_rates: Vec<f32>,
    /// How many updates of each age the servers have applied.
    staleness: Vec<u64>,
}

impl<M: Parameters> Session<M> {
    /// Measures a step, if its summaries are due or its norm is wanted.
    pub(super) fn measure(&mut self, computed: &StepGradients) -> Option<StepMeasures> {
        let parameters = self.local.registry().parameters().len();
        if self.gradients.norm.is_wanted() {
            self.gradients.norm.set(computed.norm(parameters));
        }
        if !self.services.summaries_are_due(self.clock.global_step + 1) {
            return None;
        }
        Some(StepMeasures {
            loss: computed.loss,
            gradient_norm: computed.norm(parameters),
            learning_rates: self.gradients.learning_rates(self.clock.base_version),
            // A server that does not answer is handled by the next exchange.
            staleness: self.connection.client.describe(0).map(|found| found.staleness).unwrap_or_default(),
        })
    }

    /// Writes the measures of a step that has been made, under the global step that it becomes.
    pub(super) fn write(&mut self, measures: &StepMeasures) -> Result<()> {
        let step = self.clock.global_step + 1;
        self.services.write_rate(step);
        let summaries: &SummaryWriter = &self.services.summaries;
        if let Some(loss) = measures.loss {
            summaries.scalar(step, "loss", loss);
        }
        summaries.scalar(step, "gradient_norm", measures.gradient_norm);
        summaries.learning_rates(step, &measures.learning_rates);
        summaries.counts(step, "staleness", &measures.staleness);
        if self.services.histograms {
            self.local.variables()?.for_each(|(variable, values)| summaries.histogram(step, &variable.name, &values));
        }
        Ok(())
    }
}

impl StepGradients {
    /// Returns the L2 norm of the gradients of the first `parameters` variables, and of all rows. What follows are the changes
    /// of moving averages.
    fn norm(&self, parameters: usize) -> f32 {
        let dense = self.dense.iter().take(parameters).flatten();
        let rows = self.rows.iter().flatten().chain(self.looked_up.iter().map(|(_, _, rows)| rows));
        norm(dense.chain(rows).map(|numbers| &**numbers)) as f32
    }
}
