//! Metrics that a head reports on request.

use phalanx_base::{Code, Error, Result, nearest};

/// A metric that evaluations of an estimator report on request, beside those of TensorFlow's heads.
///
/// ```
/// use phalanx_nn::metrics::EvalMetric;
/// assert_eq!(EvalMetric::parse("gauc")?, EvalMetric::GroupAuc);
/// assert_eq!(EvalMetric::GroupAuc.name(), "gauc");
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EvalMetric {
    /// The AUC within groups of examples; see [`super::GroupAuc`].
    GroupAuc,
    /// The mean prediction divided by the mean label; see [`super::Calibration`].
    Calibration,
    /// The expected calibration error in ten bins; see [`super::CalibrationError`].
    CalibrationError,
    /// The log loss divided by that of the base rate; see [`super::NormalizedEntropy`].
    NormalizedEntropy,
    /// The mean of `|prediction − label|`.
    MeanAbsoluteError,
    /// The square root of the mean of `(prediction − label)²`.
    RootMeanSquaredError,
}

impl EvalMetric {
    /// All metrics.
    pub const ALL: &'static [Self] = &[
        Self::GroupAuc,
        Self::Calibration,
        Self::CalibrationError,
        Self::NormalizedEntropy,
        Self::MeanAbsoluteError,
        Self::RootMeanSquaredError,
    ];

    /// Returns the name under which it is reported.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::GroupAuc => "gauc",
            Self::Calibration => "calibration",
            Self::CalibrationError => "expected_calibration_error",
            Self::NormalizedEntropy => "normalized_entropy",
            Self::MeanAbsoluteError => "mean_absolute_error",
            Self::RootMeanSquaredError => "root_mean_squared_error",
        }
    }

    /// Returns whether it measures the probabilities of two classes; the others measure predicted numbers. A calibration
    /// is that of either.
    #[must_use]
    pub fn fits(self, two_classes: bool) -> bool {
        match self {
            Self::Calibration => true,
            Self::MeanAbsoluteError | Self::RootMeanSquaredError => !two_classes,
            Self::GroupAuc | Self::CalibrationError | Self::NormalizedEntropy => two_classes,
        }
    }

    /// Returns the metric of this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn parse(name: &str) -> Result<Self> {
        Self::ALL.iter().copied().find(|metric| metric.name() == name).ok_or_else(|| {
            let names = Self::ALL.iter().map(|metric| metric.name());
            let error = Error::new(Code::BadSetting, format!("there is no metric \"{name}\" to add to evaluations"));
            match nearest(name, names.clone()) {
                Some(near) => error.help(format!("did you mean {near}?")),
                None => error.help(format!("choose one of {}", names.collect::<Vec<_>>().join(", "))),
            }
        })
    }
}
