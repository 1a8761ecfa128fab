//! The metrics that an Estimator's heads report.

use phalanx_base::{Code, Error, Result};

use super::accuracy::argmax;
use super::auc::sigmoid;
use super::weights::Weights;
use super::{Accuracy, AccuracyBaseline, Auc, BinaryAccuracy, Curve, Mean, Metric, Precision, Recall, Values};
use super::{Calibration, CalibrationError, EvalMetric, GroupAuc, MeanAbsoluteError, NormalizedEntropy};
use super::{RootMeanSquaredError, merge_words, words_of};

/// The input of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MetricInput {
    /// The loss of each example.
    Losses,
    /// The class with the largest probability.
    Classes,
    /// Probabilities, or the predictions of a head without probabilities.
    Predictions,
}

/// The function from logits to predictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Sigmoid,
    Softmax,
    None,
}

/// The metrics of an Estimator's head.
///
/// They do not include `loss`, the mean of the batches' losses, for which there is [`Mean`].
///
/// ```
/// use phalanx_nn::metrics::{HeadMetrics, Loss, Values};
/// let mut head = HeadMetrics::binary(&[])?;
/// let (labels, logits) = (Values::column(&[1.0, 0.0, 1.0]), Values::column(&[2.0, 1.0, -1.0]));
/// let losses = Loss::BinaryCrossentropy { from_logits: true, label_smoothing: 0.0 }.values(labels, logits)?;
/// head.update(labels, logits, &losses, None)?;
/// let results = head.results();
/// assert_eq!(results[0].0, "average_loss");
/// assert!(results.iter().any(|(key, value)| key == "precision" && *value == 0.5));
/// # Ok::<(), phalanx_base::Error>(())
/// ```
pub struct HeadMetrics {
    link: Link,
    metrics: Vec<Box<dyn Metric>>,
    /// The input of each metric.
    inputs: Vec<MetricInput>,
    groups: Option<GroupAuc>,
}

impl HeadMetrics {
    /// Returns the metrics of the binary head: one logit, labels 0 and 1. Each threshold adds accuracy, precision and recall.
    ///
    /// # Errors
    /// If a threshold is not in [0, 1].
    pub fn binary(thresholds: &[f32]) -> Result<Self> {
        let mut head = Self::with(Link::Sigmoid);
        head.add(MetricInput::Classes, Accuracy::new());
        head.add(MetricInput::Classes, Precision::new());
        head.add(MetricInput::Classes, Recall::new());
        head.add(MetricInput::Predictions, Mean::new("prediction/mean"));
        head.add(MetricInput::Predictions, Mean::of_labels("label/mean"));
        head.add(MetricInput::Predictions, AccuracyBaseline::new("accuracy_baseline"));
        head.add_auc();
        head.add_thresholds(thresholds)?;
        Ok(head)
    }

    /// Returns the metrics of the multi-class head: one logit per class, class numbers as labels.
    #[must_use]
    pub fn multi_class() -> Self {
        let mut head = Self::with(Link::Softmax);
        head.add(MetricInput::Classes, Accuracy::new());
        head
    }

    /// Returns the metrics of the multi-label head: one logit per class, labels 0 and 1. Each threshold adds three metrics.
    ///
    /// # Errors
    /// If a threshold is not in [0, 1].
    pub fn multi_label(thresholds: &[f32]) -> Result<Self> {
        let mut head = Self::with(Link::Sigmoid);
        head.add_auc();
        head.add_thresholds(thresholds)?;
        Ok(head)
    }

    /// Returns the metrics of the regression heads. For a head with a link function, pass predictions instead of logits.
    #[must_use]
    pub fn regression() -> Self {
        let mut head = Self::with(Link::None);
        head.add(MetricInput::Predictions, Mean::new("prediction/mean"));
        head.add(MetricInput::Predictions, Mean::of_labels("label/mean"));
        head
    }

    fn with(link: Link) -> Self {
        Self {
            link,
            metrics: vec![Box::new(Mean::new("average_loss"))],
            inputs: vec![MetricInput::Losses],
            groups: None,
        }
    }

    /// Adds a metric that heads report on request. [`EvalMetric::GroupAuc`] also needs [`Self::update_groups`].
    pub fn request(&mut self, metric: EvalMetric) {
        let name = metric.name();
        match metric {
            EvalMetric::GroupAuc => self.groups = Some(GroupAuc::default()),
            EvalMetric::Calibration => self.add(MetricInput::Predictions, Calibration::new(name)),
            EvalMetric::CalibrationError => self.add(MetricInput::Predictions, CalibrationError::new(name, 10)),
            EvalMetric::NormalizedEntropy => self.add(MetricInput::Losses, NormalizedEntropy::new(name)),
            EvalMetric::MeanAbsoluteError => {
                self.add(MetricInput::Predictions, MeanAbsoluteError::new().named(name));
            }
            EvalMetric::RootMeanSquaredError => {
                self.add(MetricInput::Predictions, RootMeanSquaredError::new().named(name));
            }
        }
    }

    /// Adds the groups of a batch whose other metrics were updated; it has one logit and one label per example.
    ///
    /// # Errors
    /// If the lengths differ.
    pub fn update_groups(
        &mut self,
        groups: &[u64],
        labels: &[f32],
        logits: &[f32],
        weights: Option<&[f32]>,
    ) -> Result<()> {
        // Sorted by probability and not by logit: two probabilities can be equal where their logits are not.
        let probabilities: Vec<f32> = logits.iter().map(|&logit| sigmoid(logit)).collect();
        self.groups.as_mut().map_or(Ok(()), |metric| metric.update(groups, labels, &probabilities, weights))
    }

    fn add(&mut self, input: MetricInput, metric: impl Metric + 'static) {
        self.metrics.push(Box::new(metric));
        self.inputs.push(input);
    }

    fn add_auc(&mut self) {
        self.add(MetricInput::Predictions, Auc::new());
        self.add(MetricInput::Predictions, Auc::new().curve(Curve::Pr).named("auc_precision_recall"));
    }

    fn add_thresholds(&mut self, thresholds: &[f32]) -> Result<()> {
        for &at in thresholds {
            let key = |metric| format!("{metric}/positive_threshold_{at:?}");
            self.add(MetricInput::Predictions, BinaryAccuracy::new().threshold(at).named(key("accuracy")));
            self.add(MetricInput::Predictions, Precision::new().thresholds(&[at])?.named(key("precision")));
            self.add(MetricInput::Predictions, Recall::new().thresholds(&[at])?.named(key("recall")));
        }
        Ok(())
    }

    /// Adds a batch: labels, logits, the unweighted loss of each example, and the examples' weights.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn update(
        &mut self,
        label: Values<'_>,
        logits: Values<'_>,
        losses: &[f64],
        weights: Option<&[f32]>,
    ) -> Result<()> {
        let width = logits.width();
        // Check everything first, so that either all metrics count the batch or none does.
        self.check(label, logits, losses.len(), weights)?;
        let numbers = logits.floats();
        let predictions = match self.link {
            Link::Sigmoid => numbers.iter().map(|&logit| sigmoid(logit)).collect(),
            Link::Softmax | Link::None => numbers.to_vec(),
        };
        // A single logit means the two classes [0, logit]; a tie is class 0.
        let class = |row: &[f32]| if let [logit] = row { i64::from(*logit > 0.0) } else { argmax(row) as i64 };
        let classes: Vec<i64> = numbers.chunks_exact(width).map(class).collect();
        // Keras' losses are f32, too.
        let losses: Vec<f32> = losses.iter().map(|&loss| loss as f32).collect();
        for (metric, input) in self.metrics.iter_mut().zip(&self.inputs) {
            let prediction = match input {
                MetricInput::Losses => Values::column(&losses),
                MetricInput::Classes => Values::ids(&classes),
                MetricInput::Predictions => Values::rows(&predictions, width),
            };
            metric.update(label, prediction, weights)?;
        }
        Ok(())
    }

    fn check(&self, label: Values<'_>, logits: Values<'_>, losses: usize, weights: Option<&[f32]>) -> Result<()> {
        let (labels, examples) = (label.examples()?, logits.examples()?);
        let wanted = if self.link == Link::Softmax { 1 } else { logits.width() };
        if (labels, losses, label.width()) != (examples, examples, wanted) {
            let what = format!(
                "labels of shape [{labels}, {}] and {losses} losses for logits of shape [{examples}, {}]",
                label.width(),
                logits.width()
            );
            return Err(Error::new(Code::ShapeMismatch, what)
                .help(format!("give labels of shape [{examples}, {wanted}] and one loss for each example")));
        }
        Weights::new(weights, examples, 1).map(drop)
    }

    /// Returns every key with its value, in the order of an Estimator.
    #[must_use]
    pub fn results(&self) -> Vec<(String, f64)> {
        let own = self.metrics.iter().map(|metric| (metric.name().to_owned(), metric.result()));
        let groups = self.groups.iter().map(|groups| (EvalMetric::GroupAuc.name().to_owned(), groups.result()));
        own.chain(groups).collect()
    }

    /// Returns the state of all metrics but the AUC within groups, for the wire.
    #[must_use]
    pub fn to_words(&self) -> Vec<f64> {
        words_of(&self.metrics)
    }

    /// Adds the state of another head of the same kind.
    ///
    /// # Errors
    /// If the state has another length.
    pub fn merge(&mut self, words: &[f64]) -> Result<()> {
        merge_words(&mut self.metrics, words)
    }

    /// Clears the state.
    pub fn reset(&mut self) {
        self.metrics.iter_mut().for_each(|metric| metric.reset());
        self.groups = self.groups.as_ref().map(|_| GroupAuc::default());
    }
}
