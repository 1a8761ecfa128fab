//! The deep part: TensorFlow's input layer of dense columns and embeddings, hidden layers, logits.

use super::hidden::{LayerSettings, Mlp};
use super::parts::{Columns, ModelPlan, plan_lookups};
use phalanx_base::Result;
use phalanx_feature::{FeatureColumn, Transform};
use phalanx_optim::Optimizer;

/// TensorFlow's scope of the deep part's embeddings.
pub(super) const INPUT: &str = "dnn/input_from_feature_columns/input_layer";

pub(crate) struct Deep {
    pub(crate) columns: Columns,
    pub(crate) mlp: Mlp,
}

impl Deep {
    pub(crate) fn plan(
        columns: &[FeatureColumn],
        layers: &LayerSettings,
        units: usize,
        optimizer: Optimizer,
        plan: &mut ModelPlan,
    ) -> Result<Self> {
        layers.check()?;
        let transform = Transform::dense_features(columns)?;
        let lookups = plan_lookups(&transform, INPUT, None, optimizer, plan, |_, at| at);
        let columns = Columns::new(columns, transform, lookups);
        let mlp = Mlp::plan(["dnn", "dnn/logits"], layers, [columns.transform.input_width(), units], optimizer, plan);
        Ok(Self { columns, mlp })
    }
}
