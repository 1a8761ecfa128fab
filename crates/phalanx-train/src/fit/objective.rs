//! The objectives of a model's outputs: losses and metrics, as values or by Keras' names.

use crate::IntoLoss;
use phalanx_base::{Code, Error, Result};
use phalanx_nn::burn::tensor::Tensor;
use phalanx_nn::losses::{Labels, Loss, LossFunction};
use phalanx_nn::metrics::{Metric, parse};
use std::fmt;
use std::sync::Arc;

/// A loss: by Keras' name, as a [`Loss`], as a closure, or as a [`LossFunction`] of your own.
///
/// A closure gets labels and predictions as `[rows, width]` and returns the loss of each row, or a `Result` of it. Every
/// replica and every worker calls it.
///
/// ```
/// use phalanx_nn::burn::tensor::Tensor;
/// use phalanx_train::fit::LossChoice;
/// // The quantile loss at 0.9.
/// let quantile = |labels: Tensor<2>, predictions: Tensor<2>| {
///     let error = labels - predictions;
///     (error.clone() * 0.9).max_pair(error * -0.1).mean_dim(1).squeeze_dim::<1>(1)
/// };
/// let loss: LossChoice = quantile.into();
/// # let _ = loss;
/// ```
#[derive(Clone)]
pub struct LossChoice(Result<Arc<dyn LossFunction>>);

impl LossChoice {
    /// A loss of your own that implements [`LossFunction`].
    #[must_use]
    pub fn of(loss: impl LossFunction + 'static) -> Self {
        Self(Ok(Arc::new(loss)))
    }

    /// Returns the loss.
    ///
    /// # Errors
    /// Fails if no loss has the given name.
    pub fn resolve(self) -> Result<Arc<dyn LossFunction>> {
        self.0
    }
}

impl From<Loss> for LossChoice {
    fn from(loss: Loss) -> Self {
        Self::of(loss)
    }
}

impl From<Arc<dyn LossFunction>> for LossChoice {
    fn from(loss: Arc<dyn LossFunction>) -> Self {
        Self(Ok(loss))
    }
}

impl From<&str> for LossChoice {
    fn from(name: &str) -> Self {
        Self(Loss::parse(name).map(|loss| Arc::new(loss) as Arc<dyn LossFunction>))
    }
}

impl<F, R> From<F> for LossChoice
where
    F: Fn(Tensor<2>, Tensor<2>) -> R + Send + Sync + 'static,
    R: IntoLoss + 'static,
{
    fn from(function: F) -> Self {
        Self::of(LossClosure(function))
    }
}

impl fmt::Debug for LossChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0.as_ref().map(|loss| loss.name());
        f.debug_tuple("LossChoice").field(&name).finish()
    }
}

/// A loss that is a closure of labels and predictions.
struct LossClosure<F>(F);

impl<F, R> LossFunction for LossClosure<F>
where
    F: Fn(Tensor<2>, Tensor<2>) -> R + Send + Sync,
    R: IntoLoss,
{
    fn forward(&self, labels: Labels, prediction: Tensor<2>) -> Result<Tensor<1>> {
        let labels = match labels {
            Labels::Rows(numbers) => numbers,
            Labels::Ids(ids) => ids.float().unsqueeze_dim(1),
        };
        (self.0)(labels, prediction).into_loss()
    }
}

/// The losses of a model's outputs with their weights: one for all outputs, or one for each.
///
/// ```
/// use phalanx_train::fit::LossChoices;
/// let one: LossChoices = "mse".into();
/// let weighted: LossChoices = vec![("mse", 1.0), ("binary_crossentropy", 0.5)].into();
/// # let _ = (one, weighted);
/// ```
#[derive(Clone, Debug)]
pub struct LossChoices(pub(super) Vec<(LossChoice, f32)>);

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
    /// A metric with settings of your choice, or your own: a [`Metric`], or the mean of a
    /// [`Measure`](phalanx_nn::metrics::Measure).
    ///
    /// ```
    /// use phalanx_nn::metrics::{Auc, MeanMetric, Measure, Pair, Values};
    /// use phalanx_train::fit::MetricChoice;
    ///
    /// /// Whether a prediction is less than 1 from its label.
    /// #[derive(Clone)]
    /// struct Near;
    ///
    /// impl Measure for Near {
    ///     const NAME: &'static str = "near";
    ///     fn measure(&self, label: Values<'_>, prediction: Values<'_>, out: &mut Vec<f64>) -> phalanx_base::Result<()> {
    ///         let rows = Pair::new(label, prediction)?;
    ///         out.extend(rows.rows().map(|(label, prediction)| f64::from((label[0] - prediction[0]).abs() < 1.0)));
    ///         Ok(())
    ///     }
    /// }
    /// let metrics = ["accuracy".into(), MetricChoice::of(Auc::new()), MetricChoice::of(MeanMetric::of(Near))];
    /// # let _ = metrics;
    /// ```
    #[must_use]
    pub fn of(metric: impl Metric + 'static) -> Self {
        Self(Kind::Made(Box::new(metric)))
    }
}

/// A metric of an output, and whether sample weights apply to it.
pub(super) struct ObjectiveMetric {
    metric: Box<dyn Metric>,
    pub(super) weighted: bool,
}

impl ObjectiveMetric {
    pub(super) fn fresh(&self) -> Box<dyn Metric> {
        self.metric.fresh()
    }
}

/// The loss and metrics of one output.
pub(super) struct Objective {
    pub(super) output: String,
    pub(super) loss: Arc<dyn LossFunction>,
    pub(super) weight: f32,
    pub(super) metrics: Vec<ObjectiveMetric>,
    /// Metrics given by name, until the width of the output is known.
    pub(super) named: Vec<(usize, String, bool)>,
    /// The names that all metrics are reported under.
    reported: Vec<String>,
}

impl Objective {
    /// Creates an objective without metrics.
    pub(super) fn new(output: &str, loss: Arc<dyn LossFunction>, weight: f32) -> Self {
        let (metrics, named, reported) = (Vec::new(), Vec::new(), Vec::new());
        Self { output: output.to_owned(), loss, weight, metrics, named, reported }
    }

    /// Returns a copy whose metrics are reset.
    pub(super) fn copy(&self) -> Self {
        let metric = |own: &ObjectiveMetric| ObjectiveMetric { metric: own.fresh(), weighted: own.weighted };
        Self {
            output: self.output.clone(),
            loss: Arc::clone(&self.loss),
            weight: self.weight,
            metrics: self.metrics.iter().map(metric).collect(),
            named: self.named.clone(),
            reported: self.reported.clone(),
        }
    }

    /// Adds metrics. Unknown names fail here; [`Self::resolve`] chooses the variant that fits the output.
    pub(super) fn measure(&mut self, metrics: &[MetricChoice], weighted: bool) -> Result<()> {
        for metric in metrics {
            let reported = match &metric.0 {
                Kind::Named(name) => {
                    let place = self.metrics.len() + self.named.len();
                    self.named.push((place, name.clone(), weighted));
                    parse(name, Some(&*self.loss), 1)?.name().to_owned()
                }
                Kind::Made(metric) => {
                    self.metrics.push(ObjectiveMetric { metric: metric.fresh(), weighted });
                    metric.name().to_owned()
                }
            };
            if self.reported.contains(&reported) {
                return Err(Error::new(Code::BadSetting, format!("two metrics are called {reported:?}"))
                    .because("metrics are reported by name")
                    .help("remove one, or rename one: MetricChoice::of(Auc::new().named(…))"));
            }
            self.reported.push(reported);
        }
        Ok(())
    }

    /// Creates the metrics given by name: what `accuracy` means depends on the loss and the output's width.
    pub(super) fn resolve(&mut self, width: usize) -> Result<()> {
        for (place, name, weighted) in std::mem::take(&mut self.named) {
            let metric = parse(&name, Some(&*self.loss), width)?;
            self.metrics.insert(place.min(self.metrics.len()), ObjectiveMetric { metric, weighted });
        }
        Ok(())
    }
}
