//! Numbers brought to mean 0 and variance 1.

use crate::model::layer::{layer_basics, mismatch, only};
use crate::model::value::Unary;
use crate::model::{Identity, Initializer, Layer, Mode, Op, Plan, Value, WeightPlan, Weights};
use burn::tensor::Tensor;
use phalanx_base::Result;

macro_rules! scale_and_center {
    ($name:ident) => {
        impl $name {
            /// Sets what is added to the variance; 0.001 unless set.
            #[must_use]
            pub fn epsilon(mut self, epsilon: f64) -> Self {
                self.epsilon = epsilon;
                self
            }

            /// Whether `beta` is learnt and added; it is unless set.
            #[must_use]
            pub fn center(mut self, center: bool) -> Self {
                self.center = center;
                self
            }

            /// Whether `gamma` is learnt and multiplied with; it is unless set.
            #[must_use]
            pub fn scale(mut self, scale: bool) -> Self {
                self.scale = scale;
                self
            }

            fn learnt(&self, channels: usize) -> Vec<WeightPlan> {
                let gamma = WeightPlan::new("gamma", [channels], Initializer::Ones);
                let beta = WeightPlan::new("beta", [channels], Initializer::Zeros);
                self.scale.then_some(gamma).into_iter().chain(self.center.then_some(beta)).collect()
            }

            /// `gamma`, `beta`, and how many weights these are.
            fn affine(&self, weights: &Weights<'_>) -> Result<(Affine, usize)> {
                let gamma = if self.scale { Some(weights.vector(0)?) } else { None };
                let at = usize::from(self.scale);
                let beta = if self.center { Some(weights.vector(at)?) } else { None };
                Ok((Affine { gamma, beta }, at + usize::from(self.center)))
            }
        }
    };
}

/// What is learnt to undo the normalization.
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

/// Each channel (the last axis) over the batch and all places; when the model answers, by the moving averages.
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
    /// The layer with Keras' settings: momentum 0.99, epsilon 0.001.
    #[must_use]
    pub fn new() -> Self {
        Self { identity: Identity::default(), momentum: 0.99, epsilon: 1e-3, center: true, scale: true }
    }

    /// Sets how much of a moving average stays at each step; 0.99 unless set.
    #[must_use]
    pub fn momentum(mut self, momentum: f64) -> Self {
        self.momentum = momentum;
        self
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
        let mut weights = self.learnt(channels);
        weights.push(WeightPlan::moving("moving_mean", channels, Initializer::Zeros));
        weights.push(WeightPlan::moving("moving_variance", channels, Initializer::Ones));
        Ok(Plan { output: input.clone(), weights })
    }

    fn forward(&self, inputs: Vec<Value>, weights: &Weights<'_>, mode: Mode) -> Result<Value> {
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
        // TensorFlow's fused kernel, which Keras takes for images, moves by the variance of the population.
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

/// Each example's last axis by its own mean and variance.
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
    /// The layer with Keras' setting: epsilon 0.001.
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
        Ok(Plan { output: input.clone(), weights: self.learnt(features) })
    }

    fn forward(&self, inputs: Vec<Value>, weights: &Weights<'_>, _: Mode) -> Result<Value> {
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
