//! A canned model as a graph of TensorFlow's ops.

use super::Canned;
use super::deep::Deep;
use super::graph_fields::{machine_logits, meeting_logits};
use super::hidden::{EPSILON, Hidden, Norm, Sums};
use super::linear::Linear;
use super::lookup::Lookup;
use super::parts::{Builder, Columns};
use crate::export::{Served, ServingInput};
use phalanx_base::{Result, Shape};
use phalanx_feature::{FeatureColumn, GraphIds, GraphInputs, Slot};
use phalanx_formats::saved_model::{GraphBuilder, Normalization, Output, Text};
use phalanx_train::saved_model::activated;

impl Canned {
    pub(super) fn served(&self, input: ServingInput) -> Result<Served> {
        let mut graph = GraphBuilder::new();
        let parts = [self.linear.as_ref().map(|part| &part.columns), self.deep_columns()];
        let columns: Vec<FeatureColumn> = parts.into_iter().flatten().flat_map(|part| part.source.clone()).collect();
        if let Some(bias) = self.baseline {
            // It looks at nothing but how many rows there are.
            let serialized = graph.placeholder::<Text>("input_example_tensor", &[None]);
            let bias = variable(&mut graph, &self.kept, bias)?;
            let logits = graph.repeat_rows(bias, serialized);
            return Ok(Served { graph, logits, placeholders: vec![("examples".to_owned(), serialized.into())] });
        }
        let inputs = match input {
            ServingInput::Examples => GraphInputs::examples(&mut graph, &columns)?,
            ServingInput::Raw => GraphInputs::raw(&mut graph, &columns)?,
        };
        let mut parts = Vec::new();
        if let Some(linear) = &self.linear {
            parts.push(linear_logits(&mut graph, &inputs, linear, &self.kept)?);
        }
        if let Some(deep) = &self.deep {
            parts.push(deep_logits(&mut graph, &inputs, deep, &self.kept)?);
        }
        if let Some(machine) = &self.machine {
            parts.push(machine_logits(&mut graph, &inputs, machine, &self.kept)?);
        }
        if let Some(meeting) = &self.meeting {
            parts.push(meeting_logits(&mut graph, &inputs, meeting, &self.kept)?);
        }
        let logits = parts.into_iter().reduce(|others, own| graph.add(own, others));
        let logits = logits.ok_or_else(|| phalanx_base::Error::new(phalanx_base::Code::Internal, "no part"))?;
        Ok(Served { graph, logits, placeholders: inputs.placeholders().to_vec() })
    }
}

fn variable(graph: &mut GraphBuilder, kept: &Builder, at: usize) -> Result<Output<f32>> {
    let plan = &kept.variables[at];
    Ok(graph.variable(&plan.name, &Shape::new(plan.dims.clone())?))
}

/// A table as the variable that it is in TensorFlow.
fn table(graph: &mut GraphBuilder, kept: &Builder, at: usize) -> Result<Output<f32>> {
    let table = &kept.tables[at];
    Ok(graph.variable(&table.spec.name, &Shape::new([table.rows, table.spec.dim])?))
}

fn linear_logits(
    graph: &mut GraphBuilder,
    inputs: &GraphInputs,
    linear: &Linear,
    kept: &Builder,
) -> Result<Output<f32>> {
    let Columns { transform, lookups, source } = &linear.columns;
    let mut logits = variable(graph, kept, linear.bias)?;
    let (mut dense, mut sparse) = (linear.dense.iter(), lookups.iter());
    for (planned, column) in transform.columns().iter().zip(source) {
        let own = if let (Slot::Dense { .. }, Some(&at)) = (&planned.slot, dense.as_slice().first()) {
            dense.next();
            let (values, weights) = (inputs.dense(graph, column)?, variable(graph, kept, at)?);
            graph.matmul(values, weights)
        } else {
            let Some(lookup) = sparse.next() else { continue };
            let (ids, weights) = (inputs.ids(graph, column)?, table(graph, kept, lookup.table)?);
            ids.bag(graph, weights, lookup.combiner)
        };
        logits = graph.add(own, logits);
    }
    Ok(logits)
}

fn deep_logits(graph: &mut GraphBuilder, inputs: &GraphInputs, deep: &Deep, kept: &Builder) -> Result<Output<f32>> {
    let Columns { transform, lookups, source } = &deep.columns;
    let (mut tables, mut sparse) = (Tables::new(kept), lookups.iter());
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
    let x = if parts.len() == 1 { parts[0] } else { graph.concat(&parts, 1) };
    let x = hidden(graph, x, &deep.hidden, kept)?;
    sums(graph, x, deep.logits, kept)
}

/// The tables of a graph: one that several columns share is one variable.
pub(super) struct Tables<'a> {
    kept: &'a Builder,
    made: Vec<Option<Output<f32>>>,
}

impl<'a> Tables<'a> {
    pub(super) fn new(kept: &'a Builder) -> Self {
        Self { kept, made: vec![None; kept.tables.len()] }
    }

    /// What a column looks up, combined.
    pub(super) fn bag(&mut self, graph: &mut GraphBuilder, ids: &GraphIds, lookup: &Lookup) -> Result<Output<f32>> {
        let whole = match self.made[lookup.table] {
            Some(whole) => whole,
            None => table(graph, self.kept, lookup.table)?,
        };
        self.made[lookup.table] = Some(whole);
        let rows = lookup.max_norm.map_or(whole, |longest| shortened(graph, whole, longest));
        Ok(ids.bag(graph, rows, lookup.combiner))
    }
}

pub(super) fn sums(graph: &mut GraphBuilder, x: Output<f32>, sums: Sums, kept: &Builder) -> Result<Output<f32>> {
    let (kernel, bias) = (variable(graph, kept, sums.kernel)?, variable(graph, kept, sums.bias)?);
    Ok(graph.dense(x, kernel, Some(bias)))
}

pub(super) fn hidden(
    graph: &mut GraphBuilder,
    mut x: Output<f32>,
    hidden: &Hidden,
    kept: &Builder,
) -> Result<Output<f32>> {
    for (own, norm) in &hidden.layers {
        x = sums(graph, x, *own, kept)?;
        x = activated(graph, x, hidden.activation);
        if let Some(norm) = norm {
            x = normalized(graph, x, *norm, kept)?;
        }
    }
    Ok(x)
}

fn normalized(graph: &mut GraphBuilder, x: Output<f32>, norm: Norm, kept: &Builder) -> Result<Output<f32>> {
    let moving = |graph: &mut GraphBuilder, at: usize| -> Result<Output<f32>> {
        let plan = &kept.variables[at];
        Ok(graph.untrained_variable(&plan.name, &Shape::new(plan.dims.clone())?))
    };
    let (gamma, beta) = (variable(graph, kept, norm.gamma)?, variable(graph, kept, norm.beta)?);
    let (mean, variance) = (moving(graph, norm.mean)?, moving(graph, norm.variance)?);
    let norm = Normalization { gamma: Some(gamma), beta: Some(beta), mean, variance };
    Ok(graph.batch_norm(x, &norm, EPSILON))
}

/// Rows that are not longer than `longest`.
fn shortened(graph: &mut GraphBuilder, rows: Output<f32>, longest: f32) -> Output<f32> {
    let squares = graph.square(rows);
    let squares = graph.sum(squares, &[1], true);
    let length = graph.sqrt(squares);
    let longest = graph.scalar(longest);
    let at_least = graph.maximum(length, longest);
    let scale = graph.div(longest, at_least);
    graph.mul(rows, scale)
}
