//! The parts of a head that a user writes: its loss, predictions and metrics.

use phalanx_base::Result;
use phalanx_data::Batch;
use phalanx_nn::burn::tensor::Tensor;
use phalanx_nn::metrics::Metric;
use phalanx_train::fit::LossChoice;
use std::fmt;
use std::sync::Arc;

/// Returns the loss of each example from logits and the batch.
pub(super) type LossFn = dyn Fn(Tensor<2>, &Batch) -> Result<Tensor<1>> + Send + Sync;

/// Returns predictions from logits.
pub(super) type PredictionFn = dyn Fn(Tensor<2>) -> Result<Batch> + Send + Sync;

type UpdateFn = dyn Fn(&mut dyn Metric, &Evaluated<'_>) -> Result<()> + Send + Sync;

/// A loss of the user.
#[derive(Clone, Debug)]
pub(super) enum OwnLoss {
    /// Of logits and the batch.
    OfBatch(Own<LossFn>),
    /// Of the head's labels and logits.
    OfLabels(LossChoice),
}

/// A function of the user.
pub(super) struct Own<F: ?Sized>(pub(super) Arc<F>);

impl<F: ?Sized> Clone for Own<F> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<F: ?Sized> fmt::Debug for Own<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("function")
    }
}

/// A batch and its predictions, which an added metric is updated with.
#[derive(Clone, Copy, Debug)]
pub struct Evaluated<'a> {
    /// The batch: features, labels and weights.
    pub batch: &'a Batch,
    /// The predictions, as `predict` returns them.
    pub predictions: &'a Batch,
}

/// A metric that the user added.
#[derive(Clone)]
pub(super) struct AddedMetric {
    pub(super) name: String,
    metric: Arc<dyn Metric>,
    update: Arc<UpdateFn>,
}

impl fmt::Debug for AddedMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AddedMetric").field(&self.name).finish()
    }
}

impl AddedMetric {
    pub(super) fn new(
        name: String,
        metric: impl Metric + 'static,
        update: impl Fn(&mut dyn Metric, &Evaluated<'_>) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self { name, metric: Arc::new(metric), update: Arc::new(update) }
    }

    /// Returns the metric without batches.
    pub(super) fn fresh(&self) -> Box<dyn Metric> {
        self.metric.fresh()
    }

    /// Adds a batch to `metric`.
    pub(super) fn update(&self, metric: &mut dyn Metric, seen: &Evaluated<'_>) -> Result<()> {
        (self.update)(metric, seen).map_err(|error| {
            if error.place().is_some() { error } else { error.at(format!("the metric {:?}", self.name)) }
        })
    }
}
