//! What the outputs of a model are to come to: losses and metrics, as values or by Keras' names.

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

/// The losses of a model's outputs, each with what it counts: one, or one for each output.
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
    pub(super) named: Vec<(usize, String, bool)>,
    /// What all of them are reported as.
    reported: Vec<String>,
}

impl Aim {
    /// An output with its loss and what that counts; nothing is measured yet.
    pub(super) fn new(output: &str, loss: Loss, weight: f32) -> Self {
        let (metrics, named, reported) = (Vec::new(), Vec::new(), Vec::new());
        Self { output: output.to_owned(), loss, weight, metrics, named, reported }
    }

    /// The same once more, that has counted nothing.
    pub(super) fn copy(&self) -> Self {
        let metric = |own: &Measured| Measured { metric: own.fresh(), weighted: own.weighted };
        Self {
            output: self.output.clone(),
            loss: self.loss,
            weight: self.weight,
            metrics: self.metrics.iter().map(metric).collect(),
            named: self.named.clone(),
            reported: self.reported.clone(),
        }
    }

    /// Adds metrics. Unknown names are refused now; which kind it is depends on the output.
    pub(super) fn measure(&mut self, metrics: &[MetricChoice], weighted: bool) -> Result<()> {
        for metric in metrics {
            let reported = match &metric.0 {
                Kind::Named(name) => {
                    let place = self.metrics.len() + self.named.len();
                    self.named.push((place, name.clone(), weighted));
                    parse(name, Some(&self.loss), 1)?.name().to_owned()
                }
                Kind::Made(metric) => {
                    self.metrics.push(Measured { metric: metric.fresh(), weighted });
                    metric.name().to_owned()
                }
            };
            if self.reported.contains(&reported) {
                return Err(Error::new(Code::BadSetting, format!("two metrics are called {reported:?}"))
                    .because("numbers are reported by name")
                    .help("leave one out, or make one with a name of its own: MetricChoice::of(Auc::new().named(…))"));
            }
            self.reported.push(reported);
        }
        Ok(())
    }

    /// Finds the metrics that were named: `accuracy` means another one for each kind of output.
    pub(super) fn resolve(&mut self, width: usize) -> Result<()> {
        for (place, name, weighted) in std::mem::take(&mut self.named) {
            let metric = parse(&name, Some(&self.loss), width)?;
            self.metrics.insert(place.min(self.metrics.len()), Measured { metric, weighted });
        }
        Ok(())
    }
}
