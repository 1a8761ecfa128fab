//! The curves of a `fit` in its run directory, which nobody has to ask for.

use super::{Callback, FitContext};
use crate::SummaryWriter;
use crate::fit::Logs;
use crate::summary::{SummaryInterval, SummarySchedule};
use phalanx_base::Result;
use std::sync::Arc;
use std::time::Instant;

/// Writes losses and metrics, the learning rate, the norm of the gradients and the rate of training, where the job has a run
/// directory.
pub(in crate::fit) struct RunSummaries {
    writer: Option<Arc<SummaryWriter>>,
    schedule: SummarySchedule,
}

impl RunSummaries {
    pub(in crate::fit) fn new() -> Self {
        Self { writer: None, schedule: SummarySchedule::new(Some(SummaryInterval::Growing)) }
    }
}

impl Callback for RunSummaries {
    fn on_train_begin(&mut self, cx: &mut FitContext<'_>) -> Result<()> {
        self.writer = cx.model.summaries()?;
        if let (Some(_), Some(request)) = (&self.writer, cx.model.norm_request()) {
            request.want();
        }
        Ok(())
    }

    fn on_train_batch_end(&mut self, cx: &mut FitContext<'_>, _: u64, logs: &Logs) -> Result<()> {
        let Some(writer) = &self.writer else { return Ok(()) };
        let (step, now) = (cx.iterations(), Instant::now());
        if !self.schedule.is_due(now, step) {
            return Ok(());
        }
        let Some(request) = cx.model.norm_request() else { return Ok(()) };
        let Some(norm) = request.take() else {
            // Steps are measured until the first of them is reported.
            request.want();
            return Ok(());
        };
        logs.iter().for_each(|(name, number)| writer.scalar(step, name, number as f32));
        writer.learning_rates(step, &[cx.learning_rate()]);
        writer.scalar(step, "gradient_norm", norm);
        let rate = self.schedule.written(now, step);
        // The chief of a job with parameter servers writes the rate whatever it trains.
        if let Some(rate) = rate.filter(|_| cx.model.strategy().servers().is_none()) {
            writer.scalar(step, "global_step/sec", rate);
        }
        Ok(())
    }

    fn on_test_end(&mut self, cx: &mut FitContext<'_>, logs: &Logs) -> Result<()> {
        if let Some(writer) = &self.writer {
            logs.iter().for_each(|(name, number)| writer.scalar(cx.iterations(), name, number as f32));
        }
        Ok(())
    }

    fn on_train_end(&mut self, _: &mut FitContext<'_>, _: &Logs) -> Result<()> {
        // Dropping a writer of this training flushes it.
        self.writer = None;
        Ok(())
    }
}
