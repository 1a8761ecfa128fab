//! What a metric is fed with: flat numbers in rows, one row for each example.

use std::borrow::Cow;

use phalanx_base::{Code, Error, Result};

/// Truths or predictions of one batch.
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
    /// `width` numbers for each example, one example after the other.
    Rows {
        /// The numbers.
        numbers: &'a [f32],
        /// How many belong to one example.
        width: usize,
    },
    /// One class number for each example.
    Ids(&'a [i64]),
}

impl<'a> Values<'a> {
    /// `width` numbers for each example.
    #[must_use]
    pub fn rows(numbers: &'a [f32], width: usize) -> Self {
        Self::Rows { numbers, width }
    }

    /// One number for each example.
    #[must_use]
    pub fn column(numbers: &'a [f32]) -> Self {
        Self::Rows { numbers, width: 1 }
    }

    /// One class number for each example.
    #[must_use]
    pub fn ids(ids: &'a [i64]) -> Self {
        Self::Ids(ids)
    }

    /// How many numbers an example has.
    #[must_use]
    pub fn width(&self) -> usize {
        match *self {
            Self::Rows { width, .. } => width,
            Self::Ids(_) => 1,
        }
    }

    /// How many examples there are.
    ///
    /// # Errors
    /// When the width is 0, or the numbers do not fill whole rows.
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

    /// All numbers as f32, as Keras casts whatever it is given.
    #[must_use]
    pub fn floats(&self) -> Cow<'a, [f32]> {
        match *self {
            Self::Rows { numbers, .. } => Cow::Borrowed(numbers),
            Self::Ids(ids) => Cow::Owned(ids.iter().map(|&id| id as f32).collect()),
        }
    }

    /// One class number for each example; numbers are cut to whole ones, as Keras does.
    ///
    /// # Errors
    /// When an example has more than one number.
    pub fn class_ids(&self) -> Result<Cow<'a, [i64]>> {
        match *self {
            Self::Ids(ids) => Ok(Cow::Borrowed(ids)),
            Self::Rows { numbers, width: 1 } => {
                // A label that is no number at all must not become class 0.
                let class = |&number: &f32| if number.is_finite() { number as i64 } else { -1 };
                Ok(Cow::Owned(numbers.iter().map(class).collect()))
            }
            Self::Rows { width, .. } => {
                let what = format!("the truth has {width} numbers for each example, not one class number");
                Err(Error::new(Code::ShapeMismatch, what)
                    .help("for one-hot truths use the metric or loss without `sparse` in its name"))
            }
        }
    }
}

/// Truths and predictions of the same shape.
#[derive(Clone, Debug)]
pub struct Pair<'a> {
    /// The truths.
    pub truth: Cow<'a, [f32]>,
    /// The predictions.
    pub prediction: Cow<'a, [f32]>,
    /// How many numbers an example has in each.
    pub width: usize,
}

impl<'a> Pair<'a> {
    /// Checks that both have the same shape.
    ///
    /// # Errors
    /// When they have not.
    pub fn new(truth: Values<'a>, prediction: Values<'a>) -> Result<Self> {
        let (truths, predictions) = (truth.examples()?, prediction.examples()?);
        if truths != predictions || truth.width() != prediction.width() {
            let what = format!(
                "truths of shape [{truths}, {}] do not fit predictions of shape [{predictions}, {}]",
                truth.width(),
                prediction.width()
            );
            let help = if truth.width() == 1 && truths == predictions {
                "for class numbers as truths use a metric or loss with `sparse` in its name, or make them one-hot"
            } else {
                "give as many truths as the model has outputs, for the same examples"
            };
            return Err(Error::new(Code::ShapeMismatch, what).help(help));
        }
        Ok(Self { truth: truth.floats(), prediction: prediction.floats(), width: truth.width() })
    }

    /// Truth and prediction of one example after the other.
    pub fn rows(&self) -> impl Iterator<Item = (&[f32], &[f32])> {
        self.truth.chunks_exact(self.width).zip(self.prediction.chunks_exact(self.width))
    }

    /// Truth and prediction of one number after the other.
    pub fn elements(&self) -> impl Iterator<Item = (f32, f32)> {
        self.truth.iter().copied().zip(self.prediction.iter().copied())
    }
}

/// Class numbers as truths beside rows of predictions.
#[derive(Clone, Debug)]
pub struct Sparse<'a> {
    /// One class number for each example.
    pub classes: Cow<'a, [i64]>,
    /// The predictions.
    pub prediction: Cow<'a, [f32]>,
    /// How many classes are predicted.
    pub width: usize,
}

impl<'a> Sparse<'a> {
    /// Checks that there is one class number for each row of predictions. The number itself may be out of range.
    ///
    /// # Errors
    /// When there is not.
    pub fn new(truth: Values<'a>, prediction: Values<'a>) -> Result<Self> {
        let (classes, rows) = (truth.class_ids()?, prediction.examples()?);
        if classes.len() != rows {
            let what = format!("{} class numbers as truths do not fit {rows} rows of predictions", classes.len());
            return Err(Error::new(Code::ShapeMismatch, what).help("give one class number for each example"));
        }
        Ok(Self { classes, prediction: prediction.floats(), width: prediction.width() })
    }

    /// Class and prediction of one example after the other.
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
        assert_eq!(wide.what(), "truths of shape [2, 1] do not fit predictions of shape [2, 3]");
        assert!(wide.next().unwrap().contains("sparse"), "{}", wide.report());
        let short = Sparse::new(Values::ids(&[1]), Values::rows(&[0.5; 6], 3)).unwrap_err();
        assert_eq!(short.what(), "1 class numbers as truths do not fit 2 rows of predictions");
        assert!(Sparse::new(Values::rows(&[0.0; 6], 3), Values::rows(&[0.5; 6], 3)).is_err());
    }
}
