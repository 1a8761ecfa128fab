//! Hidden layers with batch normalization and dropout, under TensorFlow's names.

use super::parts::ModelPlan;
use crate::variables::Variables;
use phalanx_base::{Code, Error, Result};
use phalanx_nn::Precision;
use phalanx_nn::burn::tensor::{Tensor, TensorData};
use phalanx_nn::model::{Function, Initializer, Mode};
use phalanx_optim::{Optimizer, Sgd};

/// The momentum of moving averages: that of `tf.estimator`'s deep models, not Keras' default.
const MOMENTUM: f64 = 0.999;
/// The epsilon of batch normalization.
pub(crate) const EPSILON: f32 = 1e-3;

/// The settings of hidden layers.
#[derive(Clone, Debug)]
pub(crate) struct LayerSettings {
    pub(crate) hidden_units: Vec<usize>,
    pub(crate) activation: Function,
    pub(crate) dropout: Option<f64>,
    pub(crate) batch_norm: bool,
    pub(crate) precision: Precision,
}

impl Default for LayerSettings {
    fn default() -> Self {
        let (hidden_units, activation, precision) = (Vec::new(), Function::Relu, Precision::F32);
        Self { hidden_units, activation, dropout: None, batch_norm: false, precision }
    }
}

impl LayerSettings {
    pub(crate) fn check(&self) -> Result<()> {
        let wrong = |what: String, why: &str| Err(Error::new(Code::BadSetting, what).at("hidden layers").because(why));
        if self.hidden_units.is_empty() {
            return Err(Error::new(Code::BadSetting, "a deep model has no hidden units")
                .help("set the widths of its layers, such as .hidden_units([100, 50])"));
        }
        if self.hidden_units.contains(&0) {
            return wrong("a hidden layer has 0 units".to_owned(), "it would have no output");
        }
        match self.dropout {
            Some(rate) if !(0.0..1.0).contains(&rate) => wrong(format!("a dropout of {rate}"), "it must be in [0, 1)"),
            _ => Ok(()),
        }
    }
}

/// The kernel and bias of a dense layer.
#[derive(Clone, Copy)]
pub(crate) struct DenseLayer {
    pub(crate) kernel: usize,
    pub(crate) bias: usize,
}

impl DenseLayer {
    pub(crate) fn plan(scope: &str, [from, to]: [usize; 2], optimizer: Optimizer, plan: &mut ModelPlan) -> Self {
        let glorot = Initializer::glorot_uniform();
        let kernel = plan.variable(format!("{scope}/kernel"), vec![from, to], glorot, optimizer);
        let bias = plan.variable(format!("{scope}/bias"), vec![to], Initializer::Zeros, optimizer);
        Self { kernel, bias }
    }

    fn apply(
        &self,
        variables: &Variables,
        x: Tensor<2>,
        activation: Function,
        precision: Precision,
    ) -> Result<Tensor<2>> {
        Ok(activation.of_layer(x, variables.matrix(self.kernel)?, variables.vector(self.bias)?, precision))
    }
}

/// The variables of a batch normalization.
#[derive(Clone, Copy)]
pub(crate) struct BatchNorm {
    pub(crate) gamma: usize,
    pub(crate) beta: usize,
    pub(crate) mean: usize,
    pub(crate) variance: usize,
}

impl BatchNorm {
    fn plan(scope: &str, units: usize, optimizer: Optimizer, plan: &mut ModelPlan) -> Self {
        // Moving a value by (1 - momentum) of a distance is gradient descent at that rate. So the moving values are
        // ordinary variables, which any number of trainers can update on the servers.
        let moving = Optimizer::from(Sgd::new((1.0 - MOMENTUM) as f32));
        let mut variable = |name: &str, start: Initializer, optimizer: Optimizer| {
            plan.variable(format!("{scope}/{name}"), vec![units], start, optimizer)
        };
        Self {
            gamma: variable("gamma", Initializer::Ones, optimizer),
            beta: variable("beta", Initializer::Zeros, optimizer),
            mean: variable("moving_mean", Initializer::Zeros, moving),
            variance: variable("moving_variance", Initializer::Ones, moving),
        }
    }

    fn apply(&self, pass: &mut ForwardPass<'_>, x: Tensor<2>) -> Result<Tensor<2>> {
        let variables = pass.variables;
        let (gamma, beta) = (variables.row(self.gamma)?, variables.row(self.beta)?);
        let (moving_mean, moving_variance) = (variables.row(self.mean)?, variables.row(self.variance)?);
        let (mean, variance) = match pass.mode {
            Mode::Training { .. } => {
                let mean = x.clone().mean_dim(0);
                let variance = squared(x.clone() - mean.clone()).mean_dim(0);
                pass.averages.towards(moving_mean, mean.clone());
                pass.averages.towards(moving_variance, variance.clone());
                (mean, variance)
            }
            Mode::Inference => (moving_mean, moving_variance),
        };
        let scale = gamma / (variance + EPSILON).sqrt();
        Ok((x - mean) * scale + beta)
    }
}

/// The updates of moving averages, as a loss term: its gradient moves every moving value towards that of the batch.
#[derive(Default)]
pub(crate) struct MovingAverageUpdate(Option<Tensor<1>>);

impl MovingAverageUpdate {
    /// Adds a term whose gradient with respect to `moving` is its distance to `now`, and zero for everything else.
    fn towards(&mut self, moving: Tensor<2>, now: Tensor<2>) {
        let own = squared(moving - now.detach()).sum() * 0.5;
        self.0 = Some(match self.0.take() {
            Some(others) => others + own,
            None => own,
        });
    }

    pub(crate) fn term(self) -> Option<Tensor<1>> {
        self.0
    }
}

/// One forward pass, and the moving-average updates that it collects.
pub(crate) struct ForwardPass<'a> {
    pub(crate) variables: &'a Variables,
    pub(crate) mode: Mode,
    pub(crate) averages: MovingAverageUpdate,
}

/// A stack of hidden layers.
pub(crate) struct HiddenLayers {
    pub(crate) layers: Vec<(DenseLayer, Option<BatchNorm>)>,
    pub(crate) activation: Function,
    dropout: Option<f64>,
    precision: Precision,
}

impl HiddenLayers {
    /// Plans `SCOPE/hiddenlayer_0` and so on over an input of a width. Returns the layers and the width of their output.
    pub(crate) fn plan(
        scope: &str,
        layers: &LayerSettings,
        mut width: usize,
        optimizer: Optimizer,
        plan: &mut ModelPlan,
    ) -> (Self, usize) {
        let mut planned = Vec::with_capacity(layers.hidden_units.len());
        for (at, &next) in layers.hidden_units.iter().enumerate() {
            let scope = format!("{scope}/hiddenlayer_{at}");
            let dense = DenseLayer::plan(&scope, [width, next], optimizer, plan);
            let norm =
                layers.batch_norm.then(|| BatchNorm::plan(&format!("{scope}/batchnorm_{at}"), next, optimizer, plan));
            planned.push((dense, norm));
            width = next;
        }
        let LayerSettings { activation, dropout, precision, .. } = *layers;
        (Self { layers: planned, activation, dropout, precision }, width)
    }

    pub(crate) fn apply(&self, pass: &mut ForwardPass<'_>, mut x: Tensor<2>) -> Result<Tensor<2>> {
        for (layer, (dense, norm)) in self.layers.iter().enumerate() {
            x = dense.apply(pass.variables, x, self.activation, self.precision)?;
            if let (Some(rate), Mode::Training { seed }) = (self.dropout, pass.mode) {
                x = dropout(x, rate, seed.wrapping_add(layer as u64));
            }
            if let Some(norm) = norm {
                x = norm.apply(pass, x)?;
            }
        }
        Ok(x)
    }
}

/// Hidden layers and the layer of logits above them.
pub(crate) struct Mlp {
    pub(crate) hidden: HiddenLayers,
    pub(crate) logits: DenseLayer,
}

impl Mlp {
    /// Plans both under their scopes, for an input of `from` columns and `to` logits.
    pub(crate) fn plan(
        [hidden, logits]: [&str; 2],
        layers: &LayerSettings,
        [from, to]: [usize; 2],
        optimizer: Optimizer,
        plan: &mut ModelPlan,
    ) -> Self {
        let (hidden, width) = HiddenLayers::plan(hidden, layers, from, optimizer, plan);
        Self { hidden, logits: DenseLayer::plan(logits, [width, to], optimizer, plan) }
    }

    pub(crate) fn logits(&self, pass: &mut ForwardPass<'_>, x: Tensor<2>) -> Result<Tensor<2>> {
        let x = self.hidden.apply(pass, x)?;
        self.logits.apply(pass.variables, x, Function::Linear, Precision::F32)
    }
}

pub(super) fn squared<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    x.clone() * x
}

/// Sets a fraction of the values to 0 and scales the others; the same seed drops the same values.
fn dropout(x: Tensor<2>, rate: f64, seed: u64) -> Tensor<2> {
    let [rows, width] = x.dims();
    let scale = (1.0 / (1.0 - rate)) as f32;
    let drawn = Initializer::RandomUniform { low: 0.0, high: 1.0 }.values(&[rows * width], seed);
    let mask: Vec<f32> = drawn.iter().map(|&u| if f64::from(u) < rate { 0.0 } else { scale }).collect();
    let mask = Tensor::from_data(TensorData::new(mask, [rows, width]), &x.device());
    x * mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropout_drops_a_fraction_and_keeps_the_sum() {
        let device = phalanx_nn::default_device();
        let ones = Tensor::<2>::ones([100, 100], &device);
        let dropped = |seed| dropout(ones.clone(), 0.3, seed).into_data().try_into_vec::<f32>().unwrap();
        let (once, again, other) = (dropped(5), dropped(5), dropped(6));
        assert_eq!(once, again);
        assert_ne!(once, other);
        let zeros = once.iter().filter(|&&x| x == 0.0).count();
        assert!((2_700..3_300).contains(&zeros), "{zeros}");
        assert!(once.iter().all(|&x| x == 0.0 || (x - 1.0 / 0.7).abs() < 1e-6));
    }
}
