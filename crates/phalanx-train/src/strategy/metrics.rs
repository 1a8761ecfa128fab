//! Metrics that the steps of a custom loop update: what each replica adds, and the sums over all of them.

use super::{Replica, Replicated};
use crate::StepFunctions;
use crate::coordinator::{MetricHandle, RegistryId, ended_early};
use crate::fit::{Logs, WorkerProgress};
use phalanx_base::{Code, Error, Result};
use phalanx_nn::Network;
use phalanx_nn::burn::module::Module;
use phalanx_nn::metrics::{Metric, Values, merge_words, words_of};
use std::collections::BTreeMap;
use std::time::Duration;

/// The step by which the chief reads a trainer's sums.
const READ: &str = "metrics/read";
/// How long a trainer that was already read waits, which leaves the step to another one.
const READ_BEFORE: Duration = Duration::from_millis(3);

/// The metrics of a model: the sums of this process since they were reset.
#[derive(Default)]
pub(crate) struct ModelMetrics {
    id: RegistryId,
    sums: Vec<Box<dyn Metric>>,
}

impl ModelMetrics {
    /// Returns empty metrics for one step of one replica.
    pub(super) fn fresh(&self) -> ReplicaMetrics {
        ReplicaMetrics { id: self.id.clone(), own: self.sums.iter().map(|metric| metric.fresh()).collect() }
    }

    /// Adds what a replica has added in a step.
    pub(super) fn merge(&mut self, step: &ReplicaMetrics) -> Result<()> {
        merge_words(&mut self.sums, &words_of(&step.own))
    }
}

/// What one replica adds to the metrics in one step.
#[derive(Default)]
pub(crate) struct ReplicaMetrics {
    id: RegistryId,
    own: Vec<Box<dyn Metric>>,
}

impl ReplicaMetrics {
    pub(super) fn take(&mut self) -> Self {
        std::mem::take(self)
    }
}

impl<M: Module> Replica<'_, M> {
    /// Adds a batch to a metric of [`Replicated::metric`]. It counts once, when all replicas have returned from the step.
    /// `weights` has one number per example.
    ///
    /// # Errors
    /// Fails if the shapes do not fit, or the metric belongs to another model.
    pub fn update<'v>(
        &mut self,
        metric: &MetricHandle,
        labels: impl Into<Values<'v>>,
        predictions: impl Into<Values<'v>>,
        weights: Option<&[f32]>,
    ) -> Result<()> {
        let other = || {
            Error::new(Code::BadSetting, "the metric belongs to another model")
                .help("update the metrics that Replicated::metric of this model returned")
        };
        let index = self.metrics.id.index(metric).map_err(|_| other())?;
        self.metrics.own.get_mut(index).ok_or_else(other)?.update(labels.into(), predictions.into(), weights)
    }

    /// Adds a number, such as the loss, to a [`Mean`](phalanx_nn::metrics::Mean) or a [`Sum`](phalanx_nn::metrics::Sum).
    ///
    /// # Errors
    /// Fails if the metric is of another kind, or belongs to another model.
    pub fn record(&mut self, metric: &MetricHandle, number: f32) -> Result<()> {
        let number = [number];
        self.update(metric, &number[..], &number[..], None)
    }
}

impl<M: Network> Replicated<M> {
    /// Adds a metric that the steps of [`Strategy::run`](crate::Strategy::run) update with [`Replica::update`] and
    /// [`Replica::record`]. Every worker adds the same metrics in the same order.
    ///
    /// ```
    /// use phalanx_nn::metrics::Mean;
    /// use phalanx_nn::model::{Dense, Sequential};
    /// use phalanx_train::Strategy;
    /// let strategy = Strategy::mirrored(["cpu:0", "cpu:1"])?;
    /// let mut model = strategy.scope(|| Sequential::new().add(Dense::new(1)).build([1]))?;
    /// let mean = model.metric(Mean::new("id"));
    /// let inputs = strategy.values_from_function(|replica| Ok(replica as f32))?;
    /// strategy.run(&mut model, inputs, |replica, id| replica.record(&mean, id))?;
    /// assert_eq!(model.metric_results()?.get("id"), Some(0.5));
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    pub fn metric(&mut self, metric: impl Metric + 'static) -> MetricHandle {
        self.metrics.sums.push(Box::new(metric));
        self.metrics.id.handle(self.metrics.sums.len() - 1)
    }

    /// Returns the metrics by name, over the steps of all replicas of all workers since [`Self::reset_metrics`]. All workers
    /// make this call and get the same values. With parameter servers it waits until every other trainer makes it, or is lost
    /// together with what it had added.
    ///
    /// # Errors
    /// Fails if a worker of a mirrored group is lost, or the job fails.
    pub fn metric_results(&mut self) -> Result<Logs> {
        let own = words_of(&self.metrics.sums);
        match (self.strategy.workers(), &self.on_servers) {
            (Some(workers), _) => {
                let bytes: Vec<u8> = own.iter().flat_map(|word| word.to_le_bytes()).collect();
                let all = workers.patiently(|group| group.all_gather(&bytes))?;
                let read =
                    |bytes: Vec<u8>| bytes.as_chunks::<8>().0.iter().map(|word| f64::from_le_bytes(*word)).collect();
                self.sum(all.into_iter().map(read))
            }
            (None, Some(on_servers)) if !on_servers.is_alone() => self.sum_on_servers(own),
            _ => self.sum([own]),
        }
    }

    /// Clears the metrics of this process, for example at the end of an epoch.
    pub fn reset_metrics(&mut self) {
        self.metrics.sums.iter_mut().for_each(|metric| metric.reset());
    }

    /// Returns the values of metrics with the sum of these states.
    fn sum(&self, all: impl IntoIterator<Item = Vec<f64>>) -> Result<Logs> {
        let mut sums: Vec<Box<dyn Metric>> = self.metrics.sums.iter().map(|metric| metric.fresh()).collect();
        all.into_iter().try_for_each(|words| merge_words(&mut sums, &words))?;
        Ok(sums.iter().map(|metric| (metric.name(), metric.result())).collect())
    }

    /// Sums the states of all trainers in a call of the job: the chief reads each worker's by a step, and every task gets
    /// the values.
    fn sum_on_servers(&mut self, own: Vec<f64>) -> Result<Logs> {
        let mut steps = StepFunctions::new();
        let here = own.clone();
        let read = steps.evaluation_as(READ, move |cx, known: Vec<String>| {
            let task = cx.task().to_string();
            if known.contains(&task) {
                std::thread::sleep(READ_BEFORE);
            }
            Ok((task, here.clone()))
        });
        let model = self.take_changes();
        let missing = || Error::new(Code::Internal, "no parameter servers");
        let mut on_servers = self.on_servers.take().ok_or_else(missing)?;
        let done = on_servers.call(model, steps, |coordinator| {
            let chief = coordinator.session_mut()?.server().task().to_string();
            let mut all = BTreeMap::from([(chief, own)]);
            let mut workers = WorkerProgress::of(coordinator)?;
            while !workers.all_ended(coordinator)? {
                let (task, words) = coordinator.schedule(&read, all.keys().cloned().collect())?.fetch()?;
                workers.has_ended(task.parse()?);
                // A worker that is asked again counts once.
                all.insert(task, words);
            }
            self.sum(all.into_values())
        });
        self.on_servers = Some(on_servers);
        let (logs, model) = done?.ok_or_else(ended_early)?;
        self.take_result(model);
        Ok(logs)
    }
}
