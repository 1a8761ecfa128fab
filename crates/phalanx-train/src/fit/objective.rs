//! The objectives of a model's outputs: losses and metrics, as values or by Keras' names.

use phalanx_base::{Code, Error, Result};
use phalanx_nn::metrics::{Loss, Metric, parse};

/// A loss, as a value or by Keras' name.
#[derive(Clone, Debug)]
pub struct LossChoice(pub(super) Result<Loss>);

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
    /// A metric with settings of your choice.
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
    pub(super) loss: Loss,
    pub(super) weight: f32,
    pub(super) metrics: Vec<ObjectiveMetric>,
    /// Metrics given by name, until the width of the output is known.
    pub(super) named: Vec<(usize, String, bool)>,
    /// The names that all metrics are reported under.
    reported: Vec<String>,
}

impl Objective {
    /// Creates an objective without metrics.
    pub(super) fn new(output: &str, loss: Loss, weight: f32) -> Self {
        let (metrics, named, reported) = (Vec::new(), Vec::new(), Vec::new());
        Self { output: output.to_owned(), loss, weight, metrics, named, reported }
    }

    /// Returns a copy whose metrics are reset.
    pub(super) fn copy(&self) -> Self {
        let metric = |own: &ObjectiveMetric| ObjectiveMetric { metric: own.fresh(), weighted: own.weighted };
        Self {
            output: self.output.clone(),
            loss: self.loss,
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
                    parse(name, Some(&self.loss), 1)?.name().to_owned()
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
            let metric = parse(&name, Some(&self.loss), width)?;
            self.metrics.insert(place.min(self.metrics.len()), ObjectiveMetric { metric, weighted });
        }
        Ok(())
    }
}
