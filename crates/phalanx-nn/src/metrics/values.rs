//! The input of metrics: rows of numbers, one per example.

use std::borrow::Cow;

use phalanx_base::{Code, Error, Result};

/// The labels or predictions of one batch.
///
/// ```
/// use phalanx_nn::metrics::Values;
/// let probabilities = Values::rows(&[0.1, 0.9, 0.8, 0.2], 2);
/// assert_eq!(probabilities.examples()?, 2);
/// assert_eq!(Values::ids(&[1, 0]).examples()?, 2);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Values<'a> {
    /// `width` numbers per example, concatenated.
    Rows {
        /// The numbers.
        numbers: &'a [f32],
        /// How many numbers belong to one example.
        width: usize,
    },
    /// One class number per example.
    Ids(&'a [i64]),
}

impl<'a> Values<'a> {
    /// Wraps `width` numbers per example.
    #[must_use]
    pub fn rows(numbers: &'a [f32], width: usize) -> Self {
        Self::Rows { numbers, width }
    }

    /// Wraps one number per example.
    #[must_use]
    pub fn column(numbers: &'a [f32]) -> Self {
        Self::Rows { numbers, width: 1 }
    }

    /// Wraps one class number per example.
    #[must_use]
    pub fn ids(ids: &'a [i64]) -> Self {
        Self::Ids(ids)
    }

    /// Returns the number of values per example.
    #[must_use]
    pub fn width(&self) -> usize {
        match *self {
            Self::Rows { width, .. } => width,
            Self::Ids(_) => 1,
        }
    }

    /// Returns the number of examples.
    ///
    /// # Errors
    /// If the width is 0, or the numbers do not fill complete rows.
    pub fn examples(&self) -> Result<usize> {
        match *self {
            Self::Ids(ids) => Ok(ids.len()),
            Self::Rows { width: 0, .. } => {
                Err(Error::new(Code::ShapeMismatch, "values with rows of width 0")
                    .help("give rows of at least one number"))
            }
            Self::Rows { numbers, width } if !numbers.len().is_multiple_of(width) => {
                let what = format!("{} numbers do not fill rows of {width}", numbers.len());
                Err(Error::new(Code::ShapeMismatch, what).help("give the width of the model's output"))
            }
            Self::Rows { numbers, width } => Ok(numbers.len() / width),
        }
    }

    /// Returns all numbers as f32, to which Keras casts all inputs.
    #[must_use]
    pub fn floats(&self) -> Cow<'a, [f32]> {
        match *self {
            Self::Rows { numbers, .. } => Cow::Borrowed(numbers),
            Self::Ids(ids) => Cow::Owned(ids.iter().map(|&id| id as f32).collect()),
        }
    }

    /// Returns one class number per example; floats are truncated, as in Keras.
    ///
    /// # Errors
    /// If an example has more than one number.
    pub fn class_ids(&self) -> Result<Cow<'a, [i64]>> {
        match *self {
            Self::Ids(ids) => Ok(Cow::Borrowed(ids)),
            Self::Rows { numbers, width: 1 } => {
                // A label of NaN must not become class 0.
                let class = |&number: &f32| if number.is_finite() { number as i64 } else { -1 };
                Ok(Cow::Owned(numbers.iter().map(class).collect()))
            }
            Self::Rows { width, .. } => {
                let what = format!("the label has {width} numbers for each example, not one class number");
                Err(Error::new(Code::ShapeMismatch, what)
                    .help("for one-hot labels use the metric or loss without `sparse` in its name"))
            }
        }
    }
}

impl<'a> From<&'a [f32]> for Values<'a> {
    /// Wraps one number per example.
    fn from(numbers: &'a [f32]) -> Self {
        Self::column(numbers)
    }
}

impl<'a> From<&'a [i64]> for Values<'a> {
    /// Wraps one class number per example.
    fn from(ids: &'a [i64]) -> Self {
        Self::ids(ids)
    }
}

/// Labels and predictions of the same shape.
#[derive(Clone, Debug)]
pub struct Pair<'a> {
    /// The labels.
    pub label: Cow<'a, [f32]>,
    /// The predictions.
    pub prediction: Cow<'a, [f32]>,
    /// The number of values per example.
    pub width: usize,
}

impl<'a> Pair<'a> {
    /// Pairs labels and predictions.
    ///
    /// # Errors
    /// If their shapes differ.
    pub fn new(label: Values<'a>, prediction: Values<'a>) -> Result<Self> {
        let (labels, predictions) = (label.examples()?, prediction.examples()?);
        if labels != predictions || label.width() != prediction.width() {
            let what = format!(
                "labels of shape [{labels}, {}] do not fit predictions of shape [{predictions}, {}]",
                label.width(),
                prediction.width()
            );
            let help = if label.width() == 1 && labels == predictions {
                "for class numbers as labels use a metric or loss with `sparse` in its name, or make them one-hot"
            } else {
                "give as many labels as the model has outputs, for the same examples"
            };
            return Err(Error::new(Code::ShapeMismatch, what).help(help));
        }
        Ok(Self { label: label.floats(), prediction: prediction.floats(), width: label.width() })
    }

    /// Returns the label and the prediction of each example.
    pub fn rows(&self) -> impl Iterator<Item = (&[f32], &[f32])> {
        self.label.chunks_exact(self.width).zip(self.prediction.chunks_exact(self.width))
    }

    /// Returns the label and the prediction of each number.
    pub fn elements(&self) -> impl Iterator<Item = (f32, f32)> {
        self.label.iter().copied().zip(self.prediction.iter().copied())
    }
}

/// Class numbers as labels, and rows of predictions.
#[derive(Clone, Debug)]
pub struct Sparse<'a> {
    /// One class number for each example.
    pub classes: Cow<'a, [i64]>,
    /// The predictions.
    pub prediction: Cow<'a, [f32]>,
    /// The number of predicted classes.
    pub width: usize,
}

impl<'a> Sparse<'a> {
    /// Pairs class numbers, which may be out of range, and rows of predictions.
    ///
    /// # Errors
    /// If their numbers differ.
    pub fn new(label: Values<'a>, prediction: Values<'a>) -> Result<Self> {
        let (classes, rows) = (label.class_ids()?, prediction.examples()?);
        if classes.len() != rows {
            let what = format!("{} class numbers as labels do not fit {rows} rows of predictions", classes.len());
            return Err(Error::new(Code::ShapeMismatch, what).help("give one class number for each example"));
        }
        Ok(Self { classes, prediction: prediction.floats(), width: prediction.width() })
    }

    /// Returns the class and the prediction of each example.
    pub fn rows(&self) -> impl Iterator<Item = (i64, &[f32])> {
        self.classes.iter().copied().zip(self.prediction.chunks_exact(self.width))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_that_do_not_fit_are_named() {
        let ragged = Values::rows(&[1.0, 2.0, 3.0], 2).examples().unwrap_err();
        assert_eq!((ragged.code(), ragged.what()), (Code::ShapeMismatch, "3 numbers do not fill rows of 2"));
        assert!(Values::rows(&[], 0).examples().is_err());
        let wide = Pair::new(Values::ids(&[1, 0]), Values::rows(&[0.5; 6], 3)).unwrap_err();
        assert_eq!(wide.what(), "labels of shape [2, 1] do not fit predictions of shape [2, 3]");
        assert!(wide.next().unwrap().contains("sparse"), "{}", wide.report());
        let short = Sparse::new(Values::ids(&[1]), Values::rows(&[0.5; 6], 3)).unwrap_err();
        assert_eq!(short.what(), "1 class numbers as labels do not fit 2 rows of predictions");
        assert!(Sparse::new(Values::rows(&[0.0; 6], 3), Values::rows(&[0.5; 6], 3)).is_err());
    }
}
