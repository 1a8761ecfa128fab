//! Hidden layers: sums, what is made of them, and batch normalization, with TensorFlow's names.

use super::parts::Builder;
use crate::variables::Variables;
use phalanx_base::{Code, Error, Result};
use phalanx_nn::Precision;
use phalanx_nn::burn::tensor::{Tensor, TensorData};
use phalanx_nn::model::{Function, Initializer, Mode};
use phalanx_optim::{Optimizer, Sgd};

/// How much of its moving values a normalization keeps at each step, and what is added to variances: those of
/// `tf.estimator`'s deep models, which are not Keras' defaults.
const MOMENTUM: f64 = 0.999;
/// What is added to a variance before its root is taken.
pub(crate) const EPSILON: f32 = 1e-3;

/// What the hidden layers are.
#[derive(Clone, Debug)]
pub(crate) struct Layers {
    pub(crate) hidden_units: Vec<usize>,
    pub(crate) activation: Function,
    pub(crate) dropout: Option<f64>,
    pub(crate) batch_norm: bool,
    pub(crate) precision: Precision,
}

impl Default for Layers {
    fn default() -> Self {
        let (hidden_units, activation, precision) = (Vec::new(), Function::Relu, Precision::F32);
        Self { hidden_units, activation, dropout: None, batch_norm: false, precision }
    }
}

impl Layers {
    pub(crate) fn check(&self) -> Result<()> {
        let wrong = |what: String, why: &str| Err(Error::new(Code::BadSetting, what).at("hidden layers").because(why));
        if self.hidden_units.is_empty() {
            return Err(Error::new(Code::BadSetting, "a deep model has no hidden units")
                .help("say how wide its layers are, such as .hidden_units([100, 50])"));
        }
        if self.hidden_units.contains(&0) {
            return wrong("a hidden layer has 0 units".to_owned(), "it would pass nothing on");
        }
        match self.dropout {
            Some(rate) if !(0.0..1.0).contains(&rate) => wrong(format!("a dropout of {rate}"), "it is from 0 to 1"),
            _ => Ok(()),
        }
    }
}

/// A kernel and a bias.
#[derive(Clone, Copy)]
pub(crate) struct Sums {
    pub(crate) kernel: usize,
    pub(crate) bias: usize,
}

impl Sums {
    pub(crate) fn plan(scope: &str, [from, to]: [usize; 2], optimizer: Optimizer, builder: &mut Builder) -> Self {
        let glorot = Initializer::glorot_uniform();
        let kernel = builder.variable(format!("{scope}/kernel"), vec![from, to], glorot, optimizer);
        let bias = builder.variable(format!("{scope}/bias"), vec![to], Initializer::Zeros, optimizer);
        Self { kernel, bias }
    }

    pub(crate) fn of(
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
pub(crate) struct Norm {
    pub(crate) gamma: usize,
    pub(crate) beta: usize,
    pub(crate) mean: usize,
    pub(crate) variance: usize,
}

impl Norm {
    fn plan(scope: &str, units: usize, optimizer: Optimizer, builder: &mut Builder) -> Self {
        // To move a value by (1 - momentum) of its distance is to descend at that rate along the distance: so the
        // moving values are variables like others, and any number of trainers moves them on the servers.
        let moving = Optimizer::from(Sgd::new((1.0 - MOMENTUM) as f32));
        let mut variable = |name: &str, start: Initializer, optimizer: Optimizer| {
            builder.variable(format!("{scope}/{name}"), vec![units], start, optimizer)
        };
        Self {
            gamma: variable("gamma", Initializer::Ones, optimizer),
            beta: variable("beta", Initializer::Zeros, optimizer),
            mean: variable("moving_mean", Initializer::Zeros, moving),
            variance: variable("moving_variance", Initializer::Ones, moving),
        }
    }

    fn of(&self, variables: &Variables, x: Tensor<2>, mode: Mode, drift: &mut Drift) -> Result<Tensor<2>> {
        let (gamma, beta) = (variables.row(self.gamma)?, variables.row(self.beta)?);
        let (moving_mean, moving_variance) = (variables.row(self.mean)?, variables.row(self.variance)?);
        let (mean, variance) = match mode {
            Mode::Training { .. } => {
                let mean = x.clone().mean_dim(0);
                let variance = squared(x.clone() - mean.clone()).mean_dim(0);
                drift.towards(moving_mean, mean.clone());
                drift.towards(moving_variance, variance.clone());
                (mean, variance)
            }
            Mode::Inference => (moving_mean, moving_variance),
        };
        let scale = gamma / (variance + EPSILON).sqrt();
        Ok((x - mean) * scale + beta)
    }
}

/// What variables move by beside the loss.
#[derive(Default)]
pub(crate) struct Drift(Option<Tensor<1>>);

impl Drift {
    /// The slope of this term at `moving` is its distance to `now`, and to nothing else has it one.
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

/// Layers one behind the other.
pub(crate) struct Hidden {
    pub(crate) layers: Vec<(Sums, Option<Norm>)>,
    pub(crate) activation: Function,
    dropout: Option<f64>,
    precision: Precision,
}

impl Hidden {
    /// Plans `SCOPE/hiddenlayer_0` and so on over an input of a width; answers the width of what comes out too.
    pub(crate) fn plan(
        scope: &str,
        layers: &Layers,
        mut width: usize,
        optimizer: Optimizer,
        builder: &mut Builder,
    ) -> (Self, usize) {
        let mut planned = Vec::with_capacity(layers.hidden_units.len());
        for (at, &next) in layers.hidden_units.iter().enumerate() {
            let scope = format!("{scope}/hiddenlayer_{at}");
            let sums = Sums::plan(&scope, [width, next], optimizer, builder);
            let norm =
                layers.batch_norm.then(|| Norm::plan(&format!("{scope}/batchnorm_{at}"), next, optimizer, builder));
            planned.push((sums, norm));
            width = next;
        }
        let Layers { activation, dropout, precision, .. } = *layers;
        (Self { layers: planned, activation, dropout, precision }, width)
    }

    pub(crate) fn of(
        &self,
        variables: &Variables,
        mut x: Tensor<2>,
        mode: Mode,
        drift: &mut Drift,
    ) -> Result<Tensor<2>> {
        for (layer, (sums, norm)) in self.layers.iter().enumerate() {
            x = sums.of(variables, x, self.activation, self.precision)?;
            if let (Some(rate), Mode::Training { seed }) = (self.dropout, mode) {
                x = dropout(x, rate, seed.wrapping_add(layer as u64));
            }
            if let Some(norm) = norm {
                x = norm.of(variables, x, mode, drift)?;
            }
        }
        Ok(x)
    }
}

pub(super) fn squared<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    x.clone() * x
}

/// Sets a share of the numbers to 0 and lets the others grow; the same seed drops the same.
fn dropout(x: Tensor<2>, rate: f64, seed: u64) -> Tensor<2> {
    let [rows, width] = x.dims();
    let kept = (1.0 / (1.0 - rate)) as f32;
    let drawn = Initializer::RandomUniform { low: 0.0, high: 1.0 }.values(&[rows * width], seed);
    let mask: Vec<f32> = drawn.iter().map(|&u| if f64::from(u) < rate { 0.0 } else { kept }).collect();
    let mask = Tensor::from_data(TensorData::new(mask, [rows, width]), &x.device());
    x * mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropout_drops_a_share_and_keeps_the_sum() {
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
