//! The linear part: a weight for every number and for every id, and a bias.

use super::lookup::Lookup;
use super::parts::{Builder, Columns};
use crate::variables::Variables;
use phalanx_base::Result;
use phalanx_feature::{Combiner, FeatureColumn, Slot, Transform};
use phalanx_nn::burn::tensor::{Tensor, TensorData};
use phalanx_nn::model::Initializer;
use phalanx_optim::Optimizer;
use phalanx_ps::plan::Initializer as RowInitializer;

/// Where TensorFlow puts the linear part.
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
        builder: &mut Builder,
    ) -> Result<Self> {
        let transform = Transform::linear_model_with(columns, combiner)?;
        let (mut dense, mut lookups) = (Vec::new(), Vec::new());
        for column in transform.columns() {
            let name = format!("{SCOPE}/{}/weights", column.scope);
            match &column.slot {
                Slot::Dense { width, .. } => {
                    dense.push(builder.variable(name, vec![*width, units], Initializer::Zeros, optimizer));
                }
                Slot::Ids { index, buckets, combiner } => {
                    let zeros = RowInitializer::constant(0.0);
                    let table = builder.table(name, units, *buckets, zeros, optimizer);
                    let (sparse, combiner) = (*index, *combiner);
                    let at = 0..units;
                    lookups.push(Lookup { sparse, table, combiner, max_norm: None, trainable: true, at });
                }
                // An embedding in a linear model is a small matrix of its own behind the table.
                Slot::Table { .. } => return Err(super::parts::embedding_in_linear(&column.name)),
            }
        }
        let bias = builder.variable(format!("{SCOPE}/bias_weights"), vec![units], Initializer::Zeros, optimizer);
        Ok(Self { columns: Columns::new(columns, transform, lookups), dense, bias, units })
    }

    /// The logits, given what the ids contribute.
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
