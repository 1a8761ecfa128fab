//! Hidden layers with batch normalization and dropout, under TensorFlow's names.

use super::parts::ModelPlan;
use phalanx_base::{Code, Error, Result};
use phalanx_graph::{Activation, BatchNorm, Dense, Dropout, Function, NodeId, Precision};
use phalanx_nn::model::Initializer;
use phalanx_optim::{Optimizer, Sgd};

/// The momentum of moving averages: that of `tf.estimator`'s deep models, not Keras' default.
const MOMENTUM: f64 = 0.999;
/// The epsilon of batch normalization.
const EPSILON: f32 = 1e-3;

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

impl ModelPlan {
    /// Plans `SCOPE/kernel` and `SCOPE/bias`, and returns the layer's output.
    fn dense(&mut self, scope: &str, layer: Dense, x: NodeId, units: usize, optimizer: Optimizer) -> Result<NodeId> {
        let from = self.graph.shape(x).width();
        let glorot = Initializer::glorot_uniform();
        let kernel = self.variable(format!("{scope}/kernel"), vec![from, units], glorot, optimizer)?;
        let bias = self.variable(format!("{scope}/bias"), vec![units], Initializer::Zeros, optimizer)?;
        self.graph.add(layer, &[x, kernel, bias])
    }

    /// Plans a batch normalization under its scope.
    fn batch_norm(&mut self, scope: &str, x: NodeId, optimizer: Optimizer) -> Result<NodeId> {
        // Moving a value by (1 - momentum) of a distance is gradient descent at that rate. So the moving values are
        // ordinary variables, which any number of trainers can update on the servers.
        let moving = Optimizer::from(Sgd::new((1.0 - MOMENTUM) as f32));
        let units = self.graph.shape(x).width();
        let mut variable = |name: &str, start: Initializer, optimizer: Optimizer| {
            self.variable(format!("{scope}/{name}"), vec![units], start, optimizer)
        };
        let inputs = [
            x,
            variable("gamma", Initializer::Ones, optimizer)?,
            variable("beta", Initializer::Zeros, optimizer)?,
            variable("moving_mean", Initializer::Zeros, moving)?,
            variable("moving_variance", Initializer::Ones, moving)?,
        ];
        self.graph.add(BatchNorm { epsilon: EPSILON, gamma: true, beta: true }, &inputs)
    }

    /// Plans `SCOPE/hiddenlayer_0` and so on, and returns the output of the last one.
    pub(super) fn hidden_layers(
        &mut self,
        scope: &str,
        layers: &LayerSettings,
        mut x: NodeId,
        optimizer: Optimizer,
    ) -> Result<NodeId> {
        let LayerSettings { activation, precision, .. } = *layers;
        for (at, &units) in layers.hidden_units.iter().enumerate() {
            let scope = format!("{scope}/hiddenlayer_{at}");
            let layer = Dense { relu: activation == Function::Relu, precision };
            x = self.dense(&scope, layer, x, units, optimizer)?;
            if !matches!(activation, Function::Linear | Function::Relu) {
                x = self.graph.add(Activation { function: activation }, &[x])?;
            }
            if let Some(rate) = layers.dropout {
                x = self.graph.add(Dropout { rate }, &[x])?;
            }
            if layers.batch_norm {
                x = self.batch_norm(&format!("{scope}/batchnorm_{at}"), x, optimizer)?;
            }
        }
        Ok(x)
    }

    /// Plans hidden layers and the layer of logits above them, under their scopes.
    pub(super) fn mlp(
        &mut self,
        [hidden, logits]: [&str; 2],
        layers: &LayerSettings,
        x: NodeId,
        units: usize,
        optimizer: Optimizer,
    ) -> Result<NodeId> {
        let x = self.hidden_layers(hidden, layers, x, optimizer)?;
        self.dense(logits, Dense::default(), x, units, optimizer)
    }
}
