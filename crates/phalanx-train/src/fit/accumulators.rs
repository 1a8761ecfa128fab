//! Sums of losses and metrics over a pass.

use super::Logs;
use super::input_mapping::Target;
use super::objective::Objective;
use phalanx_base::{Code, Error, Result};
use phalanx_nn::metrics::{Metric, Values, merge_words, words_of};

/// The loss sums and metrics of every output. Those of several replicas and workers add up exactly.
pub(super) struct Accumulators {
    /// For each output: the sum of its weighted losses, and their number.
    losses: Vec<[f64; 2]>,
    /// The metrics of the first output, then those of the second, and so on.
    metrics: Vec<Box<dyn Metric>>,
}

impl Accumulators {
    /// Creates empty accumulators.
    pub(super) fn new(objectives: &[Objective]) -> Self {
        let metrics =
            objectives.iter().flat_map(|objective| objective.metrics.iter().map(|metric| metric.fresh())).collect();
        Self { losses: vec![[0.0; 2]; objectives.len()], metrics }
    }

    /// Returns the sum of several.
    pub(super) fn sum<'a>(objectives: &[Objective], replicas: impl IntoIterator<Item = &'a Self>) -> Result<Self> {
        let mut all = Self::new(objectives);
        replicas.into_iter().try_for_each(|replica| all.merge(&replica.words()))?;
        Ok(all)
    }

    /// Adds a batch of output `number`.
    pub(super) fn count(
        &mut self,
        objectives: &[Objective],
        number: usize,
        (sum, rows): (f64, usize),
        target: &Target,
        prediction: Values<'_>,
        weights: Option<&[f32]>,
    ) -> Result<()> {
        self.losses[number][0] += sum;
        self.losses[number][1] += rows as f64;
        let before: usize = objectives[..number].iter().map(|objective| objective.metrics.len()).sum();
        for (metric, own) in self.metrics[before..].iter_mut().zip(&objectives[number].metrics) {
            // As in Keras, sample weights apply only to `weighted_metrics`.
            let weights = weights.filter(|_| own.weighted);
            metric.update(target.values(), prediction, weights)?;
        }
        Ok(())
    }

    /// Returns all sums as one vector.
    pub(super) fn words(&self) -> Vec<f64> {
        let mut words: Vec<f64> = self.losses.iter().flatten().copied().collect();
        words.extend(words_of(&self.metrics));
        words
    }

    /// Adds the [`words`](Self::words) of another replica or worker.
    pub(super) fn merge(&mut self, words: &[f64]) -> Result<()> {
        let (losses, metrics) = words.split_at(words.len().min(2 * self.losses.len()));
        self.losses.as_flattened_mut().iter_mut().zip(losses).for_each(|(sum, more)| *sum += more);
        merge_words(&mut self.metrics, metrics)
    }

    /// Restores the sums of any number of replicas from their concatenated words.
    pub(super) fn resume(replicas: &mut [Self], words: &[f64]) -> Result<()> {
        let length = replicas.first().map_or(0, |replica| replica.words().len());
        if !words.len().is_multiple_of(length.max(1)) {
            return Err(Error::new(Code::CheckpointMismatch, "the backup has other metrics than the model")
                .because(format!("it holds {} sums, and a replica has {length}", words.len()))
                .help("compile the model as it was when it was saved, or remove the backup"));
        }
        for (replica, words) in words.chunks_exact(length.max(1)).enumerate() {
            let own = replica % replicas.len();
            replicas[own].merge(words)?;
        }
        Ok(())
    }

    /// Returns whether no row was counted.
    pub(super) fn is_empty(&self) -> bool {
        self.losses.iter().all(|[_, rows]| *rows == 0.0)
    }

    /// Sets all sums to zero.
    pub(super) fn reset(&mut self) {
        self.losses.iter_mut().for_each(|sums| *sums = [0.0; 2]);
        self.metrics.iter_mut().for_each(|metric| metric.reset());
    }

    /// Returns the values under Keras' names, each after `prefix`: `loss`, the loss of each of several outputs, the
    /// metrics.
    pub(super) fn logs(&self, objectives: &[Objective], prefix: &str) -> Logs {
        let mean = |sums: &[f64; 2]| if sums[1] == 0.0 { 0.0 } else { sums[0] / sums[1] };
        let total: f64 =
            self.losses.iter().zip(objectives).map(|(sums, objective)| mean(sums) * f64::from(objective.weight)).sum();
        let mut logs = Logs::default();
        logs.set(&format!("{prefix}loss"), total);
        if objectives.len() > 1 {
            for (sums, objective) in self.losses.iter().zip(objectives) {
                logs.set(&format!("{prefix}{}_loss", objective.output), mean(sums));
            }
        }
        let mut metrics = self.metrics.iter();
        for objective in objectives {
            for (metric, _) in metrics.by_ref().zip(&objective.metrics).take(objective.metrics.len()) {
                let name = metric.name();
                let name = if objectives.len() > 1 { format!("{}_{name}", objective.output) } else { name.to_owned() };
                logs.set(&format!("{prefix}{name}"), metric.result());
            }
        }
        logs
    }
}
