//! Normalization to mean 0 and variance 1.

use crate::model::dyn_tensor::Unary;
use crate::model::layer::{layer_basics, mismatch, only};
use crate::model::{DynTensor, Identity, Initializer, Layer, Mode, Op, Plan, WeightPlan, Weights};
use burn::tensor::Tensor;
use phalanx_base::Result;

macro_rules! scale_and_center {
    ($name:ident) => {
        impl $name {
            setters! {
                /// Sets the addend of the variance. The default is 0.001.
                epsilon: f64 => epsilon;
                /// Sets whether to add a trained `beta`. The default is true.
                center: bool => center;
                /// Sets whether to multiply by a trained `gamma`. The default is true.
                scale: bool => scale;
            }

            fn trained_weights(&self, channels: usize) -> Vec<WeightPlan> {
                let gamma = WeightPlan::new("gamma", [channels], Initializer::Ones);
                let beta = WeightPlan::new("beta", [channels], Initializer::Zeros);
                self.scale.then_some(gamma).into_iter().chain(self.center.then_some(beta)).collect()
            }

            /// `gamma`, `beta`, and the number of these weights.
            fn affine(&self, weights: &Weights<'_>) -> Result<(Affine, usize)> {
                let gamma = if self.scale { Some(weights.vector(0)?) } else { None };
                let at = usize::from(self.scale);
                let beta = if self.center { Some(weights.vector(at)?) } else { None };
                Ok((Affine { gamma, beta }, at + usize::from(self.center)))
            }
        }
    };
}

/// The trained affine function that follows the normalization.
struct Affine {
    gamma: Option<Tensor<1>>,
    beta: Option<Tensor<1>>,
}

impl Affine {
    fn of<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let x = match &self.gamma {
            Some(gamma) => x * gamma.clone().unsqueeze(),
            None => x,
        };
        match &self.beta {
            Some(beta) => x + beta.clone().unsqueeze(),
            None => x,
        }
    }
}

/// Normalizes each channel (the last axis) over all other axes: by the batch in training, by moving averages in inference.
///
/// ```
/// use phalanx_nn::model::{BatchNormalization, Dense, Sequential};
/// let model = Sequential::new().add(Dense::new(8)).add(BatchNormalization::new().momentum(0.9)).build([4])?;
/// assert!(model.summary(None).contains("(None, 8)"));
/// # Ok::<(), phalanx_nn::model::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct BatchNormalization {
    identity: Identity,
    momentum: f64,
    epsilon: f64,
    center: bool,
    scale: bool,
}

layer_basics!(BatchNormalization);
scale_and_center!(BatchNormalization);

impl BatchNormalization {
    /// Returns the layer with Keras' defaults: momentum 0.99, epsilon 0.001.
    #[must_use]
    pub fn new() -> Self {
        Self { identity: Identity::default(), momentum: 0.99, epsilon: 1e-3, center: true, scale: true }
    }

    setters! {
        /// Sets the momentum of the moving averages. The default is 0.99.
        momentum: f64 => momentum;
    }
}

impl Default for BatchNormalization {
    fn default() -> Self {
        Self::new()
    }
}

impl Layer for BatchNormalization {
    layer_basics!(parts BatchNormalization);

    fn op(&self) -> Option<Op> {
        Some(Op::BatchNormalization { epsilon: self.epsilon, gamma: self.scale, beta: self.center })
    }

    fn plan(&self, inputs: &[Vec<usize>]) -> Result<Plan> {
        let input = only(inputs)?;
        let &channels = input.last().ok_or_else(|| mismatch("[None, ..., channels]", input))?;
        let mut weights = self.trained_weights(channels);
        weights.push(WeightPlan::moving("moving_mean", channels, Initializer::Zeros));
        weights.push(WeightPlan::moving("moving_variance", channels, Initializer::Ones));
        Ok(Plan { output: input.clone(), weights })
    }

    fn forward(&self, inputs: Vec<DynTensor>, weights: &Weights<'_>, mode: Mode) -> Result<DynTensor> {
        let (affine, at) = self.affine(weights)?;
        let (mean, variance) = (weights.moving(at)?, weights.moving(at + 1)?);
        let input = only(inputs)?.float();
        if mode == Mode::Inference {
            let fixed = Fixed { mean: mean.value(), variance: variance.value(), epsilon: self.epsilon, affine };
            return Ok(input.map(&fixed));
        }
        let moved = |batch_mean, batch_variance| {
            mean.update(batch_mean, self.momentum);
            variance.update(batch_variance, self.momentum);
        };
        Ok(input.map(&ByBatch { epsilon: self.epsilon, affine, moved }))
    }
}

struct Fixed {
    mean: Tensor<1>,
    variance: Tensor<1>,
    epsilon: f64,
    affine: Affine,
}

impl Unary for Fixed {
    fn apply<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let deviation = (self.variance.clone() + self.epsilon).sqrt();
        self.affine.of((x - self.mean.clone().unsqueeze()) / deviation.unsqueeze())
    }
}

struct ByBatch<F> {
    epsilon: f64,
    affine: Affine,
    moved: F,
}

impl<F: Fn(Tensor<1>, Tensor<1>)> Unary for ByBatch<F> {
    fn apply<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let dims = x.dims();
        let channels = dims[D - 1];
        let count = dims[..D - 1].iter().product::<usize>();
        let mean = over_places(x.clone());
        let centered = x - mean.clone();
        let variance = over_places(centered.clone().powi_scalar(2));
        // TensorFlow's fused kernel, which Keras uses for images, updates by the unbiased variance.
        let unbiased = if D == 4 { count as f64 / (count.max(2) - 1) as f64 } else { 1.0 };
        if count > 0 {
            (self.moved)(mean.reshape([channels]), variance.clone().reshape([channels]) * unbiased);
        }
        self.affine.of(centered / (variance + self.epsilon).sqrt())
    }
}

/// The mean over all axes but the last.
fn over_places<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    (0..D - 1).fold(x, |x, axis| x.mean_dim(axis))
}

/// Normalizes the last axis of each example by its own mean and variance.
///
/// ```
/// use phalanx_nn::model::{Dense, LayerNormalization, Sequential};
/// let model = Sequential::new().add(Dense::new(8)).add(LayerNormalization::new()).build([4])?;
/// assert!(model.summary(None).contains("(None, 8)"));
/// # Ok::<(), phalanx_nn::model::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LayerNormalization {
    identity: Identity,
    epsilon: f64,
    center: bool,
    scale: bool,
}

layer_basics!(LayerNormalization);
scale_and_center!(LayerNormalization);

impl LayerNormalization {
    /// Returns the layer with Keras' default: epsilon 0.001.
    #[must_use]
    pub fn new() -> Self {
        Self { identity: Identity::default(), epsilon: 1e-3, center: true, scale: true }
    }
}

impl Default for LayerNormalization {
    fn default() -> Self {
        Self::new()
    }
}

impl Layer for LayerNormalization {
    layer_basics!(parts LayerNormalization);

    fn op(&self) -> Option<Op> {
        Some(Op::LayerNormalization { epsilon: self.epsilon, gamma: self.scale, beta: self.center })
    }

    fn plan(&self, inputs: &[Vec<usize>]) -> Result<Plan> {
        let input = only(inputs)?;
        let &features = input.last().ok_or_else(|| mismatch("[None, ..., features]", input))?;
        Ok(Plan { output: input.clone(), weights: self.trained_weights(features) })
    }

    fn forward(&self, inputs: Vec<DynTensor>, weights: &Weights<'_>, _: Mode) -> Result<DynTensor> {
        let (affine, _) = self.affine(weights)?;
        Ok(only(inputs)?.map(&ByExample { epsilon: self.epsilon, affine }))
    }
}

struct ByExample {
    epsilon: f64,
    affine: Affine,
}

impl Unary for ByExample {
    fn apply<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let centered = x.clone() - x.mean_dim(D - 1);
        let variance = centered.clone().powi_scalar(2).mean_dim(D - 1);
        self.affine.of(centered / (variance + self.epsilon).sqrt())
    }
}
