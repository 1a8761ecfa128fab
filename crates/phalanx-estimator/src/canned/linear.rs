//! The linear part: a weight for every number and for every id, and a bias.

use super::lookup::Lookup;
use super::parts::{Columns, ModelPlan};
use crate::variables::Variables;
use phalanx_base::{Code, Error, Result};
use phalanx_feature::{Combiner, FeatureColumn, Slot, Transform};
use phalanx_nn::burn::tensor::{Tensor, TensorData};
use phalanx_nn::model::Initializer;
use phalanx_optim::Optimizer;
use phalanx_ps::plan::RowInitializer;

/// TensorFlow's scope of the linear part.
const SCOPE: &str = "linear/linear_model";

pub(crate) struct Linear {
    pub(crate) columns: Columns,
    /// The weights of dense columns, in the order of their columns.
    pub(crate) dense: Vec<usize>,
    pub(crate) bias: usize,
    pub(crate) units: usize,
}

impl Linear {
    pub(crate) fn plan(
        columns: &[FeatureColumn],
        combiner: Combiner,
        units: usize,
        optimizer: Optimizer,
        plan: &mut ModelPlan,
    ) -> Result<Self> {
        let transform = Transform::linear_model_with(columns, combiner)?;
        let (mut dense, mut lookups) = (Vec::new(), Vec::new());
        for column in transform.columns() {
            let name = format!("{SCOPE}/{}/weights", column.scope);
            match &column.slot {
                Slot::Dense { width, .. } => {
                    dense.push(plan.variable(name, vec![*width, units], Initializer::Zeros, optimizer));
                }
                Slot::Ids { index, buckets, combiner } => {
                    let zeros = RowInitializer::constant(0.0);
                    let table = plan.table(name, units, *buckets, zeros, optimizer);
                    let (sparse, combiner, at) = (*index, *combiner, 0..units);
                    lookups.push(Lookup { sparse, table, combiner, max_norm: None, trainable: true, at });
                }
                Slot::Table { .. } => {
                    let what = format!("the linear part has an embedding, {:?}", column.name);
                    return Err(Error::new(Code::BadSetting, what)
                        .because("a linear model has one weight per id")
                        .help("give it the categorical column itself; embeddings belong to the deep part"));
                }
            }
        }
        let bias = plan.variable(format!("{SCOPE}/bias_weights"), vec![units], Initializer::Zeros, optimizer);
        Ok(Self { columns: Columns::new(columns, transform, lookups), dense, bias, units })
    }

    /// Returns the logits, given the contribution of the ids.
    pub(crate) fn logits(&self, variables: &Variables, dense: &[f32], by_ids: Option<Tensor<2>>) -> Result<Tensor<2>> {
        let mut logits = variables.row(self.bias)?;
        if let Some(by_ids) = by_ids {
            logits = by_ids + logits;
        }
        let width = self.columns.transform.dense_width();
        if let Some(rows) = dense.len().checked_div(width) {
            let numbers = TensorData::new(dense.to_vec(), [rows, width]);
            let weights: Vec<Tensor<2>> = self.dense.iter().map(|&at| variables.matrix(at)).collect::<Result<_>>()?;
            let weights = if weights.len() == 1 { weights.into_iter().next() } else { Some(Tensor::cat(weights, 0)) };
            if let Some(weights) = weights {
                logits = Tensor::from_data(numbers, &weights.device()).matmul(weights) + logits;
            }
        }
        Ok(logits)
    }
}
