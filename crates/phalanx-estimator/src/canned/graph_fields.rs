//! The models in which embeddings meet, as graphs of TensorFlow's ops.

use super::deepfm::Machine;
use super::dlrm::Meeting;
use super::fields::{Fields, pairs};
use super::graph::{Tables, hidden, sums};
use super::parts::{Builder, Columns};
use phalanx_base::Result;
use phalanx_feature::{GraphInputs, Slot};
use phalanx_formats::saved_model::{GraphBuilder, Output};

/// The numbers of the columns, if there are any, and the embeddings side by side.
struct Met {
    dense: Option<Output<f32>>,
    embeddings: Output<f32>,
}

impl Met {
    fn new(graph: &mut GraphBuilder, inputs: &GraphInputs, fields: &Fields, kept: &Builder) -> Result<Self> {
        let Columns { transform, lookups, source } = &fields.columns;
        let mut tables = Tables::new(kept);
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

fn side_by_side(graph: &mut GraphBuilder, parts: &[Output<f32>]) -> Output<f32> {
    if parts.len() == 1 { parts[0] } else { graph.concat(parts, 1) }
}

/// `[rows, fields, dimension]`.
fn stacked(graph: &mut GraphBuilder, fields: &Fields, embeddings: Output<f32>) -> Output<f32> {
    graph.reshape(embeddings, &[-1, fields.count as i32, fields.dimension as i32])
}

pub(super) fn machine_logits(
    graph: &mut GraphBuilder,
    inputs: &GraphInputs,
    machine: &Machine,
    kept: &Builder,
) -> Result<Output<f32>> {
    let Met { dense, embeddings } = Met::new(graph, inputs, &machine.fields, kept)?;
    let fields = stacked(graph, &machine.fields, embeddings);
    let sum = graph.sum(fields, &[1], false);
    let whole = graph.square(sum);
    let squares = graph.square(fields);
    let own = graph.sum(squares, &[1], false);
    let twice = graph.sub(whole, own);
    let twice = graph.sum(twice, &[1], true);
    let half = graph.scalar(0.5_f32);
    let pairs = graph.mul(twice, half);
    let input = dense.map_or(embeddings, |dense| graph.concat(&[dense, embeddings], 1));
    let deep = hidden(graph, input, &machine.hidden, kept)?;
    let deep = sums(graph, deep, machine.logits, kept)?;
    Ok(graph.add(deep, pairs))
}

pub(super) fn meeting_logits(
    graph: &mut GraphBuilder,
    inputs: &GraphInputs,
    meeting: &Meeting,
    kept: &Builder,
) -> Result<Output<f32>> {
    let Met { dense, embeddings } = Met::new(graph, inputs, &meeting.fields, kept)?;
    let fields = stacked(graph, &meeting.fields, embeddings);
    let mut count = meeting.fields.count;
    let input = match (&meeting.bottom, dense) {
        (Some(bottom), Some(dense)) => {
            let own = hidden(graph, dense, bottom, kept)?;
            let first = graph.expand_dims(own, 1);
            let all = graph.concat(&[first, fields], 1);
            count += 1;
            let products = products(graph, all, count);
            graph.concat(&[own, products], 1)
        }
        _ => products(graph, fields, count),
    };
    let top = hidden(graph, input, &meeting.top, kept)?;
    sums(graph, top, meeting.logits, kept)
}

/// The product of each pair, each pair once.
fn products(graph: &mut GraphBuilder, fields: Output<f32>, count: usize) -> Output<f32> {
    let all = graph.batch_matmul(fields, fields, false, true);
    let all = graph.reshape(all, &[-1, (count * count) as i32]);
    let which: Vec<i32> = pairs(count).map(|(a, b)| (a * count + b) as i32).collect();
    let which = graph.constant(&[which.len()], &which);
    graph.gather_along(all, which, 1)
}
