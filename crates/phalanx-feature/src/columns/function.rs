//! The functions of a numeric column: applied to every value, one after another, and written into exported graphs.

use phalanx_base::{Code, Error};
use std::sync::Arc;

/// A function of one number.
#[derive(Clone)]
pub(crate) enum NumericFunction {
    Log1p,
    Sqrt,
    Clip {
        min: f32,
        max: f32,
    },
    /// `(x - subtract) / divide`.
    Scale {
        subtract: f32,
        divide: f32,
    },
    /// A [`NumericFunction::Scale`] whose numbers are not known yet: mean and standard deviation of the data.
    Standardize,
    Custom(Arc<dyn Fn(f32) -> f32 + Send + Sync>),
}

impl NumericFunction {
    #[inline]
    fn apply(&self, x: f32) -> f32 {
        match self {
            Self::Log1p => x.ln_1p(),
            Self::Sqrt => x.sqrt(),
            Self::Clip { min, max } => x.max(*min).min(*max),
            // Subtracting 0 would turn -0 into 0, and cost a step.
            Self::Scale { subtract, divide } if *subtract == 0.0 => x / divide,
            Self::Scale { subtract, divide } => (x - subtract) / divide,
            Self::Standardize => x,
            Self::Custom(function) => function(x),
        }
    }

    /// The function in words: equal for functions that compute the same.
    fn describe(&self) -> String {
        match self {
            Self::Log1p => "log1p".to_owned(),
            Self::Sqrt => "sqrt".to_owned(),
            Self::Clip { min, max } => format!("clip {min:?} {max:?}"),
            Self::Scale { subtract, divide } => format!("scale {subtract:?} {divide:?}"),
            Self::Standardize => "standardize".to_owned(),
            Self::Custom(function) => format!("function {:p}", Arc::as_ptr(function).cast::<()>()),
        }
    }
}

/// The functions of a column, in order.
#[derive(Clone, Default)]
pub(crate) struct NumericFunctions(pub(crate) Vec<NumericFunction>);

impl NumericFunctions {
    #[inline]
    pub(crate) fn apply(&self, x: f32) -> f32 {
        self.0.iter().fold(x, |x, function| function.apply(x))
    }

    /// Applies the functions and refuses a finite number that has no finite result, such as the logarithm of -2.
    #[inline]
    pub(crate) fn checked(&self, key: &str, x: f32, fault: &mut Option<Error>) -> f32 {
        if self.0.is_empty() {
            return x;
        }
        let y = self.apply(x);
        if !y.is_finite() && x.is_finite() && fault.is_none() {
            *fault = Some(self.undefined(key, x));
        }
        y
    }

    #[cold]
    fn undefined(&self, key: &str, x: f32) -> Error {
        let mut y = x;
        for function in &self.0 {
            let next = function.apply(y);
            if !next.is_finite() {
                let name = function.describe();
                let what = format!("the input {key:?} has the value {x}, for which {name} is not a number");
                let error = Error::new(Code::DataRow, what).because(format!("{name} of {y} is {next}"));
                return error.help("clip the values before this function, or leave such rows out with a filter");
            }
            y = next;
        }
        Error::new(Code::DataRow, format!("the input {key:?} has the value {x}, which has no finite result"))
    }

    /// The functions before `Standardize`, if there is one, and those after it.
    pub(crate) fn around_standardize(&self) -> Option<(Self, Self)> {
        let at = self.0.iter().position(|function| matches!(function, NumericFunction::Standardize))?;
        Some((Self(self.0[..at].to_vec()), Self(self.0[at + 1..].to_vec())))
    }

    /// Replaces `Standardize`.
    pub(crate) fn standardize(&mut self, mean: f32, deviation: f32) {
        for function in &mut self.0 {
            if matches!(function, NumericFunction::Standardize) {
                *function = NumericFunction::Scale { subtract: mean, divide: deviation };
            }
        }
    }

    /// The functions in words.
    pub(crate) fn describe(&self) -> String {
        self.0.iter().map(NumericFunction::describe).collect::<Vec<_>>().join(" | ")
    }

    /// Reports functions that can never have a result.
    pub(crate) fn fault(&self) -> Option<String> {
        let mut standardized = false;
        for function in &self.0 {
            match function {
                NumericFunction::Clip { min, max } if min > max || min.is_nan() || max.is_nan() => {
                    return Some(format!("clip has the bounds {min} and {max}"));
                }
                NumericFunction::Scale { divide, subtract }
                    if *divide == 0.0 || !divide.is_finite() || !subtract.is_finite() =>
                {
                    return Some(format!("it subtracts {subtract} and divides by {divide}"));
                }
                NumericFunction::Standardize if standardized => return Some("it is standardized twice".to_owned()),
                NumericFunction::Standardize => standardized = true,
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_apply_in_order_and_undefined_results_are_refused() {
        let functions = NumericFunctions(vec![
            NumericFunction::Clip { min: 0.0, max: 99.0 },
            NumericFunction::Log1p,
            NumericFunction::Scale { subtract: 1.0, divide: 2.0 },
        ]);
        let mut fault = None;
        assert_eq!(functions.checked("x", -5.0, &mut fault), -0.5);
        assert_eq!(functions.checked("x", 1e9, &mut fault), (100_f32.ln() - 1.0) / 2.0);
        assert!(fault.is_none());
        let roots = NumericFunctions(vec![NumericFunction::Sqrt]);
        roots.checked("price", -2.0, &mut fault);
        let text = fault.unwrap().to_string();
        assert!(text.contains("\"price\" has the value -2") && text.contains("sqrt"), "{text}");
        // A missing value stays one.
        let mut fault = None;
        assert!(roots.checked("price", f32::NAN, &mut fault).is_nan() && fault.is_none());
    }
}
