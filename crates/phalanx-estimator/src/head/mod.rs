//! Heads: the loss, metrics and predictions of a model's logits.

mod eval_metrics;
mod labels;
mod predictions;

pub(crate) use labels::{Labels, Targets};

use phalanx_base::{Code, Error, Result};
use phalanx_data::Batch;
use phalanx_nn::burn::tensor::{Tensor, TensorData};
use phalanx_nn::losses::{Labels as LossLabels, Loss};
use phalanx_nn::metrics::{EvalMetric, HeadMetrics, Reduction, Values};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadKind {
    /// One logit, the classes 0 and 1.
    Binary,
    /// A logit for each class.
    MultiClass(usize),
    /// This many numbers per example.
    Regression(usize),
}

impl HeadKind {
    pub(crate) fn classes(n_classes: usize) -> Self {
        if n_classes == 2 { Self::Binary } else { Self::MultiClass(n_classes) }
    }
}

/// The loss, metrics and predictions of a model: TensorFlow's `BinaryClassHead`, `MultiClassHead` and `RegressionHead`.
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
}

impl Head {
    fn of(kind: HeadKind) -> Self {
        let (label_vocabulary, thresholds, reduction) = (Vec::new(), Vec::new(), Reduction::SumOverBatchSize);
        let (eval_metrics, group_by) = (Vec::new(), None);
        Self { kind, weight_column: None, label_vocabulary, thresholds, reduction, eval_metrics, group_by }
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
        /// For two classes: also reports accuracy, precision and recall at these probabilities.
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
        match (self.kind, self.label_vocabulary.len()) {
            (HeadKind::MultiClass(classes @ (0 | 1)), _) => {
                return refuse(&format!("{classes} classes"), "there are at least 2");
            }
            (HeadKind::Regression(0), _) => {
                return refuse("a label dimension of 0", "there is at least one number");
            }
            (HeadKind::Regression(_), 1..) => {
                return refuse("a label vocabulary for a regression", "its labels are numbers");
            }
            (HeadKind::Binary, words @ (1 | 3..)) => {
                return refuse(&format!("a label vocabulary of {words} words"), "there are 2 classes");
            }
            (HeadKind::MultiClass(classes), words @ 1..) if words != classes => {
                return refuse(
                    &format!("a label vocabulary of {words} words"),
                    &format!("there are {classes} classes"),
                );
            }
            _ => {}
        }
        if self.kind != HeadKind::Binary && !self.thresholds.is_empty() {
            return refuse("thresholds", "only a head of two classes has them");
        }
        if let Some(wrong) = self.thresholds.iter().find(|t| !(**t > 0.0 && **t < 1.0)) {
            return refuse(&format!("a threshold of {wrong}"), "it must be between 0 and 1, exclusive");
        }
        self.check_eval_metrics()?;
        if self.reduction == Reduction::None {
            return refuse("the loss reduction None", "training needs one loss for a batch");
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
            HeadKind::MultiClass(n) | HeadKind::Regression(n) => n,
        }
    }

    /// Returns the metrics that an evaluation reports besides `loss`.
    pub(crate) fn metrics(&self) -> Result<HeadMetrics> {
        let mut metrics = match self.kind {
            HeadKind::Binary => HeadMetrics::binary(&self.thresholds)?,
            HeadKind::MultiClass(_) => HeadMetrics::multi_class(),
            HeadKind::Regression(_) => HeadMetrics::regression(),
        };
        self.eval_metrics.iter().for_each(|&metric| metrics.request(metric));
        Ok(metrics)
    }

    fn loss_function(&self) -> Loss {
        match self.kind {
            HeadKind::Binary => Loss::BinaryCrossentropy { from_logits: true, label_smoothing: 0.0 },
            HeadKind::MultiClass(_) => Loss::SparseCategoricalCrossentropy { from_logits: true },
            HeadKind::Regression(_) => Loss::MeanSquaredError,
        }
    }

    /// Returns the loss of a batch.
    pub(crate) fn loss(&self, logits: Tensor<2>, targets: &Targets) -> Result<Tensor<1>> {
        let ([rows, width], device) = (logits.dims(), logits.device());
        self.check_width(width)?;
        let truth = match &targets.labels {
            Labels::Numbers(numbers) => LossLabels::rows(numbers.clone(), width, &device)?,
            Labels::Ids(ids) => LossLabels::ids(ids, width, &device)?,
        };
        let mut each = self.loss_function().forward(truth, logits)?;
        if let Some(weights) = &targets.weights {
            each = each * Tensor::from_data(TensorData::new(weights.clone(), [rows]), &device);
        }
        let sum = each.sum();
        Ok(match (self.reduction, self.kind) {
            // The loss of a row is the mean over its numbers.
            (Reduction::Sum, HeadKind::Regression(numbers)) => sum * numbers as f32,
            (Reduction::Sum, _) => sum,
            _ => sum / rows as f32,
        })
    }

    /// Updates the metrics with a batch, and returns its loss.
    pub(crate) fn measure(&self, metrics: &mut HeadMetrics, logits: &[f32], batch: &Batch) -> Result<f64> {
        let targets = &self.targets(batch)?;
        if let (Some(groups), Labels::Numbers(labels)) = (self.groups(batch)?, &targets.labels) {
            metrics.update_groups(&groups, labels, logits, targets.weights.as_deref())?;
        }
        let width = self.logits_dimension();
        let truth = match &targets.labels {
            Labels::Numbers(numbers) => Values::rows(numbers, width),
            Labels::Ids(ids) => Values::ids(ids),
        };
        let logits = Values::rows(logits, width);
        let each = self.loss_function().values(truth, logits)?;
        let weights = targets.weights.as_deref();
        metrics.update(truth, logits, &each, weights)?;
        let weight = |row: usize| weights.map_or(1.0, |weights| f64::from(weights[row]));
        let sum: f64 = each.iter().enumerate().map(|(row, loss)| loss * weight(row)).sum();
        Ok(match (self.reduction, self.kind) {
            (Reduction::Sum, HeadKind::Regression(numbers)) => sum * numbers as f64,
            (Reduction::Sum, _) => sum,
            _ => sum / each.len().max(1) as f64,
        })
    }

    fn check_width(&self, width: usize) -> Result<()> {
        if width == self.logits_dimension() {
            return Ok(());
        }
        Err(Error::new(Code::ShapeMismatch, format!("the model returns {width} logits per example"))
            .because(format!("its head takes {}", self.logits_dimension()))
            .help("give the last layer as many units as the head has logits"))
    }
}
