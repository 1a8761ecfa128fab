//! Metrics that steps update: what a step adds on its worker, and the sums on the chief.

use super::codec::{decode, encode};
use bytes::Bytes;
use phalanx_base::{Code, Error, Result};
use phalanx_nn::metrics::Metric;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What the step that runs has added to each metric.
pub(super) struct StepMetrics(Vec<StepMetric>);

struct StepMetric {
    metric: Box<dyn Metric>,
    updated: bool,
}

/// The states of the metrics that a step has updated, by their indexes.
pub(super) type MetricWords = Vec<(u32, Vec<f64>)>;

impl StepMetrics {
    pub(super) fn new<'a>(registered: impl Iterator<Item = &'a dyn Metric>) -> Self {
        Self(registered.map(|metric| StepMetric { metric: metric.fresh(), updated: false }).collect())
    }

    /// Forgets what the step before has added.
    pub(super) fn begin(&mut self) {
        for own in self.0.iter_mut().filter(|own| own.updated) {
            own.metric.reset();
            own.updated = false;
        }
    }

    /// Returns a metric to be updated.
    pub(super) fn metric(&mut self, index: usize) -> Result<&mut dyn Metric> {
        let own = self.0.get_mut(index).ok_or_else(no_such_metric)?;
        own.updated = true;
        Ok(&mut *own.metric)
    }

    /// Returns what the step has added, for its report; nothing where it has updated none.
    pub(super) fn encode(&self) -> Result<Bytes> {
        let words: MetricWords = (0..)
            .zip(&self.0)
            .filter(|(_, own)| own.updated)
            .map(|(index, own)| (index, own.metric.to_words()))
            .collect();
        if words.is_empty() { Ok(Bytes::new()) } else { encode("the state of its metrics", &words) }
    }
}

/// The chief's sums over all committed steps since they were reset.
pub(super) struct MetricSums(Mutex<Vec<Box<dyn Metric>>>);

impl MetricSums {
    pub(super) fn new<'a>(registered: impl Iterator<Item = &'a dyn Metric>) -> Self {
        Self(Mutex::new(registered.map(Metric::fresh).collect()))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Box<dyn Metric>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decodes what a step has added, and checks that it fits.
    pub(super) fn decode(&self, bytes: &[u8]) -> Result<MetricWords> {
        if bytes.is_empty() {
            return Ok(Vec::new());
        }
        let words: MetricWords = decode("the state of a step's metrics", bytes)?;
        let metrics = self.lock();
        let fits = |(index, words): &(u32, Vec<f64>)| {
            metrics.get(*index as usize).is_some_and(|metric| metric.state().len() == words.len())
        };
        if words.iter().all(fits) { Ok(words) } else { Err(no_such_metric()) }
    }

    /// Adds what [`Self::decode`] returned.
    pub(super) fn merge(&self, words: &MetricWords) -> Result<()> {
        let mut metrics = self.lock();
        for (index, words) in words {
            metrics.get_mut(*index as usize).ok_or_else(no_such_metric)?.merge(words)?;
        }
        Ok(())
    }

    pub(super) fn result(&self, index: usize) -> Result<f64> {
        self.lock().get(index).map(|metric| metric.result()).ok_or_else(no_such_metric)
    }

    pub(super) fn reset(&self) {
        self.lock().iter_mut().for_each(|metric| metric.reset());
    }
}

fn no_such_metric() -> Error {
    Error::new(Code::BadMessage, "a step has updated a metric that the chief does not have")
        .because("the tasks have registered different metrics")
        .help("register the same metrics, in the same order, on every task")
}
