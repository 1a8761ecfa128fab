//! The result of an evaluation.

use crate::trained::TrainedModel;
use crate::{Head, Trainable};
use phalanx_base::{Code, Error, Result};
use phalanx_data::Dataset;
use phalanx_nn::Slots;
use phalanx_train::Interrupt;
use std::collections::BTreeMap;

/// The metrics of an evaluation under TensorFlow's names, `loss` and `global_step` among them.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Evaluation {
    /// The global step of the evaluated checkpoint.
    pub global_step: u64,
    /// The name of the evaluated checkpoint.
    pub checkpoint: String,
    /// Every metric by name, except `global_step`.
    pub metrics: BTreeMap<String, f64>,
    /// The number of batches that were evaluated.
    pub batches: u64,
    /// The number of rows that were evaluated.
    pub rows: u64,
    /// Whether the input ended. If not, the metrics are those of its first batches.
    pub reached_end: bool,
}

impl Evaluation {
    /// Returns the names of the metrics that are NaN or infinite.
    #[must_use]
    pub fn not_finite(&self) -> Vec<&str> {
        self.metrics.iter().filter(|(_, value)| !value.is_finite()).map(|(name, _)| name.as_str()).collect()
    }

    /// Returns a metric by name; `global_step` is one too.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<f64> {
        if name == "global_step" { Some(self.global_step as f64) } else { self.metrics.get(name).copied() }
    }

    /// Returns a remark if the evaluation did not reach the end of its input.
    #[must_use]
    pub fn remark(&self) -> Option<String> {
        let Self { batches, rows, .. } = self;
        (!self.reached_end)
            .then(|| format!("only the first {batches} batches ({rows} rows) were evaluated; there are more"))
    }
}

/// Formats it as TensorFlow logs it: `accuracy = 0.85, …`, sorted by name.
impl std::fmt::Display for Evaluation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // As many digits as TensorFlow's single precision has.
        let number = |(name, value): (&String, &f64)| (name.clone(), (*value as f32).to_string());
        let mut all: Vec<(String, String)> = self.metrics.iter().map(number).collect();
        all.push(("global_step".to_owned(), self.global_step.to_string()));
        all.sort_unstable();
        for (at, (name, value)) in all.into_iter().enumerate() {
            write!(f, "{}{name} = {value}", if at == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// Evaluates `steps` batches of `data`, or all of them, with this many replicas. An interruption ends it with its error.
pub(crate) fn evaluate<M: Trainable>(
    trained: &TrainedModel<M>,
    head: &Head,
    data: &Dataset,
    steps: Option<u64>,
    replicas: usize,
    interrupt: &Interrupt,
) -> Result<Evaluation> {
    let mut metrics = head.metrics()?;
    let slots = Slots::new(replicas)?;
    let (mut losses, mut batches, mut rows) = (0.0, 0_u64, 0_u64);
    let mut iter = data.iter()?;
    let mut reached_end = false;
    while steps.is_none_or(|steps| batches < steps) {
        if let Some(error) = interrupt.error() {
            return Err(error);
        }
        let Some(batch) = iter.next().transpose()? else {
            reached_end = true;
            break;
        };
        if batch.rows() == 0 {
            continue;
        }
        losses += head.measure(&mut metrics, &trained.logits_on(&slots, replicas, &batch)?, &batch)?;
        (batches, rows) = (batches + 1, rows + batch.rows() as u64);
    }
    if batches == 0 {
        return Err(Error::new(Code::DataMissing, "there is nothing to evaluate")
            .because("the evaluation's input has no batch")
            .help("check the files, and what filter, take and skip leave of them"));
    }
    let mut found: BTreeMap<String, f64> = metrics.results().into_iter().collect();
    found.insert("loss".to_owned(), losses / batches as f64);
    let reached_end = reached_end || iter.next().is_none();
    let (global_step, checkpoint) = (trained.global_step, trained.checkpoint.clone());
    let found = Evaluation { global_step, checkpoint, metrics: found, batches, rows, reached_end };
    let wrong = found.not_finite();
    if !wrong.is_empty() {
        tracing::warn!("of the evaluation of {}, these are not finite: {}", found.checkpoint, wrong.join(", "));
    }
    Ok(found)
}
