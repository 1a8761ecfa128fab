//! Canned models as graphs of TensorFlow ops.

use super::deep::Deep;
use super::graph_fields::{dot_logits, machine_logits};
use super::hidden::{BatchNorm, DenseLayer, EPSILON, HiddenLayers, Mlp};
use super::linear::Linear;
use super::lookup::Lookup;
use super::parts::{Columns, ModelPlan};
use super::{Canned, Network};
use crate::Table;
use crate::export::{Served, ServingInput};
use phalanx_base::{Code, Error, Result, Shape};
use phalanx_feature::{FeatureColumn, GraphIds, GraphInputs, Slot};
use phalanx_formats::saved_model::{GraphBuilder, Normalization, Output, Text};
use phalanx_ps::checkpoint::{table_keys, table_values};
use phalanx_train::saved_model::activated;

impl Canned {
    pub(super) fn graph(&self, input: ServingInput, plan: &ModelPlan) -> Result<Served> {
        let mut graph = GraphBuilder::new();
        if let Some(Network::Bias(bias)) = self.network {
            // It needs only the number of rows.
            let serialized = graph.placeholder::<Text>("input_example_tensor", &[None]);
            let bias = variable(&mut graph, plan, bias)?;
            let logits = graph.repeat_rows(bias, serialized);
            let placeholders = vec![("examples".to_owned(), serialized.into())];
            return Ok(Served { graph, logits, placeholders, outputs: Vec::new() });
        }
        let columns = self.columns().into_iter().flatten().flat_map(|part| part.source.clone());
        let columns: Vec<FeatureColumn> = columns.collect();
        let inputs = match input {
            ServingInput::Examples => GraphInputs::examples(&mut graph, &columns)?,
            ServingInput::Raw => GraphInputs::raw(&mut graph, &columns)?,
        };
        let linear = self.linear.as_ref().map(|linear| linear_logits(&mut graph, &inputs, linear, plan));
        let network = match &self.network {
            Some(Network::Deep(deep)) => Some(deep_logits(&mut graph, &inputs, deep, plan)?),
            Some(Network::FactorizationMachine(machine)) => Some(machine_logits(&mut graph, &inputs, machine, plan)?),
            Some(Network::DotInteraction(dot)) => Some(dot_logits(&mut graph, &inputs, dot, plan)?),
            Some(Network::Bias(_)) | None => None,
        };
        let logits = match (linear.transpose()?, network) {
            (Some(linear), Some(network)) => graph.add(network, linear),
            (Some(logits), None) | (None, Some(logits)) => logits,
            (None, None) => return Err(Error::new(Code::Internal, "the model has no part")),
        };
        Ok(Served { graph, logits, placeholders: inputs.placeholders().to_vec(), outputs: Vec::new() })
    }
}

fn variable(graph: &mut GraphBuilder, plan: &ModelPlan, at: usize) -> Result<Output<f32>> {
    let variable = &plan.variables[at];
    Ok(graph.variable(&variable.name, &Shape::new(variable.dims.clone())?))
}

/// A table in a graph: a row for each id, or, where it grows, for each id that was seen.
#[derive(Clone, Copy)]
struct GraphTable {
    rows: Output<f32>,
    /// The sorted ids, and their number. The last one stands for all others.
    keys: Option<(Output<i64>, usize)>,
}

impl GraphTable {
    fn new(graph: &mut GraphBuilder, plan: &ModelPlan, at: usize) -> Result<Self> {
        let Table { spec, rows } = &plan.tables[at];
        if !plan.tables[at].is_growing() {
            let rows = graph.variable(&spec.name, &Shape::new([*rows, spec.dim])?);
            return Ok(Self { rows, keys: None });
        }
        let count = plan.stored_rows.get(at).ok_or_else(|| {
            Error::new(Code::Internal, format!("the rows of table {:?} were not counted for the graph", spec.name))
        })?;
        let count = count + 1;
        let keys = graph.untrained_variable(&table_keys(&spec.name), &Shape::new([count])?);
        let rows = graph.variable(&table_values(&spec.name), &Shape::new([count, spec.dim])?);
        Ok(Self { rows, keys: Some((keys, count)) })
    }

    /// Returns the combined rows of a column.
    fn bag(self, graph: &mut GraphBuilder, ids: &GraphIds, lookup: &Lookup) -> Output<f32> {
        let ids = self.keys.map_or(*ids, |(keys, count)| ids.places(graph, keys, count));
        let rows = lookup.max_norm.map_or(self.rows, |longest| clipped(graph, self.rows, longest));
        ids.bag(graph, rows, lookup.combiner)
    }
}

fn linear_logits(
    graph: &mut GraphBuilder,
    inputs: &GraphInputs,
    linear: &Linear,
    plan: &ModelPlan,
) -> Result<Output<f32>> {
    let Columns { transform, lookups, source } = &linear.columns;
    let mut logits = variable(graph, plan, linear.bias)?;
    let (mut dense, mut sparse) = (linear.dense.iter(), lookups.iter());
    for (planned, column) in transform.columns().iter().zip(source) {
        let own = if let (Slot::Dense { .. }, Some(&at)) = (&planned.slot, dense.as_slice().first()) {
            dense.next();
            let (values, weights) = (inputs.dense(graph, column)?, variable(graph, plan, at)?);
            graph.matmul(values, weights)
        } else {
            let Some(lookup) = sparse.next() else { continue };
            let (ids, weights) = (inputs.ids(graph, column)?, GraphTable::new(graph, plan, lookup.table)?);
            weights.bag(graph, &ids, lookup)
        };
        logits = graph.add(own, logits);
    }
    Ok(logits)
}

fn deep_logits(graph: &mut GraphBuilder, inputs: &GraphInputs, deep: &Deep, plan: &ModelPlan) -> Result<Output<f32>> {
    let Columns { transform, lookups, source } = &deep.columns;
    let (mut tables, mut sparse) = (Tables::new(plan), lookups.iter());
    let mut parts = Vec::with_capacity(source.len());
    for (planned, column) in transform.columns().iter().zip(source) {
        if let Slot::Dense { .. } = planned.slot {
            parts.push(inputs.dense(graph, column)?);
            continue;
        }
        let Some(lookup) = sparse.next() else { continue };
        let ids = inputs.ids(graph, column)?;
        parts.push(tables.bag(graph, &ids, lookup)?);
    }
    let x = side_by_side(graph, &parts);
    mlp_logits(graph, x, &deep.mlp, plan)
}

/// The tables of a graph. A table shared by several columns is one variable.
pub(super) struct Tables<'a> {
    plan: &'a ModelPlan,
    made: Vec<Option<GraphTable>>,
}

impl<'a> Tables<'a> {
    pub(super) fn new(plan: &'a ModelPlan) -> Self {
        Self { plan, made: vec![None; plan.tables.len()] }
    }

    /// Returns the combined rows of a column.
    pub(super) fn bag(&mut self, graph: &mut GraphBuilder, ids: &GraphIds, lookup: &Lookup) -> Result<Output<f32>> {
        let table = match self.made[lookup.table] {
            Some(table) => table,
            None => GraphTable::new(graph, self.plan, lookup.table)?,
        };
        self.made[lookup.table] = Some(table);
        Ok(table.bag(graph, ids, lookup))
    }
}

fn dense(graph: &mut GraphBuilder, x: Output<f32>, layer: DenseLayer, plan: &ModelPlan) -> Result<Output<f32>> {
    let (kernel, bias) = (variable(graph, plan, layer.kernel)?, variable(graph, plan, layer.bias)?);
    Ok(graph.dense(x, kernel, Some(bias)))
}

pub(super) fn side_by_side(graph: &mut GraphBuilder, parts: &[Output<f32>]) -> Output<f32> {
    if parts.len() == 1 { parts[0] } else { graph.concat(parts, 1) }
}

pub(super) fn mlp_logits(graph: &mut GraphBuilder, x: Output<f32>, mlp: &Mlp, plan: &ModelPlan) -> Result<Output<f32>> {
    let x = hidden(graph, x, &mlp.hidden, plan)?;
    dense(graph, x, mlp.logits, plan)
}

pub(super) fn hidden(
    graph: &mut GraphBuilder,
    mut x: Output<f32>,
    hidden: &HiddenLayers,
    plan: &ModelPlan,
) -> Result<Output<f32>> {
    for (own, norm) in &hidden.layers {
        x = dense(graph, x, *own, plan)?;
        x = activated(graph, x, hidden.activation);
        if let Some(norm) = norm {
            x = normalized(graph, x, *norm, plan)?;
        }
    }
    Ok(x)
}

fn normalized(graph: &mut GraphBuilder, x: Output<f32>, norm: BatchNorm, plan: &ModelPlan) -> Result<Output<f32>> {
    let moving = |graph: &mut GraphBuilder, at: usize| -> Result<Output<f32>> {
        let variable = &plan.variables[at];
        Ok(graph.untrained_variable(&variable.name, &Shape::new(variable.dims.clone())?))
    };
    let (gamma, beta) = (variable(graph, plan, norm.gamma)?, variable(graph, plan, norm.beta)?);
    let (mean, variance) = (moving(graph, norm.mean)?, moving(graph, norm.variance)?);
    let norm = Normalization { gamma: Some(gamma), beta: Some(beta), mean, variance };
    Ok(graph.batch_norm(x, &norm, EPSILON))
}

/// Clips rows to a norm of `longest`.
fn clipped(graph: &mut GraphBuilder, rows: Output<f32>, longest: f32) -> Output<f32> {
    let squares = graph.square(rows);
    let squares = graph.sum(squares, &[1], true);
    let length = graph.sqrt(squares);
    let longest = graph.scalar(longest);
    let at_least = graph.maximum(length, longest);
    let scale = graph.div(longest, at_least);
    graph.mul(rows, scale)
}
