//! Heads: the loss, metrics and predictions of a model's logits.

mod eval_metrics;
mod graph;
mod labels;
mod loss;
mod measured;
mod own;
mod predictions;

pub(crate) use labels::{Labels, Targets};
pub use own::Evaluated;

use own::{AddedMetric, Own, OwnLoss, PredictionFn};
use phalanx_base::{Code, Error, Result};
use phalanx_data::Batch;
use phalanx_nn::burn::tensor::Tensor;
use phalanx_nn::metrics::{EvalMetric, Metric, Reduction};
use phalanx_train::fit::LossChoice;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadKind {
    /// One logit, the classes 0 and 1.
    Binary,
    /// A logit for each class.
    MultiClass(usize),
    /// A logit for each class, of which an example may have several or none.
    MultiLabel(usize),
    /// This many numbers per example.
    Regression(usize),
    /// This many counts per example; a logit is the logarithm of the expected count.
    Poisson(usize),
    /// The heads of [`Head::parts`].
    Several,
    /// This many logits per example, whose loss is the user's.
    Own(usize),
}

impl HeadKind {
    /// Returns the number of classes of a classifier.
    fn class_count(self) -> Option<usize> {
        match self {
            Self::Binary => Some(2),
            Self::MultiClass(classes) | Self::MultiLabel(classes) => Some(classes),
            Self::Regression(_) | Self::Poisson(_) | Self::Several | Self::Own(_) => None,
        }
    }

    pub(crate) fn classes(n_classes: usize) -> Self {
        if n_classes == 2 { Self::Binary } else { Self::MultiClass(n_classes) }
    }
}

/// One of several heads.
#[derive(Clone, Debug)]
pub(crate) struct HeadPart {
    /// The column of its labels, and the prefix or suffix of its predictions and metrics.
    pub(crate) name: String,
    pub(crate) head: Head,
    pub(crate) weight: f32,
}

/// The loss, metrics and predictions of a model: TensorFlow's `BinaryClassHead`, `MultiClassHead`, `MultiLabelHead`,
/// `RegressionHead`, `PoissonRegressionHead` and `MultiHead`, or your own.
///
/// ```
/// use phalanx_estimator::Head;
/// let head = Head::classes(2).label_vocabulary(["<=50K", ">50K"]).weight_column("fnlwgt");
/// assert_eq!(head.logits_dimension(), 1);
/// assert_eq!(Head::classes(3).logits_dimension(), 3);
/// ```
#[derive(Clone, Debug)]
pub struct Head {
    pub(crate) kind: HeadKind,
    pub(crate) weight_column: Option<String>,
    pub(crate) label_vocabulary: Vec<String>,
    pub(crate) thresholds: Vec<f32>,
    pub(crate) reduction: Reduction,
    pub(crate) eval_metrics: Vec<EvalMetric>,
    pub(crate) group_by: Option<String>,
    pub(crate) parts: Vec<HeadPart>,
    own_loss: Option<OwnLoss>,
    own_predictions: Option<Own<PredictionFn>>,
    added: Vec<AddedMetric>,
}

impl Head {
    fn of(kind: HeadKind) -> Self {
        Self {
            kind,
            weight_column: None,
            label_vocabulary: Vec::new(),
            thresholds: Vec::new(),
            reduction: Reduction::SumOverBatchSize,
            eval_metrics: Vec::new(),
            group_by: None,
            parts: Vec::new(),
            own_loss: None,
            own_predictions: None,
            added: Vec::new(),
        }
    }

    /// A head for `n_classes` classes: two have one logit, more have one logit each. Labels are class numbers, or words
    /// of the label vocabulary.
    #[must_use]
    pub fn classes(n_classes: usize) -> Self {
        Self::of(HeadKind::classes(n_classes))
    }

    /// A head for the regression of `label_dimension` numbers.
    #[must_use]
    pub fn regression(label_dimension: usize) -> Self {
        Self::of(HeadKind::Regression(label_dimension))
    }

    /// A head for examples that belong to any number of `n_classes` classes: `MultiLabelHead`. Labels are `n_classes` zeros and
    /// ones per example, or lists of class numbers or words of the label vocabulary.
    ///
    /// ```
    /// use phalanx_estimator::Head;
    /// let genres = Head::multi_label(3).label_vocabulary(["comedy", "drama", "horror"]).thresholds([0.3]);
    /// assert_eq!(genres.logits_dimension(), 3);
    /// ```
    #[must_use]
    pub fn multi_label(n_classes: usize) -> Self {
        Self::of(HeadKind::MultiLabel(n_classes))
    }

    /// A head for the regression of `label_dimension` counts: `PoissonRegressionHead`. A logit is the logarithm of the
    /// expected count, and the loss is the full Poisson loss.
    #[must_use]
    pub fn poisson(label_dimension: usize) -> Self {
        Self::of(HeadKind::Poisson(label_dimension))
    }

    /// Several heads over the logits of one model, in this order: `MultiHead`. The labels of each are the column of its name.
    /// The loss is the sum of theirs; metrics get the suffix `/NAME`, predictions the prefix `NAME/`.
    ///
    /// ```
    /// use phalanx_estimator::Head;
    /// let head = Head::several([("clicked", Head::classes(2)), ("dwell", Head::regression(1))]).head_weights([1.0, 0.1]);
    /// assert_eq!(head.logits_dimension(), 2);
    /// ```
    #[must_use]
    pub fn several<N: Into<String>>(heads: impl IntoIterator<Item = (N, Self)>) -> Self {
        let part = |(name, head): (N, Self)| HeadPart { name: name.into(), head, weight: 1.0 };
        Self { parts: heads.into_iter().map(part).collect(), ..Self::of(HeadKind::Several) }
    }

    /// A head of your own for a model of `logits` numbers per example. `loss` returns the loss of each example from the
    /// logits and the batch, which has the labels. The head predicts `logits`, unless [`Self::predictions_fn`] says otherwise.
    ///
    /// ```
    /// use phalanx_estimator::Head;
    /// use phalanx_nn::burn::tensor::{Tensor, TensorData};
    /// // The quantile loss at 0.9.
    /// let head = Head::own(1, |logits: Tensor<2>, batch| {
    ///     let y = batch.f32("y")?.to_vec();
    ///     let shape = [y.len()];
    ///     let error = Tensor::<1>::from_data(TensorData::new(y, shape), &logits.device()) - logits.squeeze_dim(1);
    ///     Ok((error.clone() * 0.9).max_pair(error * -0.1))
    /// });
    /// # let _ = head;
    /// ```
    #[must_use]
    pub fn own(logits: usize, loss: impl Fn(Tensor<2>, &Batch) -> Result<Tensor<1>> + Send + Sync + 'static) -> Self {
        Self::of(HeadKind::Own(logits)).loss_fn(loss)
    }

    /// Replaces the loss: TensorFlow's `loss_fn`. The function returns the loss of each example, which is then weighted and
    /// reduced as the head's own is.
    #[must_use]
    pub fn loss_fn(mut self, loss: impl Fn(Tensor<2>, &Batch) -> Result<Tensor<1>> + Send + Sync + 'static) -> Self {
        self.own_loss = Some(OwnLoss::OfBatch(Own(Arc::new(loss))));
        self
    }

    /// Replaces the loss by one of the head's labels and logits: a name of Keras, a [`Loss`](phalanx_nn::losses::Loss), a
    /// closure, or a [`LossFunction`](phalanx_nn::losses::LossFunction) of your own. Metrics and predictions stay.
    ///
    /// ```
    /// use phalanx_estimator::Head;
    /// use phalanx_nn::burn::tensor::Tensor;
    /// let head = Head::regression(1).loss(|labels: Tensor<2>, predictions: Tensor<2>| {
    ///     (labels - predictions).abs().sqrt().squeeze_dim::<1>(1)
    /// });
    /// let robust = Head::regression(1).loss("huber");
    /// # let _ = (head, robust);
    /// ```
    #[must_use]
    pub fn loss(mut self, loss: impl Into<LossChoice>) -> Self {
        self.own_loss = Some(OwnLoss::OfLabels(loss.into()));
        self
    }

    /// Replaces the predictions, a column for each key: the `predictions` of TensorFlow's `EstimatorSpec`.
    #[must_use]
    pub fn predictions_fn(mut self, make: impl Fn(Tensor<2>) -> Result<Batch> + Send + Sync + 'static) -> Self {
        self.own_predictions = Some(Own(Arc::new(make)));
        self
    }

    /// Adds a metric to evaluations: TensorFlow's `add_metrics`, or an entry of `eval_metric_ops`. `update` adds an evaluated
    /// batch to it.
    ///
    /// ```
    /// use phalanx_estimator::Head;
    /// use phalanx_nn::metrics::{MeanAbsoluteError, Metric, Values};
    /// let head = Head::regression(1).add_metric("mae", MeanAbsoluteError::new(), |metric, seen| {
    ///     let (labels, predictions) = (seen.batch.f32("y")?, seen.predictions.f32("predictions")?);
    ///     metric.update(Values::column(labels), Values::column(predictions), None)
    /// });
    /// assert!(head.metric_names()?.contains(&"mae".to_owned()));
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn add_metric(
        mut self,
        name: impl Into<String>,
        metric: impl Metric + 'static,
        update: impl Fn(&mut dyn Metric, &Evaluated<'_>) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.added.push(AddedMetric::new(name.into(), metric, update));
        self
    }

    /// Sets the weights of the losses of several heads, in their order; 1 by default.
    #[must_use]
    pub fn head_weights(mut self, weights: impl IntoIterator<Item = f32>) -> Self {
        self.parts.iter_mut().zip(weights).for_each(|(part, weight)| part.weight = weight);
        self
    }

    pub(crate) fn classifier() -> Self {
        Self::classes(2)
    }

    pub(crate) fn regressor() -> Self {
        Self::regression(1)
    }

    /// Sets the labels' texts, in the order of the classes.
    #[must_use]
    pub fn label_vocabulary<S: Into<String>>(mut self, words: impl IntoIterator<Item = S>) -> Self {
        self.label_vocabulary = words.into_iter().map(Into::into).collect();
        self
    }

    phalanx_train::setters! {
        /// Sets the column of example weights.
        weight_column(name: impl Into<String>) { weight_column = Some(name.into()) }
        /// For two classes or several labels: also reports accuracy, precision and recall at these probabilities.
        thresholds(thresholds: impl Into<Vec<f32>>) { thresholds = thresholds.into() }
        /// Adds metrics to evaluations.
        eval_metrics(metrics: impl Into<Vec<EvalMetric>>) { eval_metrics = metrics.into() }
        /// Sets the column whose values are the groups of [`EvalMetric::GroupAuc`].
        group_by(name: impl Into<String>) { group_by = Some(name.into()) }
        /// Sets how the losses of a batch are reduced; `SumOverBatchSize` by default.
        loss_reduction(reduction: Reduction) { reduction = reduction }
    }

    /// Fails if the settings contradict each other.
    pub(crate) fn check(&self) -> Result<()> {
        let refuse =
            |what: &str, why: &str| Err(Error::new(Code::BadSetting, what).at("the model's head").because(why));
        let words = self.label_vocabulary.len();
        match self.kind {
            HeadKind::MultiClass(classes @ (0 | 1)) | HeadKind::MultiLabel(classes @ (0 | 1)) => {
                return refuse(&format!("{classes} classes"), "there are at least 2");
            }
            HeadKind::Regression(0) | HeadKind::Poisson(0) => {
                return refuse("a label dimension of 0", "there is at least one number");
            }
            HeadKind::Own(0) => return refuse("a model of 0 logits", "there is at least one number"),
            HeadKind::Several => self.check_parts()?,
            _ => {}
        }
        match self.kind.class_count() {
            None if words > 0 => return refuse("a label vocabulary", "the labels of this head are no classes"),
            Some(classes) if words > 0 && words != classes => {
                return refuse(
                    &format!("a label vocabulary of {words} words"),
                    &format!("there are {classes} classes"),
                );
            }
            _ => {}
        }
        if !matches!(self.kind, HeadKind::Binary | HeadKind::MultiLabel(_)) && !self.thresholds.is_empty() {
            return refuse("thresholds", "only heads of two classes and of several labels have them");
        }
        if let Some(wrong) = self.thresholds.iter().find(|t| !(**t > 0.0 && **t < 1.0)) {
            return refuse(&format!("a threshold of {wrong}"), "it must be between 0 and 1, exclusive");
        }
        self.check_eval_metrics()?;
        match &self.own_loss {
            Some(OwnLoss::OfLabels(_)) if matches!(self.kind, HeadKind::Own(_) | HeadKind::Several) => {
                return refuse("a loss of labels and logits", "this head has no labels of its own");
            }
            Some(OwnLoss::OfLabels(loss)) => {
                loss.clone().resolve().map_err(|error| error.at("the model's head"))?;
            }
            _ => {}
        }
        if self.reduction == Reduction::None {
            return refuse("the loss reduction None", "training needs one loss for a batch");
        }
        Ok(())
    }

    /// Fails unless every part has a name of its own and valid settings.
    fn check_parts(&self) -> Result<()> {
        let refuse = |what: String, why: &str| Err(Error::new(Code::BadSetting, what).at("Head::several").because(why));
        if self.parts.is_empty() {
            return refuse("no heads".to_owned(), "there is at least one");
        }
        for (at, part) in self.parts.iter().enumerate() {
            let name = &part.name;
            if name.is_empty() || self.parts[..at].iter().any(|other| other.name == *name) {
                return refuse(format!("a second head {name:?}"), "each head has the name of its label's column");
            }
            if part.head.kind == HeadKind::Several {
                return refuse(format!("the head {name:?} has several heads"), "they are one list");
            }
            if part.head.reduction != self.parts[0].head.reduction {
                return refuse(format!("the loss reduction of head {name:?}"), "all heads have the same one");
            }
            part.head.check().map_err(|error| error.at(format!("the head {name:?}")))?;
        }
        Ok(())
    }

    /// Returns the sorted names of all metrics that an evaluation reports, including `loss`.
    ///
    /// # Errors
    /// Fails if a threshold is out of range.
    pub fn metric_names(&self) -> Result<Vec<String>> {
        let mut names: Vec<String> = self.metrics()?.results().into_iter().map(|(name, _)| name).collect();
        names.push("loss".to_owned());
        names.sort_unstable();
        Ok(names)
    }

    /// Checks the labels and weights of a batch.
    ///
    /// # Errors
    /// Fails if they are missing, of another type or shape, or outside the classes.
    pub fn check_labels(&self, batch: &Batch) -> Result<()> {
        self.targets(batch).map(|_| ())
    }

    /// Returns the number of logits of a model for this head.
    #[must_use]
    pub fn logits_dimension(&self) -> usize {
        match self.kind {
            HeadKind::Binary => 1,
            HeadKind::MultiClass(n)
            | HeadKind::MultiLabel(n)
            | HeadKind::Regression(n)
            | HeadKind::Poisson(n)
            | HeadKind::Own(n) => n,
            HeadKind::Several => self.parts.iter().map(|part| part.head.logits_dimension()).sum(),
        }
    }

    /// Returns each part with the range of its logits.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (&HeadPart, std::ops::Range<usize>)> {
        let mut at = 0;
        self.parts.iter().map(move |part| {
            let start = at;
            at += part.head.logits_dimension();
            (part, start..at)
        })
    }
}
