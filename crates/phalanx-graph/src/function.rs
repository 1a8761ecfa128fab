//! Activation functions.

use phalanx_base::{Code, Error, Result};
use phalanx_matmul::Activation;
use serde::{Deserialize, Serialize};

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        /// An activation function, as Keras defines it.
        ///
        /// ```
        /// use phalanx_graph::Function;
        /// assert_eq!("relu".parse::<Function>()?, Function::Relu);
        /// assert!("reul".parse::<Function>().is_err());
        /// # Ok::<(), phalanx_base::Error>(())
        /// ```
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Function { $($(#[$doc])* $name,)* }

        impl Function {
            /// Returns Keras' name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }

        impl std::str::FromStr for Function {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self> {
                match text {
                    $($text => Ok(Self::$name),)*
                    _ => Err(Error::new(Code::BadSetting, format!("there is no activation {text:?}"))
                        .help(concat!("one of", $(" ", $text),*))),
                }
            }
        }

        #[cfg(test)]
        const ALL: &[Function] = &[$(Function::$name),*];
    };
}

functions! {
    /// `x`.
    #[default]
    Linear = "linear";
    /// `max(x, 0)`.
    Relu = "relu";
    /// `x` if positive, else `exp(x) - 1`.
    Elu = "elu";
    /// Elu with constants that preserve mean and variance.
    Selu = "selu";
    /// `x` times the cumulative normal distribution, without approximation.
    Gelu = "gelu";
    /// `1 / (1 + exp(-x))`.
    Sigmoid = "sigmoid";
    /// `0.2 x + 0.5` between 0 and 1.
    HardSigmoid = "hard_sigmoid";
    /// The hyperbolic tangent.
    Tanh = "tanh";
    /// `exp(x)` over its sum along the last axis.
    Softmax = "softmax";
    /// `ln(exp(x) + 1)`.
    Softplus = "softplus";
    /// `x / (|x| + 1)`.
    Softsign = "softsign";
    /// `x` times its sigmoid.
    Swish = "swish";
    /// `x` times the hyperbolic tangent of its softplus.
    Mish = "mish";
    /// `exp(x)`.
    Exponential = "exponential";
}

impl Function {
    /// Returns the kernel of the function; softmax has another one, because it is a function of several numbers.
    pub(crate) fn kernel(self) -> Option<Activation> {
        Some(match self {
            Self::Linear => Activation::Linear,
            Self::Relu => Activation::Relu,
            Self::Elu => Activation::Elu,
            Self::Selu => Activation::Selu,
            Self::Gelu => Activation::Gelu,
            Self::Sigmoid => Activation::Sigmoid,
            Self::HardSigmoid => Activation::HardSigmoid,
            Self::Tanh => Activation::Tanh,
            Self::Softmax => return None,
            Self::Softplus => Activation::Softplus,
            Self::Softsign => Activation::Softsign,
            Self::Swish => Activation::Swish,
            Self::Mish => Activation::Mish,
            Self::Exponential => Activation::Exponential,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for &function in ALL {
            assert_eq!(function.name().parse::<Function>().unwrap(), function);
        }
    }
}
