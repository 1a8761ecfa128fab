//! Gradient clipping, as Keras' optimizers do it before they apply gradients.

use phalanx_base::{Code, Error, Result};

/// How an optimizer limits gradients before it applies them. It is one of Keras' `clipnorm`, `global_clipnorm` and
/// `clipvalue`.
///
/// The gradients of a table are those of the rows of a step, each row once: the gradients of repeated ids are summed before
/// they are clipped. (Keras clips such gradients first and sums them afterwards.)
///
/// ```
/// use phalanx_optim::{Adam, Clip, Optimizer};
/// let optimizer: Optimizer = Adam::new(0.001).clip(Clip::GlobalNorm(1.0)).into();
/// let (mut one, mut other) = ([3.0, 0.0], [4.0]);
/// optimizer.clip().unwrap().apply([&mut one[..], &mut other[..]]);
/// assert_eq!((one, other), ([0.6, 0.0], [0.8]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Clip {
    /// Limits every number to `-value..=value`.
    Value(f32),
    /// Scales the gradient of a variable or table down to this L2 norm if its own is larger.
    Norm(f32),
    /// Scales all gradients down together if the L2 norm of all of them is larger: all variables and tables whose
    /// optimizers have the same settings.
    GlobalNorm(f32),
}

impl Clip {
    /// Clips the gradients of one optimizer; each item is the gradient of a variable, or of the rows of a table.
    pub fn apply<'a>(self, gradients: impl IntoIterator<Item = &'a mut [f32]>) {
        match self {
            Self::Value(most) => {
                gradients.into_iter().flatten().for_each(|number| *number = number.clamp(-most, most));
            }
            Self::Norm(most) => gradients.into_iter().for_each(|gradient| {
                let norm = squares(gradient).sqrt();
                scale(gradient, norm, most);
            }),
            Self::GlobalNorm(most) => {
                let mut all: Vec<&mut [f32]> = gradients.into_iter().collect();
                let norm = norm(all.iter().map(|gradient| &**gradient));
                all.iter_mut().for_each(|gradient| scale(gradient, norm, most));
            }
        }
    }

    pub(crate) fn check(self) -> Result<()> {
        let (name, value) = self.parts();
        if value.is_finite() && value > 0.0 {
            return Ok(());
        }
        let error = Error::new(Code::BadSetting, format!("{name} is {value}"));
        Err(error.help(format!("set {name} to a finite number above 0, or leave it out")))
    }

    /// Returns the name of the setting and its value.
    pub(crate) fn parts(self) -> (&'static str, f32) {
        match self {
            Self::Value(value) => ("clip_value", value),
            Self::Norm(value) => ("clip_norm", value),
            Self::GlobalNorm(value) => ("global_clip_norm", value),
        }
    }

    pub(crate) fn to_words(self) -> [f64; 2] {
        let kind = match self {
            Self::Value(_) => 201.0,
            Self::Norm(_) => 202.0,
            Self::GlobalNorm(_) => 203.0,
        };
        [kind, self.parts().1.into()]
    }

    /// Reads clipping from the front of `words`; `None` if they begin with something else.
    pub(crate) fn from_words(words: &mut &[f64]) -> Result<Option<Self>> {
        let [kind, value, rest @ ..] = words else { return Ok(None) };
        let make = match kind {
            201.0 => Self::Value,
            202.0 => Self::Norm,
            203.0 => Self::GlobalNorm,
            _ => return Ok(None),
        };
        let made = make(*value as f32);
        made.check()?;
        *words = rest;
        Ok(Some(made))
    }
}

/// Returns the L2 norm of all numbers of all gradients together: TensorFlow's `tf.linalg.global_norm`.
///
/// ```
/// assert_eq!(phalanx_optim::norm([&[3.0, 0.0][..], &[4.0]]), 5.0);
/// ```
pub fn norm<'a>(gradients: impl IntoIterator<Item = &'a [f32]>) -> f64 {
    gradients.into_iter().map(squares).sum::<f64>().sqrt()
}

/// Returns the sum of squares. Eight partial sums let the compiler use vector instructions.
fn squares(numbers: &[f32]) -> f64 {
    let mut sums = [0.0_f64; 8];
    let mut chunks = numbers.chunks_exact(8);
    for chunk in &mut chunks {
        sums.iter_mut().zip(chunk).for_each(|(sum, x)| *sum += f64::from(*x) * f64::from(*x));
    }
    let rest: f64 = chunks.remainder().iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
    sums.iter().sum::<f64>() + rest
}

fn scale(gradient: &mut [f32], norm: f64, most: f32) {
    if norm > f64::from(most) {
        let factor = (f64::from(most) / norm) as f32;
        gradient.iter_mut().for_each(|number| *number *= factor);
    }
}
