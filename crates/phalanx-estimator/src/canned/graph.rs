//! A canned model's graph as a graph of TensorFlow ops.

use super::Canned;
use super::parts::ModelPlan;
use crate::Table;
use crate::export::{Served, ServingInput};
use phalanx_base::{Code, Error, Result, Shape};
use phalanx_feature::{FeatureColumn, GraphIds, GraphInputs, Slot};
use phalanx_formats::saved_model::{GraphBuilder, Normalization, Output, Text};
use phalanx_graph::{Bag, BatchNorm, Graph, Node, NodeId, Op, Slice, pairs};
use phalanx_ps::checkpoint::{table_keys, table_values};
use phalanx_train::saved_model::activated;

impl Canned {
    /// Returns the model as a graph, for a checkpoint with these numbers of rows of its tables. Only tables that grow need
    /// them.
    pub(super) fn saved_graph(&self, input: ServingInput, stored_rows: &[usize]) -> Result<Served> {
        let (mut graph, plan) = (GraphBuilder::new(), &self.plan);
        let columns: Vec<FeatureColumn> = plan.parts.iter().flat_map(|part| part.source.clone()).collect();
        let (placeholders, given) = if columns.is_empty() {
            // A baseline needs only the number of rows.
            let serialized = graph.placeholder::<Text>("input_example_tensor", &[None]);
            (vec![("examples".to_owned(), serialized.into())], Given { like: Some(serialized), inputs: Vec::new() })
        } else {
            let inputs = match input {
                ServingInput::Examples => GraphInputs::examples(&mut graph, &columns)?,
                ServingInput::Raw => GraphInputs::raw(&mut graph, &columns)?,
            };
            let given = Given::new(&mut graph, &inputs, plan, self.graph().inputs().len())?;
            (inputs.placeholders().to_vec(), given)
        };
        let tables = vec![None; plan.tables.len()];
        let made = vec![None; self.graph().nodes().len()];
        let mut writer = Writer { graph: &mut graph, model: self.graph(), plan, stored_rows, given, tables, made };
        let logits = writer.value(self.step.logits)?;
        Ok(Served { graph, logits, placeholders, outputs: Vec::new() })
    }
}

/// The inputs of a model in a graph.
struct Given {
    inputs: Vec<GivenInput>,
    /// A value with one entry for each example, where there are no inputs.
    like: Option<Output<Text>>,
}

#[derive(Clone)]
enum GivenInput {
    /// Dense columns, with their widths.
    Dense(Vec<(usize, Output<f32>)>),
    Ids(GraphIds),
    Absent,
}

impl Given {
    fn new(graph: &mut GraphBuilder, inputs: &GraphInputs, plan: &ModelPlan, count: usize) -> Result<Self> {
        let mut given = vec![GivenInput::Absent; count];
        for part in &plan.parts {
            let (mut dense, mut lookups) = (Vec::new(), part.lookups.iter());
            for (planned, column) in part.transform.columns().iter().zip(&part.source) {
                if let Slot::Dense { width, .. } = planned.slot {
                    dense.push((width, inputs.dense(graph, column)?));
                } else if let Some(lookup) = lookups.next() {
                    given[lookup.input] = GivenInput::Ids(inputs.ids(graph, column)?);
                }
            }
            if let Some(at) = part.dense {
                given[at] = GivenInput::Dense(dense);
            }
        }
        Ok(Self { inputs: given, like: None })
    }
}

/// A table in a graph: a row for each id, or, where it grows, for each id that was seen.
#[derive(Clone, Copy)]
struct GraphTable {
    rows: Output<f32>,
    /// The sorted ids, and their number. The last one stands for all others.
    keys: Option<(Output<i64>, usize)>,
}

impl GraphTable {
    fn new(graph: &mut GraphBuilder, table: &Table, stored_rows: Option<&usize>) -> Result<Self> {
        let Table { spec, rows } = table;
        if !table.is_growing() {
            let rows = graph.variable(&spec.name, &Shape::new([*rows, spec.dim])?);
            return Ok(Self { rows, keys: None });
        }
        let count = stored_rows.ok_or_else(|| {
            Error::new(Code::Internal, format!("the rows of table {:?} were not counted for the graph", spec.name))
        })?;
        let count = count + 1;
        let keys = graph.untrained_variable(&table_keys(&spec.name), &Shape::new([count])?);
        let rows = graph.variable(&table_values(&spec.name), &Shape::new([count, spec.dim])?);
        Ok(Self { rows, keys: Some((keys, count)) })
    }

    /// Returns the combined rows of a column.
    fn bag(self, graph: &mut GraphBuilder, ids: &GraphIds, bag: &Bag) -> Output<f32> {
        let ids = self.keys.map_or(*ids, |(keys, count)| ids.places(graph, keys, count));
        let rows = bag.max_norm.map_or(self.rows, |longest| clipped(graph, self.rows, longest));
        ids.bag(graph, rows, bag.combiner)
    }
}

/// Writes nodes that others take, each once.
struct Writer<'a> {
    graph: &'a mut GraphBuilder,
    model: &'a Graph,
    plan: &'a ModelPlan,
    stored_rows: &'a [usize],
    given: Given,
    tables: Vec<Option<GraphTable>>,
    made: Vec<Option<Output<f32>>>,
}

impl Writer<'_> {
    fn value(&mut self, id: NodeId) -> Result<Output<f32>> {
        if let Some(made) = self.made[id.index()] {
            return Ok(made);
        }
        let node = &self.model.nodes()[id.index()];
        let made = self.node(node)?;
        self.made[id.index()] = Some(made);
        Ok(made)
    }

    fn values<const N: usize>(&mut self, node: &Node) -> Result<[Output<f32>; N]> {
        self.all(node)?.try_into().map_err(|_| unwritten(node))
    }

    fn all(&mut self, node: &Node) -> Result<Vec<Output<f32>>> {
        node.inputs.iter().map(|input| self.value(*input)).collect()
    }

    fn node(&mut self, node: &Node) -> Result<Output<f32>> {
        Ok(match &node.op {
            Op::Input(at) => self.dense(*at, None)?,
            Op::Parameter(at) => self.parameter(*at, true)?,
            Op::Bag(bag) => self.bag(node, bag)?,
            Op::Slice(slice) => match self.model.nodes()[node.inputs[0].index()].op {
                Op::Input(at) => self.dense(at, Some(*slice))?,
                _ => return Err(unwritten(node)),
            },
            Op::Concat(concat) => {
                let parts = self.all(node)?;
                let is_batch = node.shape.leading == phalanx_graph::Leading::Batch;
                self.graph.concat(&parts, (concat.axis + usize::from(is_batch)) as i32)
            }
            Op::Dense(layer) => {
                let all = self.all(node)?;
                let (Some(&x), Some(&kernel)) = (all.first(), all.get(1)) else { return Err(unwritten(node)) };
                let sums = self.graph.dense(x, kernel, all.get(2).copied());
                if layer.relu { self.graph.relu(sums) } else { sums }
            }
            Op::Activation(own) => {
                let [x] = self.values(node)?;
                activated(self.graph, x, own.function)
            }
            Op::Dropout(_) => self.values::<1>(node)?[0],
            Op::BatchNorm(own) => self.batch_norm(node, *own)?,
            Op::Add(_) => {
                let terms = self.all(node)?;
                terms[1..].iter().fold(terms[0], |sum, term| self.graph.add(sum, *term))
            }
            Op::Repeat(_) => {
                let [row] = self.values(node)?;
                let like = self.given.like.ok_or_else(|| unwritten(node))?;
                self.graph.repeat_rows(row, like)
            }
            Op::SecondOrder(own) => self.second_order(node, own.fields)?,
            Op::PairProducts(own) => self.pair_products(node, own.fields)?,
            _ => return Err(unwritten(node)),
        })
    }

    /// Returns the dense columns of an input, or a range of them.
    fn dense(&mut self, at: usize, range: Option<Slice>) -> Result<Output<f32>> {
        let GivenInput::Dense(columns) = &self.given.inputs[at] else {
            return Err(Error::new(Code::Internal, format!("input {at} of the model has no dense columns")));
        };
        let mut start = 0;
        let mut parts = Vec::new();
        for &(width, column) in columns {
            let own = start..start + width;
            start = own.end;
            if range.is_none_or(|range| range.start <= own.start && own.end <= range.start + range.width) {
                parts.push(column);
            }
        }
        Ok(self.side_by_side(&parts))
    }

    fn side_by_side(&mut self, parts: &[Output<f32>]) -> Output<f32> {
        if parts.len() == 1 { parts[0] } else { self.graph.concat(parts, 1) }
    }

    fn parameter(&mut self, at: usize, trained: bool) -> Result<Output<f32>> {
        let parameter = &self.model.parameters()[at];
        let shape = Shape::new(parameter.dims.clone())?;
        Ok(match trained {
            true => self.graph.variable(&parameter.name, &shape),
            false => self.graph.untrained_variable(&parameter.name, &shape),
        })
    }

    fn bag(&mut self, node: &Node, bag: &Bag) -> Result<Output<f32>> {
        let ops = [0, 1].map(|input| &self.model.nodes()[node.inputs[input].index()].op);
        let [Op::Rows(table), Op::Input(input)] = ops else { return Err(unwritten(node)) };
        let GivenInput::Ids(ids) = self.given.inputs[*input].clone() else { return Err(unwritten(node)) };
        let own = match self.tables[*table] {
            Some(own) => own,
            None => GraphTable::new(self.graph, &self.plan.tables[*table], self.stored_rows.get(*table))?,
        };
        self.tables[*table] = Some(own);
        Ok(own.bag(self.graph, &ids, bag))
    }

    fn batch_norm(&mut self, node: &Node, own: BatchNorm) -> Result<Output<f32>> {
        let [x, gamma, beta] = [0, 1, 2].map(|input| self.value(node.inputs[input]));
        let mut moving = |input: usize| match self.model.nodes()[node.inputs[input].index()].op {
            Op::Parameter(at) => self.parameter(at, false),
            _ => Err(unwritten(node)),
        };
        let (mean, variance) = (moving(3)?, moving(4)?);
        let norm = Normalization { gamma: Some(gamma?), beta: Some(beta?), mean, variance };
        Ok(self.graph.batch_norm(x?, &norm, own.epsilon))
    }

    /// Returns a value as `[rows, fields, dimension]`.
    fn stacked(&mut self, node: &Node, fields: usize) -> Result<Output<f32>> {
        let [x] = self.values(node)?;
        let dimension = self.model.shape(node.inputs[0]).width() / fields;
        Ok(self.graph.reshape(x, &[-1, fields as i32, dimension as i32]))
    }

    fn second_order(&mut self, node: &Node, fields: usize) -> Result<Output<f32>> {
        let fields = self.stacked(node, fields)?;
        let graph = &mut *self.graph;
        let sum = graph.sum(fields, &[1], false);
        let whole = graph.square(sum);
        let squares = graph.square(fields);
        let own = graph.sum(squares, &[1], false);
        let twice = graph.sub(whole, own);
        let twice = graph.sum(twice, &[1], true);
        let half = graph.scalar(0.5_f32);
        Ok(graph.mul(twice, half))
    }

    fn pair_products(&mut self, node: &Node, count: usize) -> Result<Output<f32>> {
        let fields = self.stacked(node, count)?;
        let all = self.graph.batch_matmul(fields, fields, false, true);
        let all = self.graph.reshape(all, &[-1, (count * count) as i32]);
        let which: Vec<i32> = pairs(count).map(|(a, b)| (a * count + b) as i32).collect();
        let which = self.graph.constant(&[which.len()], &which);
        Ok(self.graph.gather_along(all, which, 1))
    }
}

fn unwritten(node: &Node) -> Error {
    Error::new(Code::Internal, format!("the operation {} has no TensorFlow graph", node.op.name()))
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
