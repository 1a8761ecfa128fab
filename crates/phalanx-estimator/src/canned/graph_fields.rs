//! DeepFM and DLRM as graphs of TensorFlow ops.

use super::deepfm::FactorizationMachine;
use super::dlrm::DotInteraction;
use super::fields::{Fields, pairs};
use super::graph::{Tables, hidden, mlp_logits, side_by_side};
use super::parts::{Columns, ModelPlan};
use phalanx_base::Result;
use phalanx_feature::{GraphInputs, Slot};
use phalanx_formats::saved_model::{GraphBuilder, Output};

/// The dense columns, if there are any, and the concatenated embeddings.
struct FieldTensors {
    dense: Option<Output<f32>>,
    embeddings: Output<f32>,
}

impl FieldTensors {
    fn new(graph: &mut GraphBuilder, inputs: &GraphInputs, fields: &Fields, plan: &ModelPlan) -> Result<Self> {
        let Columns { transform, lookups, source } = &fields.columns;
        let mut tables = Tables::new(plan);
        let (mut dense, mut embeddings, mut sparse) = (Vec::new(), Vec::new(), lookups.iter());
        for (planned, column) in transform.columns().iter().zip(source) {
            if let Slot::Dense { .. } = planned.slot {
                dense.push(inputs.dense(graph, column)?);
            } else if let Some(lookup) = sparse.next() {
                let ids = inputs.ids(graph, column)?;
                embeddings.push(tables.bag(graph, &ids, lookup)?);
            }
        }
        let dense = (!dense.is_empty()).then(|| side_by_side(graph, &dense));
        Ok(Self { dense, embeddings: side_by_side(graph, &embeddings) })
    }
}

/// Reshapes embeddings to `[rows, fields, dimension]`.
fn stacked(graph: &mut GraphBuilder, fields: &Fields, embeddings: Output<f32>) -> Output<f32> {
    graph.reshape(embeddings, &[-1, fields.count as i32, fields.dimension as i32])
}

pub(super) fn machine_logits(
    graph: &mut GraphBuilder,
    inputs: &GraphInputs,
    machine: &FactorizationMachine,
    plan: &ModelPlan,
) -> Result<Output<f32>> {
    let FieldTensors { dense, embeddings } = FieldTensors::new(graph, inputs, &machine.fields, plan)?;
    let fields = stacked(graph, &machine.fields, embeddings);
    let sum = graph.sum(fields, &[1], false);
    let whole = graph.square(sum);
    let squares = graph.square(fields);
    let own = graph.sum(squares, &[1], false);
    let twice = graph.sub(whole, own);
    let twice = graph.sum(twice, &[1], true);
    let half = graph.scalar(0.5_f32);
    let pairs = graph.mul(twice, half);
    let Some(mlp) = &machine.mlp else { return Ok(pairs) };
    let input = dense.map_or(embeddings, |dense| graph.concat(&[dense, embeddings], 1));
    let deep = mlp_logits(graph, input, mlp, plan)?;
    Ok(graph.add(deep, pairs))
}

pub(super) fn dot_logits(
    graph: &mut GraphBuilder,
    inputs: &GraphInputs,
    dot: &DotInteraction,
    plan: &ModelPlan,
) -> Result<Output<f32>> {
    let FieldTensors { dense, embeddings } = FieldTensors::new(graph, inputs, &dot.fields, plan)?;
    let fields = stacked(graph, &dot.fields, embeddings);
    let mut count = dot.fields.count;
    let input = match (&dot.bottom, dense) {
        (Some(bottom), Some(dense)) => {
            let own = hidden(graph, dense, bottom, plan)?;
            let first = graph.expand_dims(own, 1);
            let all = graph.concat(&[first, fields], 1);
            count += 1;
            let products = products(graph, all, count);
            graph.concat(&[own, products], 1)
        }
        _ => products(graph, fields, count),
    };
    mlp_logits(graph, input, &dot.top, plan)
}

/// Returns the dot product of each pair of fields.
fn products(graph: &mut GraphBuilder, fields: Output<f32>, count: usize) -> Output<f32> {
    let all = graph.batch_matmul(fields, fields, false, true);
    let all = graph.reshape(all, &[-1, (count * count) as i32]);
    let which: Vec<i32> = pairs(count).map(|(a, b)| (a * count + b) as i32).collect();
    let which = graph.constant(&[which.len()], &which);
    graph.gather_along(all, which, 1)
}
