//! The deep part: TensorFlow's input layer of dense columns and embeddings, hidden layers, logits.

use super::lookup::Lookup;
use super::parts::{Builder, Columns, row_initializer};
use crate::variables::Variables;
use phalanx_base::{Code, Error, Result};
use phalanx_feature::{FeatureColumn, Slot, Transform};
use phalanx_nn::burn::tensor::{Tensor, TensorData};
use phalanx_nn::model::{Function, Initializer, Mode, Value};
use phalanx_optim::Optimizer;

/// Where TensorFlow puts the embeddings of the deep part.
const INPUT: &str = "dnn/input_from_feature_columns/input_layer";

/// What the hidden layers are.
#[derive(Clone, Debug)]
pub(crate) struct Layers {
    pub(crate) hidden_units: Vec<usize>,
    pub(crate) activation: Function,
    pub(crate) dropout: Option<f64>,
}

impl Default for Layers {
    fn default() -> Self {
        Self { hidden_units: Vec::new(), activation: Function::Relu, dropout: None }
    }
}

pub(crate) struct Deep {
    pub(crate) columns: Columns,
    pub(crate) layers: Layers,
    /// Kernel and bias of every layer, that of the logits last.
    pub(crate) weights: Vec<(usize, usize)>,
}

impl Deep {
    pub(crate) fn plan(
        columns: &[FeatureColumn],
        layers: Layers,
        units: usize,
        optimizer: Optimizer,
        builder: &mut Builder,
    ) -> Result<Self> {
        check(&layers)?;
        let columns = input_layer(columns, optimizer, builder)?;
        let mut width = columns.transform.input_width();
        let mut weights = Vec::with_capacity(layers.hidden_units.len() + 1);
        for (layer, &next) in layers.hidden_units.iter().chain([&units]).enumerate() {
            let logits = layer == layers.hidden_units.len();
            let scope = if logits { "dnn/logits".to_owned() } else { format!("dnn/hiddenlayer_{layer}") };
            let glorot = Initializer::glorot_uniform();
            let kernel = builder.variable(format!("{scope}/kernel"), vec![width, next], glorot, optimizer);
            let bias = builder.variable(format!("{scope}/bias"), vec![next], Initializer::Zeros, optimizer);
            weights.push((kernel, bias));
            width = next;
        }
        Ok(Self { columns, layers, weights })
    }

    pub(crate) fn logits(&self, variables: &Variables, input: Tensor<2>, mode: Mode) -> Result<Tensor<2>> {
        let mut x = input;
        for (layer, &(kernel, bias)) in self.weights.iter().enumerate() {
            x = x.matmul(variables.matrix(kernel)?) + variables.row(bias)?;
            if layer + 1 == self.weights.len() {
                break;
            }
            x = self.layers.activation.of(Value::from(x)).tensor()?;
            if let (Some(rate), Mode::Training { seed }) = (self.layers.dropout, mode) {
                x = dropout(x, rate, seed.wrapping_add(layer as u64));
            }
        }
        Ok(x)
    }
}

/// The input layer of a deep model, its tables planned.
pub(crate) fn input_layer(columns: &[FeatureColumn], optimizer: Optimizer, builder: &mut Builder) -> Result<Columns> {
    let transform = Transform::dense_features(columns)?;
    let mut tables = Vec::with_capacity(transform.tables().len());
    for table in transform.tables() {
        let name = format!("{INPUT}/{}/embedding_weights", table.name);
        let rows = row_initializer(table, builder.seed_of(&name));
        tables.push(builder.table(name, table.dimension, table.rows, rows, optimizer));
    }
    let mut lookups = Vec::new();
    for column in transform.columns() {
        if let Slot::Table { index, table, combiner, max_norm } = column.slot {
            let trainable = transform.tables()[table].trainable;
            let (table, at) = (tables[table], column.input.clone());
            lookups.push(Lookup { sparse: index, table, combiner, max_norm, trainable, at });
        }
    }
    Ok(Columns::new(columns, transform, lookups))
}

fn check(layers: &Layers) -> Result<()> {
    let wrong = |what: String, why: &str| Err(Error::new(Code::BadSetting, what).at("hidden layers").because(why));
    if layers.hidden_units.is_empty() {
        return Err(Error::new(Code::BadSetting, "a deep model has no hidden units")
            .help("say how wide its layers are, such as .hidden_units([100, 50])"));
    }
    if layers.hidden_units.contains(&0) {
        return wrong("a hidden layer has 0 units".to_owned(), "it would pass nothing on");
    }
    match layers.dropout {
        Some(rate) if !(0.0..1.0).contains(&rate) => wrong(format!("a dropout of {rate}"), "it is from 0 to 1"),
        _ => Ok(()),
    }
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
