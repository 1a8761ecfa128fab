//! What an Estimator's heads report of an evaluation, key by key.

use phalanx_base::{Code, Error, Result};

use super::accuracy::argmax;
use super::auc::sigmoid;
use super::weights::Weights;
use super::{Accuracy, AccuracyBaseline, Auc, BinaryAccuracy, Curve, Mean, Metric, Precision, Recall, Values};
use super::{merge_words, words_of};

/// What of a batch a metric is fed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Feed {
    /// The loss of each example.
    Losses,
    /// The class with the largest probability.
    Classes,
    /// Probabilities, or the predictions themselves where there are none.
    Predictions,
}

/// How logits become predictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Sigmoid,
    Softmax,
    None,
}

/// The metrics of one of an Estimator's heads.
///
/// `loss` itself is missing: an Estimator reports the mean of the batches' losses, which a [`Mean`] beside this does.
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
    /// What each of them is fed with.
    feeds: Vec<Feed>,
}

impl HeadMetrics {
    /// The binary head: one logit, labels 0 and 1. Each threshold adds its accuracy, precision and recall.
    ///
    /// # Errors
    /// When a threshold is not in [0, 1].
    pub fn binary(thresholds: &[f32]) -> Result<Self> {
        let mut head = Self::with(Link::Sigmoid);
        head.add(Feed::Classes, Accuracy::new());
        head.add(Feed::Classes, Precision::new());
        head.add(Feed::Classes, Recall::new());
        head.add(Feed::Predictions, Mean::new("prediction/mean"));
        head.add(Feed::Predictions, Mean::of_truths("label/mean"));
        head.add(Feed::Predictions, AccuracyBaseline::new("accuracy_baseline"));
        head.add_auc();
        head.add_thresholds(thresholds)?;
        Ok(head)
    }

    /// The multi-class head: a logit for each class, class numbers as labels.
    #[must_use]
    pub fn multi_class() -> Self {
        let mut head = Self::with(Link::Softmax);
        head.add(Feed::Classes, Accuracy::new());
        head
    }

    /// The multi-label head: a logit for each class, 0 and 1 as labels. Each threshold adds three metrics.
    ///
    /// # Errors
    /// When a threshold is not in [0, 1].
    pub fn multi_label(thresholds: &[f32]) -> Result<Self> {
        let mut head = Self::with(Link::Sigmoid);
        head.add_auc();
        head.add_thresholds(thresholds)?;
        Ok(head)
    }

    /// The regression heads. Give predictions instead of logits where the head has a link function.
    #[must_use]
    pub fn regression() -> Self {
        let mut head = Self::with(Link::None);
        head.add(Feed::Predictions, Mean::new("prediction/mean"));
        head.add(Feed::Predictions, Mean::of_truths("label/mean"));
        head
    }

    fn with(link: Link) -> Self {
        Self { link, metrics: vec![Box::new(Mean::new("average_loss"))], feeds: vec![Feed::Losses] }
    }

    fn add(&mut self, feed: Feed, metric: impl Metric + 'static) {
        self.metrics.push(Box::new(metric));
        self.feeds.push(feed);
    }

    fn add_auc(&mut self) {
        self.add(Feed::Predictions, Auc::new());
        self.add(Feed::Predictions, Auc::new().curve(Curve::Pr).named("auc_precision_recall"));
    }

    fn add_thresholds(&mut self, thresholds: &[f32]) -> Result<()> {
        for &at in thresholds {
            let key = |metric| format!("{metric}/positive_threshold_{at:?}");
            self.add(Feed::Predictions, BinaryAccuracy::new().threshold(at).named(key("accuracy")));
            self.add(Feed::Predictions, Precision::new().thresholds(&[at])?.named(key("precision")));
            self.add(Feed::Predictions, Recall::new().thresholds(&[at])?.named(key("recall")));
        }
        Ok(())
    }

    /// Counts one batch: labels, logits, the loss of each example before weighting, and the examples' weights.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn update(
        &mut self,
        truth: Values<'_>,
        logits: Values<'_>,
        losses: &[f64],
        weights: Option<&[f32]>,
    ) -> Result<()> {
        let width = logits.width();
        // Everything is checked before the first metric counts, so that a batch counts everywhere or nowhere.
        self.check(truth, logits, losses.len(), weights)?;
        let numbers = logits.floats();
        let predictions = match self.link {
            Link::Sigmoid => numbers.iter().map(|&logit| sigmoid(logit)).collect(),
            Link::Softmax | Link::None => numbers.to_vec(),
        };
        // One logit stands for the two classes [0, logit]; a tie is class 0.
        let class = |row: &[f32]| if let [logit] = row { i64::from(*logit > 0.0) } else { argmax(row) as i64 };
        let classes: Vec<i64> = numbers.chunks_exact(width).map(class).collect();
        // Losses travel as f32 where Keras' do too.
        let losses: Vec<f32> = losses.iter().map(|&loss| loss as f32).collect();
        for (metric, feed) in self.metrics.iter_mut().zip(&self.feeds) {
            let prediction = match feed {
                Feed::Losses => Values::column(&losses),
                Feed::Classes => Values::ids(&classes),
                Feed::Predictions => Values::rows(&predictions, width),
            };
            metric.update(truth, prediction, weights)?;
        }
        Ok(())
    }

    fn check(&self, truth: Values<'_>, logits: Values<'_>, losses: usize, weights: Option<&[f32]>) -> Result<()> {
        let (labels, examples) = (truth.examples()?, logits.examples()?);
        let wanted = if self.link == Link::Softmax { 1 } else { logits.width() };
        if (labels, losses, truth.width()) != (examples, examples, wanted) {
            let what = format!(
                "labels of shape [{labels}, {}] and {losses} losses for logits of shape [{examples}, {}]",
                truth.width(),
                logits.width()
            );
            return Err(Error::new(Code::ShapeMismatch, what)
                .help(format!("give labels of shape [{examples}, {wanted}] and one loss for each example")));
        }
        Weights::new(weights, examples, 1).map(drop)
    }

    /// Every key with its value, in the order an Estimator makes them.
    #[must_use]
    pub fn results(&self) -> Vec<(String, f64)> {
        self.metrics.iter().map(|metric| (metric.name().to_owned(), metric.result())).collect()
    }

    /// The state of all metrics for the wire.
    #[must_use]
    pub fn to_words(&self) -> Vec<f64> {
        words_of(&self.metrics)
    }

    /// Adds what another head of the same kind has counted.
    ///
    /// # Errors
    /// When its state has another length.
    pub fn merge(&mut self, words: &[f64]) -> Result<()> {
        merge_words(&mut self.metrics, words)
    }

    /// Forgets everything counted.
    pub fn reset(&mut self) {
        self.metrics.iter_mut().for_each(|metric| metric.reset());
    }
}
