//! The deep part: TensorFlow's input layer of dense columns and embeddings, hidden layers, logits.

use super::hidden::{Drift, Hidden, Layers, Sums};
use super::lookup::Lookup;
use super::parts::{Builder, Columns, plan_tables};
use crate::variables::Variables;
use phalanx_base::Result;
use phalanx_feature::{FeatureColumn, Slot, Transform};
use phalanx_nn::Precision;
use phalanx_nn::burn::tensor::Tensor;
use phalanx_nn::model::{Function, Mode};
use phalanx_optim::Optimizer;

/// Where TensorFlow puts the embeddings of the deep part.
pub(super) const INPUT: &str = "dnn/input_from_feature_columns/input_layer";

pub(crate) struct Deep {
    pub(crate) columns: Columns,
    pub(crate) hidden: Hidden,
    pub(crate) logits: Sums,
}

impl Deep {
    pub(crate) fn plan(
        columns: &[FeatureColumn],
        layers: &Layers,
        units: usize,
        optimizer: Optimizer,
        builder: &mut Builder,
    ) -> Result<Self> {
        layers.check()?;
        let columns = input_layer(columns, optimizer, builder)?;
        let (hidden, width) = Hidden::plan("dnn", layers, columns.transform.input_width(), optimizer, builder);
        let logits = Sums::plan("dnn/logits", [width, units], optimizer, builder);
        Ok(Self { columns, hidden, logits })
    }

    pub(crate) fn logits(
        &self,
        variables: &Variables,
        input: Tensor<2>,
        mode: Mode,
        drift: &mut Drift,
    ) -> Result<Tensor<2>> {
        self.logits.of(variables, self.hidden.of(variables, input, mode, drift)?, Function::Linear, Precision::F32)
    }
}

/// The input layer of a deep model, its tables planned.
fn input_layer(columns: &[FeatureColumn], optimizer: Optimizer, builder: &mut Builder) -> Result<Columns> {
    let transform = Transform::dense_features(columns)?;
    let tables = plan_tables(&transform, INPUT, None, optimizer, builder);
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
