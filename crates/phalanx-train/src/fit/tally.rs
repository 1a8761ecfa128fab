//! What a replica counts while it goes through the data: losses and metrics.

use super::Logs;
use super::aim::Aim;
use super::feed::Target;
use phalanx_base::{Code, Error, Result};
use phalanx_nn::metrics::{Metric, Values, merge_words, words_of};

/// The losses of each output as sums, and its metrics. Tallies of replicas and workers add up exactly.
pub(super) struct Tally {
    /// For each output: the sum of its weighted losses, and how many there were.
    losses: Vec<[f64; 2]>,
    /// For each output, the metrics one behind another.
    metrics: Vec<Box<dyn Metric>>,
}

impl Tally {
    /// Nothing counted yet.
    pub(super) fn new(aims: &[Aim]) -> Self {
        let metrics = aims.iter().flat_map(|aim| aim.metrics.iter().map(|metric| metric.fresh())).collect();
        Self { losses: vec![[0.0; 2]; aims.len()], metrics }
    }

    /// What several have counted together.
    pub(super) fn sum<'a>(aims: &[Aim], tallies: impl IntoIterator<Item = &'a Self>) -> Result<Self> {
        let mut all = Self::new(aims);
        tallies.into_iter().try_for_each(|tally| all.merge(&tally.words()))?;
        Ok(all)
    }

    /// Counts what output `number` came to on a batch.
    pub(super) fn count(
        &mut self,
        aims: &[Aim],
        number: usize,
        (sum, rows): (f64, usize),
        target: &Target,
        prediction: Values<'_>,
        weights: Option<&[f32]>,
    ) -> Result<()> {
        self.losses[number][0] += sum;
        self.losses[number][1] += rows as f64;
        let before: usize = aims[..number].iter().map(|aim| aim.metrics.len()).sum();
        for (metric, own) in self.metrics[before..].iter_mut().zip(&aims[number].metrics) {
            // Keras compares what the user named with weights only if it is a weighted metric: unweighted unless said.
            let weights = weights.filter(|_| own.weighted);
            metric.update(target.values(), prediction, weights)?;
        }
        Ok(())
    }

    /// All sums in one row.
    pub(super) fn words(&self) -> Vec<f64> {
        let mut words: Vec<f64> = self.losses.iter().flatten().copied().collect();
        words.extend(words_of(&self.metrics));
        words
    }

    /// Adds what another tally has counted.
    pub(super) fn merge(&mut self, words: &[f64]) -> Result<()> {
        let (losses, metrics) = words.split_at(words.len().min(2 * self.losses.len()));
        self.losses.as_flattened_mut().iter_mut().zip(losses).for_each(|(sum, more)| *sum += more);
        merge_words(&mut self.metrics, metrics)
    }

    /// Goes on from what as many tallies, or more or fewer, had counted: `words` has theirs one behind another.
    pub(super) fn resume(tallies: &mut [Self], words: &[f64]) -> Result<()> {
        let length = tallies.first().map_or(0, |tally| tally.words().len());
        if !words.len().is_multiple_of(length.max(1)) {
            return Err(Error::new(Code::CheckpointMismatch, "the backup has counted for other metrics")
                .because(format!("it has {} numbers, and a replica counts {length}", words.len()))
                .help("compile the model as it was when it was saved, or remove the backup"));
        }
        for (replica, words) in words.chunks_exact(length.max(1)).enumerate() {
            let own = replica % tallies.len();
            tallies[own].merge(words)?;
        }
        Ok(())
    }

    /// Whether nothing was counted.
    pub(super) fn is_empty(&self) -> bool {
        self.losses.iter().all(|[_, rows]| *rows == 0.0)
    }

    /// Forgets everything.
    pub(super) fn reset(&mut self) {
        self.losses.iter_mut().for_each(|sums| *sums = [0.0; 2]);
        self.metrics.iter_mut().for_each(|metric| metric.reset());
    }

    /// The numbers under Keras' names, each behind `prefix`: `loss`, with several outputs the loss of each, the metrics.
    pub(super) fn logs(&self, aims: &[Aim], prefix: &str) -> Logs {
        let mean = |sums: &[f64; 2]| if sums[1] == 0.0 { 0.0 } else { sums[0] / sums[1] };
        let total: f64 = self.losses.iter().zip(aims).map(|(sums, aim)| mean(sums) * f64::from(aim.weight)).sum();
        let mut logs = Logs::default();
        logs.set(&format!("{prefix}loss"), total);
        if aims.len() > 1 {
            for (sums, aim) in self.losses.iter().zip(aims) {
                logs.set(&format!("{prefix}{}_loss", aim.output), mean(sums));
            }
        }
        let mut metrics = self.metrics.iter();
        for aim in aims {
            for (metric, _) in metrics.by_ref().zip(&aim.metrics).take(aim.metrics.len()) {
                let name = metric.name();
                let name = if aims.len() > 1 { format!("{}_{name}", aim.output) } else { name.to_owned() };
                logs.set(&format!("{prefix}{name}"), metric.result());
            }
        }
        logs
    }
}
