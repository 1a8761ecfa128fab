//! Heads: what logits mean, what they are compared with, and what is reported of them.

mod labels;
mod predictions;

pub(crate) use labels::{Labels, Targets};

use phalanx_base::{Code, Error, Result};
use phalanx_nn::burn::tensor::{Tensor, TensorData};
use phalanx_nn::losses::{Loss, Truth};
use phalanx_nn::metrics::{HeadMetrics, Reduction, Values};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One logit, the classes 0 and 1.
    Binary,
    /// A logit for each class.
    MultiClass(usize),
    /// Numbers, so many for each example.
    Regression(usize),
}

/// What a model's logits are for: TensorFlow's `BinaryClassHead`, `MultiClassHead` and `RegressionHead`.
///
/// ```
/// use phalanx_estimator::Head;
/// let head = Head::classes(2).label_vocabulary(["<=50K", ">50K"]).weight_column("fnlwgt");
/// assert_eq!(head.logits_dimension(), 1);
/// assert_eq!(Head::classes(3).logits_dimension(), 3);
/// ```
#[derive(Clone, Debug)]
pub struct Head {
    pub(crate) kind: Kind,
    pub(crate) weight_column: Option<String>,
    pub(crate) label_vocabulary: Vec<String>,
    thresholds: Vec<f32>,
    reduction: Reduction,
    error: Option<Error>,
}

impl Head {
    fn of(kind: Kind) -> Self {
        let (weight_column, label_vocabulary, thresholds) = (None, Vec::new(), Vec::new());
        Self { kind, weight_column, label_vocabulary, thresholds, reduction: Reduction::SumOverBatchSize, error: None }
    }

    /// For so many classes: with two, one logit; with more, one for each. The label is a class number, or a word of the
    /// label vocabulary.
    #[must_use]
    pub fn classes(n_classes: usize) -> Self {
        match n_classes {
            0 | 1 => Self::of(Kind::Binary).refuse(format!("{n_classes} classes"), "there are at least 2"),
            2 => Self::of(Kind::Binary),
            _ => Self::of(Kind::MultiClass(n_classes)),
        }
    }

    /// For `label_dimension` numbers.
    #[must_use]
    pub fn regression(label_dimension: usize) -> Self {
        let head = Self::of(Kind::Regression(label_dimension));
        if label_dimension == 0 { head.refuse("a label dimension of 0", "there is at least one number") } else { head }
    }

    /// The column that says how much each example counts.
    #[must_use]
    pub fn weight_column(mut self, name: impl Into<String>) -> Self {
        self.weight_column = Some(name.into());
        self
    }

    /// The words that labels are, in the order of the classes.
    #[must_use]
    pub fn label_vocabulary<S: Into<String>>(mut self, words: impl IntoIterator<Item = S>) -> Self {
        self.label_vocabulary = words.into_iter().map(Into::into).collect();
        let classes = match self.kind {
            Kind::Binary => 2,
            Kind::MultiClass(classes) => classes,
            Kind::Regression(_) => return self.refuse("a label vocabulary for a regression", "its labels are numbers"),
        };
        let words = self.label_vocabulary.len();
        if words == classes {
            return self;
        }
        self.refuse(format!("a label vocabulary of {words} words"), format!("there are {classes} classes"))
    }

    /// Binary classes: accuracy, precision and recall are also reported at these probabilities.
    #[must_use]
    pub fn thresholds(mut self, thresholds: impl Into<Vec<f32>>) -> Self {
        self.thresholds = thresholds.into();
        if self.kind != Kind::Binary && !self.thresholds.is_empty() {
            return self.refuse("thresholds", "only a head of two classes has them");
        }
        match self.thresholds.iter().find(|t| !(**t > 0.0 && **t < 1.0)).copied() {
            Some(wrong) => self.refuse(format!("a threshold of {wrong}"), "it lies between 0 and 1, without them"),
            None => self,
        }
    }

    /// How the losses of a batch become one: their sum over their number, unless said otherwise.
    #[must_use]
    pub fn loss_reduction(mut self, reduction: Reduction) -> Self {
        self.reduction = reduction;
        match reduction {
            Reduction::None => self.refuse("the loss reduction None", "training needs one loss for a batch"),
            _ => self,
        }
    }

    fn refuse(mut self, what: impl Into<String>, why: impl std::fmt::Display) -> Self {
        self.error.get_or_insert_with(|| Error::new(Code::BadSetting, what).at("the model's head").because(why));
        self
    }

    /// The names of all metrics that an evaluation reports, `loss` among them, in their order.
    ///
    /// # Errors
    /// When a threshold is out of range.
    pub fn metric_names(&self) -> Result<Vec<String>> {
        let mut names: Vec<String> = self.metrics()?.results().into_iter().map(|(name, _)| name).collect();
        names.push("loss".to_owned());
        names.sort_unstable();
        Ok(names)
    }

    /// Checks that a batch has labels, and weights where they are wanted, such as this head takes.
    ///
    /// # Errors
    /// When they are missing, of another type or shape, or outside of the classes.
    pub fn check_labels(&self, batch: &phalanx_data::Batch) -> Result<()> {
        self.targets(batch).map(|_| ())
    }

    /// What was wrong with the settings.
    pub(crate) fn check(&self) -> Result<()> {
        self.error.clone().map_or(Ok(()), Err)
    }

    /// How many logits a model for this head has.
    #[must_use]
    pub fn logits_dimension(&self) -> usize {
        match self.kind {
            Kind::Binary => 1,
            Kind::MultiClass(n) | Kind::Regression(n) => n,
        }
    }

    /// The metrics that an evaluation reports, beside `loss`.
    pub(crate) fn metrics(&self) -> Result<HeadMetrics> {
        match self.kind {
            Kind::Binary => HeadMetrics::binary(&self.thresholds),
            Kind::MultiClass(_) => Ok(HeadMetrics::multi_class()),
            Kind::Regression(_) => Ok(HeadMetrics::regression()),
        }
    }

    fn loss_function(&self) -> Loss {
        match self.kind {
            Kind::Binary => Loss::BinaryCrossentropy { from_logits: true, label_smoothing: 0.0 },
            Kind::MultiClass(_) => Loss::SparseCategoricalCrossentropy { from_logits: true },
            Kind::Regression(_) => Loss::MeanSquaredError,
        }
    }

    /// The loss of a batch.
    pub(crate) fn loss(&self, logits: Tensor<2>, targets: &Targets) -> Result<Tensor<1>> {
        let ([rows, width], device) = (logits.dims(), logits.device());
        self.check_width(width)?;
        let truth = match &targets.labels {
            Labels::Numbers(numbers) => Truth::rows(numbers.clone(), width, &device)?,
            Labels::Ids(ids) => Truth::ids(ids, width, &device)?,
        };
        let mut each = self.loss_function().forward(truth, logits)?;
        if let Some(weights) = &targets.weights {
            each = each * Tensor::from_data(TensorData::new(weights.clone(), [rows]), &device);
        }
        let sum = each.sum();
        Ok(match (self.reduction, self.kind) {
            // The loss of a row is the mean over its numbers, and all of them count here.
            (Reduction::Sum, Kind::Regression(numbers)) => sum * numbers as f32,
            (Reduction::Sum, _) => sum,
            _ => sum / rows as f32,
        })
    }

    /// Counts a batch, and answers its loss.
    pub(crate) fn measure(&self, metrics: &mut HeadMetrics, logits: &[f32], targets: &Targets) -> Result<f64> {
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
            (Reduction::Sum, Kind::Regression(numbers)) => sum * numbers as f64,
            (Reduction::Sum, _) => sum,
            _ => sum / each.len().max(1) as f64,
        })
    }

    fn check_width(&self, width: usize) -> Result<()> {
        if width == self.logits_dimension() {
            return Ok(());
        }
        Err(Error::new(Code::ShapeMismatch, format!("the model yields {width} logits for an example"))
            .because(format!("its head takes {}", self.logits_dimension()))
            .help("give the last layer as many units as the head has logits"))
    }
}
