//! A model with optimizer, losses and metrics.

use super::aim::{Aim, LossChoices, MetricChoice};
use super::feed::Feed;
use super::progress::{Mode, Verbose};
use super::step::check_losses;
use super::{Data, Fit};
use crate::{DistributedDataset, Replicated, Strategy};
use phalanx_base::{Code, Error, Result};
use phalanx_data::Batch;
use phalanx_nn::Network;
use phalanx_nn::metrics::Loss;
use phalanx_nn::model::Value;
use phalanx_optim::Optimizer;

/// A model that can be fitted. [`Compile::compile`] makes one.
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
pub struct Compiled<M> {
    pub(super) model: Replicated<M>,
    pub(super) aims: Vec<Aim>,
    pub(super) feed: Feed,
}

/// Says how a model learns.
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
    /// With this optimizer, this loss (or one for each output) and these metrics, which every output has. Metrics that
    /// are named are those of Keras.
    ///
    /// # Errors
    /// When a name is unknown, or a setting out of range.
    fn compile<Q: Into<MetricChoice>>(
        self,
        optimizer: impl Into<Optimizer>,
        loss: impl Into<LossChoices>,
        metrics: impl IntoIterator<Item = Q>,
    ) -> Result<Compiled<M>>;
}

impl<M: Network> Compile<M> for Replicated<M> {
    fn compile<Q: Into<MetricChoice>>(
        self,
        optimizer: impl Into<Optimizer>,
        loss: impl Into<LossChoices>,
        metrics: impl IntoIterator<Item = Q>,
    ) -> Result<Compiled<M>> {
        Compiled::new(self.optimizer(optimizer)?, loss.into(), metrics.into_iter().map(Into::into).collect())
    }
}

impl<M: Network> Compile<M> for M {
    fn compile<Q: Into<MetricChoice>>(
        self,
        optimizer: impl Into<Optimizer>,
        loss: impl Into<LossChoices>,
        metrics: impl IntoIterator<Item = Q>,
    ) -> Result<Compiled<M>> {
        Strategy::default().scope(|| Ok(self))?.compile(optimizer, loss, metrics)
    }
}

impl<M: Network> Compiled<M> {
    fn new(model: Replicated<M>, losses: LossChoices, metrics: Vec<MetricChoice>) -> Result<Self> {
        let outputs = model.module().output_names();
        let losses: Vec<(Loss, f32)> =
            losses.0.into_iter().map(|(loss, weight)| Ok((loss.0?, weight))).collect::<Result<_>>()?;
        let losses = match (losses.len(), outputs.len()) {
            (1, many) => vec![losses[0]; many],
            (given, many) if given == many => losses,
            (given, many) => {
                return Err(Error::new(Code::BadSetting, format!("{given} losses for a model of {many} outputs"))
                    .because(format!("the outputs are {outputs:?}"))
                    .help("give one loss for all, or one for each"));
            }
        };
        let aim = |(output, (loss, weight)): (&String, _)| Aim::new(output, loss, weight);
        let mut aims: Vec<Aim> = outputs.iter().zip(losses).map(aim).collect();
        aims.iter_mut().try_for_each(|aim| aim.measure(&metrics, false))?;
        check_losses(&aims)?;
        let feed = Feed { inputs: model.module().input_names(), outputs, ..Feed::default() };
        Ok(Self { model, aims, feed })
    }

    /// Measures also these, in which every example counts as much as its weight says. Those given to
    /// [`Compile::compile`] count every example once, as in Keras.
    ///
    /// # Errors
    /// When a name is unknown, or one that is there already.
    pub fn weighted_metrics<Q: Into<MetricChoice>>(mut self, metrics: impl IntoIterator<Item = Q>) -> Result<Self> {
        let metrics: Vec<MetricChoice> = metrics.into_iter().map(Into::into).collect();
        self.aims.iter_mut().try_for_each(|aim| aim.measure(&metrics, true))?;
        Ok(self)
    }

    /// The model with its present values.
    #[must_use]
    pub fn module(&self) -> &M {
        self.model.module()
    }

    /// The strategy that keeps it.
    #[must_use]
    pub fn strategy(&self) -> &Strategy {
        self.model.strategy()
    }

    /// The model under its strategy, for loops of one's own.
    pub fn replicated(&mut self) -> &mut Replicated<M> {
        &mut self.model
    }

    /// How many updates there were.
    #[must_use]
    pub fn iterations(&self) -> u64 {
        self.model.iterations()
    }

    /// The optimizer, with its present learning rate.
    #[must_use]
    pub fn optimizer(&self) -> Option<Optimizer> {
        self.model.update.as_ref().map(|update| update.optimizer())
    }

    /// Replaces the learning rate.
    ///
    /// # Errors
    /// When it is out of range.
    pub fn set_learning_rate(&mut self, rate: f32) -> Result<()> {
        self.model.update.as_mut().map_or(Ok(()), |update| update.set_learning_rate(rate))
    }

    /// Takes the settings of a `fit` that say how examples count, and parts what is learned from and what is held out.
    pub(super) fn take_data(&mut self, data: Data, fit: &mut Fit) -> Result<(Data, Option<Data>)> {
        self.feed.sample_weight.clone_from(&fit.sample_weight);
        self.feed.weigh_classes(&fit.class_weight)?;
        match fit.validation.take() {
            None if fit.validation_split > 0.0 => {
                data.split(fit.validation_split).map(|(data, held_out)| (data, Some(held_out)))
            }
            held_out => Ok((data, held_out)),
        }
    }

    /// Finds the metrics that were named, once it is known how wide the outputs are.
    pub(super) fn resolve(&mut self, input: &DistributedDataset) -> Result<()> {
        self.resolve_with(|| input.input().dataset().iter()?.next().transpose())
    }

    /// The same with a function that reads a batch, should one be needed.
    pub(super) fn resolve_with(&mut self, first: impl FnOnce() -> Result<Option<Batch>>) -> Result<()> {
        if self.aims.iter().all(|aim| aim.named.is_empty()) {
            return Ok(());
        }
        let widths = match self.module().output_widths() {
            Some(widths) => widths,
            // A module of the user's shows it with a row of the data.
            None => match first()?.filter(|batch| !batch.is_empty()) {
                Some(batch) => self.predict_on_batch(&batch.slice(0..1))?.iter().map(width).collect(),
                None => return Ok(()),
            },
        };
        self.aims.iter_mut().zip(widths).try_for_each(|(aim, width)| aim.resolve(width))
    }

    /// What goes wrong in one worker ends the training of all, at once and with its reason. Only an interruption does not:
    /// all have agreed to stop, and some may still be saving.
    pub(super) fn telling_others<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let done = work(self);
        if let (Err(error), Some(workers)) = (&done, self.strategy().workers())
            && !matches!(error.code(), Code::Interrupted | Code::Terminated)
        {
            workers.group().abort(error.clone());
        }
        done
    }

    /// How much this process shows: one of the workers speaks for all.
    pub(super) fn shown(&self, verbose: Verbose) -> Mode {
        if self.strategy().should_checkpoint() { verbose.resolve() } else { Mode::Silent }
    }
}

fn width(output: &Value) -> usize {
    output.dims().get(1..).and_then(<[usize]>::last).copied().unwrap_or(1)
}
