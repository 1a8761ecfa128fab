//! The linear part: a weight for every number and for every id, and a bias.

use super::parts::ModelPlan;
use phalanx_base::{Code, Error, Result};
use phalanx_feature::{Combiner, FeatureColumn, Slot, Transform};
use phalanx_graph::{Add, Concat, Dense, NodeId, Repeat};
use phalanx_nn::model::Initializer;
use phalanx_optim::Optimizer;
use phalanx_ps::TableSpec;
use phalanx_ps::plan::RowInitializer;

/// TensorFlow's scope of the linear part.
const SCOPE: &str = "linear/linear_model";

/// Plans the linear part, and returns its logits. Its bias is the last variable that is planned.
pub(super) fn linear(
    columns: &[FeatureColumn],
    combiner: Combiner,
    units: usize,
    optimizer: Optimizer,
    plan: &mut ModelPlan,
) -> Result<NodeId> {
    let transform = Transform::linear_model_with(columns, combiner)?;
    let mut part = plan.part("linear", columns, transform.clone())?;
    let mut weights = Vec::new();
    for column in transform.columns() {
        let name = format!("{SCOPE}/{}/weights", column.scope);
        match &column.slot {
            Slot::Dense { width, .. } => {
                weights.push(plan.variable(name, vec![*width, units], Initializer::Zeros, optimizer)?);
            }
            Slot::Ids { index, buckets, combiner } => {
                let initializer = RowInitializer::constant(0.0);
                let table = plan.table(TableSpec { name, dim: units, initializer, optimizer }, *buckets, true)?;
                plan.look_up(&mut part, &column.name, (*index, table), (*combiner, None))?;
            }
            Slot::Table { .. } => {
                let what = format!("the linear part has an embedding, {:?}", column.name);
                return Err(Error::new(Code::BadSetting, what)
                    .because("a linear model has one weight per id")
                    .help("give it the categorical column itself; embeddings belong to the deep part"));
            }
        }
    }
    let bias = plan.variable(format!("{SCOPE}/bias_weights"), vec![units], Initializer::Zeros, optimizer)?;
    let mut terms = part.bags;
    if let Some(dense) = part.dense {
        let weights = if weights.len() == 1 { weights[0] } else { plan.graph.add(Concat { axis: 0 }, &weights)? };
        terms.push(plan.graph.add(Dense::default(), &[dense, weights])?);
    }
    plan.parts.push(part.columns);
    if terms.is_empty() {
        return plan.graph.add(Repeat, &[bias]);
    }
    terms.push(bias);
    plan.graph.add(Add, &terms)
}
