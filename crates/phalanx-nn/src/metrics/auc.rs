//! The area under a curve.

use phalanx_base::{Code, Error, Result, nearest};

use super::confusion::{Confusion, by_confusion};
use super::metric::ratio;
use super::thresholds::Thresholds;
use super::{Counts, Metric, Values};

/// The curve of an [`Auc`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Curve {
    /// Recall over the false positive rate.
    #[default]
    Roc,
    /// Precision over recall.
    Pr,
}

/// The approximation of the area between two adjacent thresholds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Summation {
    /// Trapezoids for ROC; for PR, interpolation of true positives instead of precision (Davis and Goadrich).
    #[default]
    Interpolation,
    /// The lower of the two heights.
    Minoring,
    /// The higher of the two heights.
    Majoring,
}

impl std::str::FromStr for Curve {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "ROC" | "roc" => Ok(Self::Roc),
            "PR" | "pr" => Ok(Self::Pr),
            _ => Err(unknown("curve", text, &["ROC", "PR"])),
        }
    }
}

impl std::str::FromStr for Summation {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "interpolation" | "Interpolation" => Ok(Self::Interpolation),
            "minoring" | "Minoring" => Ok(Self::Minoring),
            "majoring" | "Majoring" => Ok(Self::Majoring),
            _ => Err(unknown("summation method", text, &["interpolation", "minoring", "majoring"])),
        }
    }
}

fn unknown(what: &str, text: &str, known: &[&str]) -> Error {
    let help = nearest(text, known.iter().copied())
        .map_or_else(|| format!("choose one of {}", known.join(", ")), |near| format!("did you mean `{near}`?"));
    Error::new(Code::BadSetting, format!("no {what} is called `{text}`")).help(help)
}

/// The area under the ROC or the precision-recall curve, approximated with thresholds (200) as in Keras.
///
/// ```
/// use phalanx_nn::metrics::{Auc, Curve, Metric, Values};
/// let label = Values::column(&[0.0, 0.0, 1.0, 1.0]);
/// let prediction = Values::column(&[0.0, 0.5, 0.3, 0.9]);
/// let mut auc = Auc::new();
/// auc.update(label, prediction, None)?;
/// assert_eq!(auc.result(), 0.75);
/// let mut pr = Auc::new().curve(Curve::Pr).named("auc_precision_recall");
/// pr.update(label, prediction, None)?;
/// assert!((pr.result() - 0.797_267).abs() < 1e-6);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Auc {
    name: String,
    curve: Curve,
    summation: Summation,
    from_logits: bool,
    confusion: Confusion,
}

impl Auc {
    /// Returns the metric with Keras' defaults.
    #[must_use]
    pub fn new() -> Self {
        Self {
            name: "auc".into(),
            curve: Curve::Roc,
            summation: Summation::Interpolation,
            from_logits: false,
            confusion: Confusion::new(Thresholds::usual().beyond()),
        }
    }

    setters! {
        /// Sets the name.
        named: impl Into<String> => name;
        /// Sets the curve.
        curve: Curve => curve;
        /// Sets the approximation of areas.
        summation_method: Summation => summation;
        /// Sets whether predictions are logits.
        from_logits: bool => from_logits;
    }

    /// Sets the number of thresholds, evenly spaced from 0 to 1.
    ///
    /// # Errors
    /// If it is below 2 or above ten million.
    pub fn num_thresholds(mut self, count: usize) -> Result<Self> {
        self.confusion = self.confusion.with_thresholds(Thresholds::spread_beyond(count)?);
        Ok(self)
    }

    /// Sets the thresholds; one below 0 and one above 1 are added.
    ///
    /// # Errors
    /// If one is not in [0, 1].
    pub fn thresholds(mut self, thresholds: &[f32]) -> Result<Self> {
        self.confusion = self.confusion.with_thresholds(Thresholds::given_beyond(thresholds)?);
        Ok(self)
    }

    /// The sum of the areas between adjacent thresholds.
    fn area(&self, counts: &[Counts], height: impl Fn(f64, f64) -> f64) -> f64 {
        let point = |counts: &Counts| match self.curve {
            Curve::Roc => (counts.false_positive_rate(), counts.recall()),
            Curve::Pr => (counts.recall(), counts.precision()),
        };
        counts
            .windows(2)
            .map(|pair| {
                let ((x0, y0), (x1, y1)) = (point(&pair[0]), point(&pair[1]));
                (x0 - x1) * height(y0, y1)
            })
            .sum()
    }
}

impl Default for Auc {
    fn default() -> Self {
        Self::new()
    }
}

/// The area under the precision-recall curve, with true positives interpolated between thresholds.
fn interpolated_pr(counts: &[Counts]) -> f64 {
    let step = |pair: &[Counts]| {
        let (low, high) = (&pair[0], &pair[1]);
        let (p_low, p_high) = (low.true_positives + low.false_positives, high.true_positives + high.false_positives);
        let gained = low.true_positives - high.true_positives;
        let slope = ratio(gained, (p_low - p_high).max(0.0));
        let intercept = high.true_positives - slope * p_high;
        let growth = if p_low > 0.0 && p_high > 0.0 { p_low / p_high } else { 1.0 };
        ratio(slope * (gained + intercept * growth.ln()), (high.true_positives + high.false_negatives).max(0.0))
    };
    counts.windows(2).map(step).sum()
}

pub(crate) fn sigmoid(logit: f32) -> f32 {
    1.0 / (1.0 + (-logit).exp())
}

impl Metric for Auc {
    by_confusion!();

    fn update(&mut self, label: Values<'_>, prediction: Values<'_>, weights: Option<&[f32]>) -> Result<()> {
        let Self { name, confusion, .. } = self;
        let probabilities: Vec<f32>;
        let prediction = if self.from_logits {
            probabilities = prediction.floats().iter().map(|&logit| sigmoid(logit)).collect();
            Values::rows(&probabilities, prediction.width())
        } else {
            prediction
        };
        confusion.update(label, prediction, weights).map_err(|error| error.at(format!("metric `{name}`")))
    }

    fn result(&self) -> f64 {
        let counts = self.confusion.counts();
        match (self.curve, self.summation) {
            (Curve::Pr, Summation::Interpolation) => interpolated_pr(&counts),
            (Curve::Roc, Summation::Interpolation) => self.area(&counts, |a, b| (a + b) / 2.0),
            (_, Summation::Minoring) => self.area(&counts, f64::min),
            (_, Summation::Majoring) => self.area(&counts, f64::max),
        }
    }
}
