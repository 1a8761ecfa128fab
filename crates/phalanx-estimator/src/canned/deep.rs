//! The deep part: TensorFlow's input layer of dense columns and embeddings, hidden layers, logits.

use super::hidden::LayerSettings;
use super::parts::ModelPlan;
use phalanx_base::Result;
use phalanx_feature::FeatureColumn;
use phalanx_graph::NodeId;
use phalanx_optim::Optimizer;

/// TensorFlow's scope of the deep part's embeddings.
pub(super) const INPUT: &str = "dnn/input_from_feature_columns/input_layer";

/// Plans the deep part, and returns its logits.
pub(super) fn deep(
    columns: &[FeatureColumn],
    layers: &LayerSettings,
    units: usize,
    optimizer: Optimizer,
    plan: &mut ModelPlan,
) -> Result<NodeId> {
    layers.check()?;
    let part = plan.embeddings(columns, INPUT, None, optimizer)?;
    let input = plan.input_layer(&part)?;
    plan.parts.push(part.columns);
    plan.mlp(["dnn", "dnn/logits"], layers, input, units, optimizer)
}
