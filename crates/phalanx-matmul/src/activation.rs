//! Activation functions and their gradients.

use crate::Level;
use crate::level::leveled;
use crate::math::{erf, exp, exp_m1_below, fma, ln_1p, normal, sigmoid, softplus, tanh, within};
use crate::parallel::{GRAIN, In, Out, by_rows, check};

/// An activation function, as Keras defines it.
///
/// ```
/// use phalanx_matmul::{Activation, Level};
///
/// let mut x = [-1.0, 0.0, 2.0];
/// Activation::Relu.apply(Level::detect(), &mut x);
/// assert_eq!(x, [0.0, 0.0, 2.0]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activation {
    /// `x`.
    #[default]
    Linear,
    /// `max(x, 0)`.
    Relu,
    /// `x` if positive, else `exp(x) - 1`.
    Elu,
    /// Elu with constants that preserve mean and variance.
    Selu,
    /// `x` times the cumulative normal distribution, without approximation.
    Gelu,
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// `0.2 x + 0.5` between 0 and 1.
    HardSigmoid,
    /// The hyperbolic tangent.
    Tanh,
    /// `ln(exp(x) + 1)`.
    Softplus,
    /// `x / (|x| + 1)`.
    Softsign,
    /// `x` times its sigmoid.
    Swish,
    /// `x` times the hyperbolic tangent of its softplus.
    Mish,
    /// `exp(x)`.
    Exponential,
}

impl Activation {
    /// Every activation function.
    pub const ALL: [Self; 13] = [
        Self::Linear,
        Self::Relu,
        Self::Elu,
        Self::Selu,
        Self::Gelu,
        Self::Sigmoid,
        Self::HardSigmoid,
        Self::Tanh,
        Self::Softplus,
        Self::Softsign,
        Self::Swish,
        Self::Mish,
        Self::Exponential,
    ];

    /// Returns whether [`Self::gradient`] needs the inputs. For all other functions it needs the outputs, so the inputs need
    /// not be kept and the function can be fused with the operation before.
    ///
    /// ```
    /// use phalanx_matmul::Activation;
    /// assert!(Activation::Gelu.keeps_input() && !Activation::Relu.keeps_input());
    /// ```
    #[must_use]
    pub fn keeps_input(self) -> bool {
        matches!(self, Self::Gelu | Self::Swish | Self::Mish)
    }

    /// Replaces every number by the function of it.
    pub fn apply(self, level: Level, x: &mut [f32]) {
        if self != Self::Linear {
            by_rows(x.len(), self.grain(), Out(x, 1), &|Out(x, _)| forward(level, self, x));
        }
    }

    /// Writes the gradient of the inputs to `dx`: `dy` times the slope of the function, from the outputs or, if
    /// [`Self::keeps_input`], from the inputs.
    ///
    /// ```
    /// use phalanx_matmul::{Activation, Level};
    ///
    /// let (outputs, dy, mut dx) = ([0.0, 2.0], [3.0, 4.0], [0.0; 2]);
    /// Activation::Relu.gradient(Level::detect(), &outputs, &dy, &mut dx);
    /// assert_eq!(dx, [0.0, 4.0]);
    /// ```
    ///
    /// # Panics
    /// If the slices have different lengths.
    pub fn gradient(self, level: Level, kept: &[f32], dy: &[f32], dx: &mut [f32]) {
        check("the kept numbers", kept, dx.len(), 1);
        check("the gradient", dy, dx.len(), 1);
        let parts = (In(kept, 1), In(dy, 1), Out(dx, 1));
        by_rows(dy.len(), self.grain(), parts, &|(kept, dy, dx)| backward(level, self, kept.0, dy.0, dx.0));
    }

    fn grain(self) -> usize {
        if matches!(self, Self::Linear | Self::Relu | Self::HardSigmoid) { GRAIN } else { GRAIN / 4 }
    }
}

leveled! {
    pub(crate) fn forward(function: Activation, x: &mut [f32]) => forward_body;
    fn backward(function: Activation, kept: &[f32], dy: &[f32], dx: &mut [f32]) => backward_body;
}

#[inline(always)]
fn map(x: &mut [f32], function: impl Fn(f32) -> f32) {
    for x in x {
        *x = function(*x);
    }
}

#[inline(always)]
fn forward_body<const F: bool>(function: Activation, x: &mut [f32]) {
    match function {
        Activation::Linear => {}
        Activation::Relu => map(x, relu),
        Activation::Elu => map(x, elu::<F>),
        Activation::Selu => map(x, selu::<F>),
        Activation::Gelu => map(x, gelu::<F>),
        Activation::Sigmoid => map(x, sigmoid::<F>),
        Activation::HardSigmoid => map(x, hard_sigmoid::<F>),
        Activation::Tanh => map(x, tanh::<F>),
        Activation::Softplus => map(x, softplus::<F>),
        Activation::Softsign => map(x, softsign),
        Activation::Swish => map(x, swish::<F>),
        Activation::Mish => map(x, mish::<F>),
        Activation::Exponential => map(x, exp::<F>),
    }
}

#[inline(always)]
fn zip(kept: &[f32], dy: &[f32], dx: &mut [f32], slope: impl Fn(f32, f32) -> f32) {
    for ((dx, &dy), &kept) in dx.iter_mut().zip(dy).zip(kept) {
        *dx = slope(kept, dy);
    }
}

#[inline(always)]
fn backward_body<const F: bool>(function: Activation, kept: &[f32], dy: &[f32], dx: &mut [f32]) {
    match function {
        Activation::Linear => dx.copy_from_slice(dy),
        Activation::Relu => zip(kept, dy, dx, relu_slope),
        Activation::Elu => zip(kept, dy, dx, elu_slope),
        Activation::Selu => zip(kept, dy, dx, selu_slope),
        Activation::Gelu => zip(kept, dy, dx, gelu_slope::<F>),
        Activation::Sigmoid => zip(kept, dy, dx, sigmoid_slope),
        Activation::HardSigmoid => zip(kept, dy, dx, hard_sigmoid_slope),
        Activation::Tanh => zip(kept, dy, dx, tanh_slope::<F>),
        Activation::Softplus => zip(kept, dy, dx, softplus_slope::<F>),
        Activation::Softsign => zip(kept, dy, dx, softsign_slope),
        Activation::Swish => zip(kept, dy, dx, swish_slope::<F>),
        Activation::Mish => zip(kept, dy, dx, mish_slope::<F>),
        Activation::Exponential => zip(kept, dy, dx, exponential_slope),
    }
}

/// The factors of Selu above and below 0.
const SELU_SCALE: f32 = 1.050_701;
const SELU_BOTH: f32 = 1.758_099_4;

/// NaN stays NaN; a zero becomes the positive one.
#[inline(always)]
fn relu(x: f32) -> f32 {
    if x <= 0.0 { 0.0 } else { x }
}

/// NaN outputs keep their gradient.
#[inline(always)]
pub(crate) fn relu_slope(y: f32, dy: f32) -> f32 {
    if y <= 0.0 { 0.0 } else { dy }
}

#[inline(always)]
fn elu<const F: bool>(x: f32) -> f32 {
    let below = exp_m1_below::<F>(x);
    if x > 0.0 { x } else { below }
}

#[inline(always)]
fn elu_slope(y: f32, dy: f32) -> f32 {
    if y > 0.0 { dy } else { dy * (y + 1.0) }
}

#[inline(always)]
fn selu<const F: bool>(x: f32) -> f32 {
    let below = exp_m1_below::<F>(x);
    if x > 0.0 { SELU_SCALE * x } else { SELU_BOTH * below }
}

#[inline(always)]
fn selu_slope(y: f32, dy: f32) -> f32 {
    if y > 0.0 { SELU_SCALE * dy } else { dy * (y + SELU_BOTH) }
}

#[inline(always)]
fn gelu<const F: bool>(x: f32) -> f32 {
    x * normal::<F>(x)
}

#[inline(always)]
fn gelu_slope<const F: bool>(x: f32, dy: f32) -> f32 {
    /// 1 over the square root of 2π.
    const DENSITY: f32 = 0.398_942_3;
    let sum = 0.5 + 0.5 * erf::<F>(x * std::f32::consts::FRAC_1_SQRT_2);
    dy * fma::<F>(x, DENSITY * exp::<F>(-0.5 * x * x), sum)
}

#[inline(always)]
fn sigmoid_slope(y: f32, dy: f32) -> f32 {
    dy * (y * (1.0 - y))
}

#[inline(always)]
fn hard_sigmoid<const F: bool>(x: f32) -> f32 {
    within(fma::<F>(x, 0.2, 0.5), 0.0, 1.0)
}

#[inline(always)]
fn hard_sigmoid_slope(y: f32, dy: f32) -> f32 {
    if y > 0.0 && y < 1.0 { 0.2 * dy } else { 0.0 }
}

#[inline(always)]
fn tanh_slope<const F: bool>(y: f32, dy: f32) -> f32 {
    dy * fma::<F>(-y, y, 1.0)
}

#[inline(always)]
fn softplus_slope<const F: bool>(y: f32, dy: f32) -> f32 {
    dy * -exp_m1_below::<F>(-y)
}

#[inline(always)]
fn softsign(x: f32) -> f32 {
    x / (x.abs() + 1.0)
}

#[inline(always)]
fn softsign_slope(y: f32, dy: f32) -> f32 {
    let rest = 1.0 - y.abs();
    dy * (rest * rest)
}

#[inline(always)]
fn swish<const F: bool>(x: f32) -> f32 {
    x / (1.0 + exp::<F>(-x))
}

#[inline(always)]
fn swish_slope<const F: bool>(x: f32, dy: f32) -> f32 {
    let s = sigmoid::<F>(x);
    dy * (s * fma::<F>(x, 1.0 - s, 1.0))
}

/// The hyperbolic tangent of softplus, as a fraction of polynomials in `exp(x)`; and `exp(x)`.
#[inline(always)]
fn tanh_softplus<const F: bool>(x: f32) -> (f32, f32) {
    let e = exp::<F>(within(x, -104.0, 20.0));
    let square = fma::<F>(e, e, 2.0 * e);
    (square / (square + 2.0), e)
}

#[inline(always)]
fn mish<const F: bool>(x: f32) -> f32 {
    x * tanh_softplus::<F>(x).0
}

#[inline(always)]
fn mish_slope<const F: bool>(x: f32, dy: f32) -> f32 {
    let (t, e) = tanh_softplus::<F>(x);
    let under = fma::<F>(e, e, 2.0 * e) + 2.0;
    let slope = 4.0 * (1.0 + e) / under * (e / under);
    dy * fma::<F>(x, slope, t)
}

#[inline(always)]
fn exponential_slope(y: f32, dy: f32) -> f32 {
    dy * y
}

/// `ln(exp(-|x|) + 1)`: the part of softplus that is not linear.
#[inline(always)]
pub(crate) fn softplus_of_negative_abs<const F: bool>(x: f32) -> f32 {
    ln_1p::<F>(exp::<F>(-x.abs()))
}
