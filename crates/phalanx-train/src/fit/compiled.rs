//! A model with optimizer, losses and metrics.

use super::feed::Feed;
use super::step::check_losses;
use crate::{DistributedDataset, Replicated, Strategy};
use phalanx_base::{Code, Error, Result};
use phalanx_nn::Network;
use phalanx_nn::metrics::{Loss, Metric, parse};
use phalanx_nn::model::Value;
use phalanx_optim::Optimizer;

/// A loss, as a value or by Keras' name.
#[derive(Clone, Debug)]
pub struct LossChoice(Result<Loss>);

impl From<Loss> for LossChoice {
    fn from(loss: Loss) -> Self {
        Self(Ok(loss))
    }
}

impl From<&str> for LossChoice {
    fn from(name: &str) -> Self {
        Self(Loss::parse(name))
    }
}

/// The losses of a model's outputs, each with what it counts: one, or one for each output.
#[derive(Clone, Debug)]
pub struct LossChoices(Vec<(LossChoice, f32)>);

impl<L: Into<LossChoice>> From<L> for LossChoices {
    fn from(loss: L) -> Self {
        Self(vec![(loss.into(), 1.0)])
    }
}

impl<L: Into<LossChoice>> From<Vec<L>> for LossChoices {
    fn from(losses: Vec<L>) -> Self {
        Self(losses.into_iter().map(|loss| (loss.into(), 1.0)).collect())
    }
}

impl<L: Into<LossChoice>> From<Vec<(L, f32)>> for LossChoices {
    fn from(losses: Vec<(L, f32)>) -> Self {
        Self(losses.into_iter().map(|(loss, weight)| (loss.into(), weight)).collect())
    }
}

/// A metric, as a value or by Keras' name.
pub struct MetricChoice(Kind);

enum Kind {
    Named(String),
    Made(Box<dyn Metric>),
}

impl From<&str> for MetricChoice {
    fn from(name: &str) -> Self {
        Self(Kind::Named(name.to_owned()))
    }
}

impl From<Box<dyn Metric>> for MetricChoice {
    fn from(metric: Box<dyn Metric>) -> Self {
        Self(Kind::Made(metric))
    }
}

impl MetricChoice {
    /// A metric that was made, with settings of its own.
    ///
    /// ```
    /// use phalanx_nn::metrics::Auc;
    /// use phalanx_train::fit::MetricChoice;
    /// let metrics = ["accuracy".into(), MetricChoice::of(Auc::new())];
    /// # let _ = metrics;
    /// ```
    #[must_use]
    pub fn of(metric: impl Metric + 'static) -> Self {
        Self(Kind::Made(Box::new(metric)))
    }
}

/// A metric of an output, and whether examples' weights count for it.
pub(super) struct Measured {
    metric: Box<dyn Metric>,
    pub(super) weighted: bool,
}

impl Measured {
    pub(super) fn fresh(&self) -> Box<dyn Metric> {
        self.metric.fresh()
    }
}

/// What one output is to come to.
pub(super) struct Aim {
    pub(super) output: String,
    pub(super) loss: Loss,
    pub(super) weight: f32,
    pub(super) metrics: Vec<Measured>,
    /// Metrics by name, until the width of the output is known.
    named: Vec<(usize, String, bool)>,
}

impl Aim {
    /// Finds the metrics that were named: `accuracy` means another one for each kind of output.
    pub(super) fn resolve(&mut self, width: usize) -> Result<()> {
        for (place, name, weighted) in std::mem::take(&mut self.named) {
            let metric = parse(&name, Some(&self.loss), width)?;
            self.metrics.insert(place.min(self.metrics.len()), Measured { metric, weighted });
        }
        Ok(())
    }
}

/// A model that can be fitted. [`Compile::compile`] makes one.
pub struct Compiled<M> {
    pub(super) model: Replicated<M>,
    pub(super) aims: Vec<Aim>,
    pub(super) feed: Feed,
}

/// Says how a model learns.
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
        let aims = outputs.iter().zip(losses).map(|(output, (loss, weight))| aim(output, loss, weight, &metrics));
        let aims = aims.collect::<Result<Vec<_>>>()?;
        check_losses(&aims)?;
        let feed = Feed { inputs: model.module().input_names(), outputs, ..Feed::default() };
        Ok(Self { model, aims, feed })
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

    /// Finds the metrics that were named, once it is known how wide the outputs are.
    pub(super) fn resolve(&mut self, input: &DistributedDataset) -> Result<()> {
        if self.aims.iter().all(|aim| aim.named.is_empty()) {
            return Ok(());
        }
        let widths = match self.module().output_widths() {
            Some(widths) => widths,
            // A module of the user's shows it with a row of the data.
            None => match input.input().dataset().iter()?.next().transpose()?.filter(|batch| !batch.is_empty()) {
                Some(batch) => self.predict_on_batch(&batch.slice(0..1))?.iter().map(width).collect(),
                None => return Ok(()),
            },
        };
        self.aims.iter_mut().zip(widths).try_for_each(|(aim, width)| aim.resolve(width))
    }

    /// What goes wrong in one worker ends the training of all, at once and with its reason.
    pub(super) fn telling_others<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let done = work(self);
        if let (Err(error), Some(workers)) = (&done, self.strategy().workers()) {
            workers.group().abort(error.clone());
        }
        done
    }
}

fn width(output: &Value) -> usize {
    output.dims().get(1..).and_then(<[usize]>::last).copied().unwrap_or(1)
}

fn aim(output: &str, loss: Loss, weight: f32, metrics: &[MetricChoice]) -> Result<Aim> {
    let mut aim = Aim { output: output.to_owned(), loss, weight, metrics: Vec::new(), named: Vec::new() };
    for (place, metric) in metrics.iter().enumerate() {
        match &metric.0 {
            Kind::Named(name) => {
                // Unknown names are refused now; which kind it is depends on the output.
                parse(name, Some(&loss), 1)?;
                aim.named.push((place, name.clone(), false));
            }
            Kind::Made(metric) => aim.metrics.push(Measured { metric: metric.fresh(), weighted: false }),
        }
    }
    Ok(aim)
}
