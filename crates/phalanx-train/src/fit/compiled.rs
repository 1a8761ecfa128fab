//! A model with optimizer, losses and metrics.

use super::input_mapping::InputMapping;
use super::objective::{LossChoices, MetricChoice, Objective};
use super::progress::{ProgressMode, Verbose};
use super::step::check_losses;
use super::{Data, Fit};
use crate::{DistributedDataset, Preprocessing, Replicated, Strategy};
use phalanx_base::{Code, Error, Result};
use phalanx_data::Batch;
use phalanx_nn::Network;
use phalanx_nn::losses::LossFunction;
use phalanx_nn::model::DynTensor;
use phalanx_optim::{Optimizer, OptimizerChoice};
use std::sync::Arc;

/// A model ready to be trained, made by [`Compile::compile`].
///
/// ```
/// use phalanx_data::Column;
/// use phalanx_nn::model::{Dense, Sequential};
/// use phalanx_optim::Sgd;
/// use phalanx_train::fit::{Compile, Fit, Verbose};
/// let x = Column::f32((0..32).map(|i| i as f32 / 32.0).collect()).with_row_shape([1])?;
/// let y = Column::f32((0..32).map(|i| 2.0 * i as f32 / 32.0).collect());
/// let mut model = Sequential::new().add(Dense::new(1)).build([1])?.compile(Sgd::new(0.3), "mse", ["mae"])?;
/// model.fit((x, y), Fit::epochs(2).batch_size(8).verbose(Verbose::Silent))?;
/// assert_eq!(model.iterations(), 8);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
pub struct Compiled<M: Network> {
    pub(super) model: Replicated<M>,
    pub(super) objectives: Vec<Objective>,
    pub(super) mapping: InputMapping,
}

/// Adds `compile` to models.
///
/// ```
/// use phalanx_nn::model::{Dense, Sequential};
/// use phalanx_optim::Adam;
/// use phalanx_train::fit::Compile;
/// let model = Sequential::new().add(Dense::new(1)).build([4])?.compile(Adam::new(1e-3), "mse", ["mae"])?;
/// assert_eq!(model.iterations(), 0);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
pub trait Compile<M: Network>: Sized {
    /// Sets the optimizer, the loss (one, or one for each output) and the metrics of every output, as values or by Keras'
    /// names: `compile("adam", "mse", ["mae"])`. A loss can also be a closure, or a
    /// [`LossFunction`](phalanx_nn::losses::LossFunction) of your own: see [`LossChoice`](super::LossChoice). A metric of your
    /// own is a [`MetricChoice::of`] anything that implements [`Metric`](phalanx_nn::metrics::Metric).
    ///
    /// ```
    /// use phalanx_nn::burn::tensor::Tensor;
    /// use phalanx_nn::model::{Dense, Sequential};
    /// use phalanx_train::fit::Compile;
    /// let asymmetric = |labels: Tensor<2>, predictions: Tensor<2>| {
    ///     let error = labels - predictions;
    ///     (error.clone().clamp_min(0.0) * 3.0 - error.clamp_max(0.0)).mean_dim(1).squeeze_dim::<1>(1)
    /// };
    /// let model = Sequential::new().add(Dense::new(1)).build([4])?.compile("adam", asymmetric, ["mae"])?;
    /// # let _ = model;
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails if a name is unknown or a setting out of range.
    fn compile<Q: Into<MetricChoice>>(
        self,
        optimizer: impl Into<OptimizerChoice>,
        loss: impl Into<LossChoices>,
        metrics: impl IntoIterator<Item = Q>,
    ) -> Result<Compiled<M>>;
}

impl<M: Network> Compile<M> for Replicated<M> {
    fn compile<Q: Into<MetricChoice>>(
        self,
        optimizer: impl Into<OptimizerChoice>,
        loss: impl Into<LossChoices>,
        metrics: impl IntoIterator<Item = Q>,
    ) -> Result<Compiled<M>> {
        Compiled::new(self.optimizer(optimizer)?, loss.into(), metrics.into_iter().map(Into::into).collect())
    }
}

impl<M: Network> Compile<M> for M {
    fn compile<Q: Into<MetricChoice>>(
        self,
        optimizer: impl Into<OptimizerChoice>,
        loss: impl Into<LossChoices>,
        metrics: impl IntoIterator<Item = Q>,
    ) -> Result<Compiled<M>> {
        Strategy::default().scope(|| Ok(self))?.compile(optimizer, loss, metrics)
    }
}

impl<M: Network> Compiled<M> {
    fn new(model: Replicated<M>, losses: LossChoices, metrics: Vec<MetricChoice>) -> Result<Self> {
        let outputs = model.module().output_names();
        let losses: Vec<(Arc<dyn LossFunction>, f32)> =
            losses.0.into_iter().map(|(loss, weight)| Ok((loss.resolve()?, weight))).collect::<Result<_>>()?;
        let losses = match (losses.len(), outputs.len()) {
            (1, many) => vec![losses[0].clone(); many],
            (given, many) if given == many => losses,
            (given, many) => {
                return Err(Error::new(Code::BadSetting, format!("{given} losses for a model of {many} outputs"))
                    .because(format!("the outputs are {outputs:?}"))
                    .help("give one loss for all, or one for each"));
            }
        };
        let objective = |(output, (loss, weight)): (&String, _)| Objective::new(output, loss, weight);
        let mut objectives: Vec<Objective> = outputs.iter().zip(losses).map(objective).collect();
        objectives.iter_mut().try_for_each(|objective| objective.measure(&metrics, false))?;
        check_losses(&objectives)?;
        let preprocessing = Preprocessing::find(model.module())?.map(Arc::new);
        let inputs = model.module().input_names();
        let mapping = InputMapping { inputs, preprocessing, outputs, ..InputMapping::default() };
        Ok(Self { model, objectives, mapping })
    }

    /// Adds metrics that use sample weights. As in Keras, those given to [`Compile::compile`] ignore them.
    ///
    /// # Errors
    /// Fails if a name is unknown or already used.
    pub fn weighted_metrics<Q: Into<MetricChoice>>(mut self, metrics: impl IntoIterator<Item = Q>) -> Result<Self> {
        let metrics: Vec<MetricChoice> = metrics.into_iter().map(Into::into).collect();
        self.objectives.iter_mut().try_for_each(|objective| objective.measure(&metrics, true))?;
        Ok(self)
    }

    /// Returns the model with its current values.
    #[must_use]
    pub fn module(&self) -> &M {
        self.model.module()
    }

    /// Returns the strategy.
    #[must_use]
    pub fn strategy(&self) -> &Strategy {
        self.model.strategy()
    }

    /// Returns the model under its strategy, for custom training loops.
    pub fn replicated(&mut self) -> &mut Replicated<M> {
        &mut self.model
    }

    /// Returns the number of updates.
    #[must_use]
    pub fn iterations(&self) -> u64 {
        self.model.iterations()
    }

    /// Returns the optimizer with its current learning rate.
    #[must_use]
    pub fn optimizer(&self) -> Option<Optimizer> {
        self.model.update.as_ref().map(|update| update.optimizer)
    }

    /// Sets the learning rate.
    ///
    /// # Errors
    /// Fails if it is out of range.
    pub fn set_learning_rate(&mut self, rate: f32) -> Result<()> {
        self.model.set_learning_rate(rate)
    }

    /// Applies a `fit`'s weight settings and splits its data into training and validation data.
    pub(super) fn take_data(&mut self, data: Data, fit: &mut Fit) -> Result<(Data, Option<Data>)> {
        self.mapping.sample_weight.clone_from(&fit.sample_weight);
        self.mapping.weigh_classes(&fit.class_weight)?;
        match fit.validation.take() {
            None if fit.validation_split > 0.0 => {
                data.split(fit.validation_split).map(|(data, held_out)| (data, Some(held_out)))
            }
            held_out => Ok((data, held_out)),
        }
    }

    /// Creates the metrics given by name, once the widths of the outputs are known.
    pub(super) fn resolve(&mut self, input: &DistributedDataset) -> Result<()> {
        self.resolve_with(|| input.input().dataset().iter()?.next().transpose())
    }

    /// As [`Self::resolve`], with a function that reads a batch if one is needed.
    pub(super) fn resolve_with(&mut self, first: impl FnOnce() -> Result<Option<Batch>>) -> Result<()> {
        if self.objectives.iter().all(|objective| objective.named.is_empty()) {
            return Ok(());
        }
        let widths = match self.module().output_widths() {
            Some(widths) => widths,
            // A user's own module shows its widths when it predicts a row.
            None => match first()?.filter(|batch| !batch.is_empty()) {
                Some(batch) => self.predict_on_batch(&batch.slice(0..1))?.iter().map(width).collect(),
                None => return Ok(()),
            },
        };
        self.objectives.iter_mut().zip(widths).try_for_each(|(objective, width)| objective.resolve(width))
    }

    /// Runs `work`, and aborts all workers with its error if it fails. An interruption does not abort them: all have
    /// agreed to stop, and some may still be saving.
    pub(super) fn telling_others<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let done = work(self);
        if let (Err(error), Some(workers)) = (&done, self.strategy().workers())
            && !matches!(error.code(), Code::Interrupted | Code::Terminated)
        {
            workers.group().abort(error.clone());
        }
        done
    }

    /// Returns what this process shows. Only the first worker shows anything.
    pub(super) fn shown(&self, verbose: Verbose) -> ProgressMode {
        if self.strategy().should_checkpoint() { verbose.resolve() } else { ProgressMode::Silent }
    }
}

fn width(output: &DynTensor) -> usize {
    output.dims().get(1..).and_then(<[usize]>::last).copied().unwrap_or(1)
}
