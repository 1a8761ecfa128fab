//! The plan of a computation: which nodes are computed, in which order, and where their values lie.
//!
//! It is made once for a graph and what is wanted of it. Sizes are known up to the number of examples, so it serves batches
//! of any size.

use crate::graph::{Graph, Node, NodeId};
use crate::op::RowLayout;
use crate::shape::{Leading, ValueShape};
use crate::slots::{Interval, Slots};
use crate::{Concat, Op};
use phalanx_base::{Code, Error, Result};

/// A size that grows with the number of examples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) each: usize,
    pub(crate) fixed: usize,
}

impl Size {
    pub(crate) fn of(shape: &ValueShape) -> Self {
        match shape.leading {
            Leading::Batch => Self { each: shape.elements(), fixed: 0 },
            Leading::None | Leading::Rows => Self { each: 0, fixed: shape.elements() },
        }
    }

    pub(crate) fn at(self, rows: usize) -> usize {
        self.each * rows + self.fixed
    }

    pub(crate) fn max(self, other: Self) -> Self {
        Self { each: self.each.max(other.each), fixed: self.fixed.max(other.fixed) }
    }
}

/// Where a value, a gradient, or what an operation keeps lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) slot: usize,
    /// The numbers of the slot that belong to it, or to the wider value that it is part of.
    pub(crate) size: Size,
    pub(crate) layout: RowLayout,
}

/// How the gradient with respect to an input arises.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contribution {
    /// The number of the input among those of the node.
    pub(crate) input: usize,
    /// Whether nothing has contributed to this gradient yet.
    pub(crate) first: bool,
}

/// The backward pass of a node.
#[derive(Clone, Debug)]
pub(crate) struct Backward {
    pub(crate) node: usize,
    pub(crate) to: Vec<Contribution>,
}

#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) forward: Vec<usize>,
    pub(crate) backward: Vec<Backward>,
    /// By node. Inputs, parameters and rows have none: they are read where they are.
    pub(crate) values: Vec<Option<Place>>,
    pub(crate) gradients: Vec<Option<Place>>,
    pub(crate) kept: Vec<Option<Place>>,
    /// Where a second contribution to a gradient is computed before it is added.
    pub(crate) scratch: Option<Place>,
    /// Whether a node is computed inside of the concatenation that takes it.
    pub(crate) is_inside: Vec<bool>,
    /// Whether the gradient of a node is wanted, or needed for one that is.
    pub(crate) flows: Vec<bool>,
    pub(crate) slots: Vec<Size>,
}

impl Plan {
    /// Plans the values of `outputs` and, if there are any, the gradients of `losses`.
    pub(crate) fn new(graph: &Graph, outputs: &[NodeId], losses: &[NodeId]) -> Result<Self> {
        let wanted: Vec<usize> = outputs.iter().chain(losses).map(|node| node.0).collect();
        if let Some(missing) = wanted.iter().find(|at| **at >= graph.nodes.len()) {
            return Err(Error::new(Code::Internal, format!("the graph has no node {missing}")));
        }
        let needed = ancestors(graph, &wanted);
        let flows = flowing(graph, losses);
        let computed = |at: &usize| graph.nodes[*at].op.operation().is_some();
        let forward: Vec<usize> = (0..graph.nodes.len()).filter(|at| needed[*at]).filter(computed).collect();
        let mut reached: Vec<bool> = vec![false; graph.nodes.len()];
        losses.iter().for_each(|node| reached[node.0] = true);
        let mut backward = Vec::new();
        for &node in forward.iter().rev().filter(|at| flows[**at]) {
            let mut to = Vec::new();
            for (input, from) in graph.nodes[node].inputs.iter().enumerate().filter(|(_, from)| flows[from.0]) {
                to.push(Contribution { input, first: !std::mem::replace(&mut reached[from.0], true) });
            }
            backward.push(Backward { node, to });
        }
        let nothing = || vec![None; graph.nodes.len()];
        let mut plan = Self {
            forward,
            backward,
            values: nothing(),
            gradients: nothing(),
            kept: nothing(),
            scratch: None,
            is_inside: Vec::new(),
            flows,
            slots: Vec::new(),
        };
        Layout::new(graph, &plan, &wanted).place(&mut plan);
        Ok(plan)
    }
}

/// Returns which nodes the wanted ones depend on, with these.
fn ancestors(graph: &Graph, wanted: &[usize]) -> Vec<bool> {
    let mut needed = vec![false; graph.nodes.len()];
    wanted.iter().for_each(|at| needed[*at] = true);
    for at in (0..graph.nodes.len()).rev() {
        if needed[at] {
            graph.nodes[at].inputs.iter().for_each(|input| needed[input.0] = true);
        }
    }
    needed
}

/// Returns through which nodes gradients flow: from the losses to what training changes.
fn flowing(graph: &Graph, losses: &[NodeId]) -> Vec<bool> {
    let mut learns = vec![false; graph.nodes.len()];
    for (at, node) in graph.nodes.iter().enumerate() {
        learns[at] = match node.op {
            Op::Input(_) => false,
            Op::Parameter(_) => true,
            Op::Rows(table) => graph.tables[table].trainable,
            _ => node.inputs.iter().any(|input| learns[input.0]),
        };
    }
    let losses: Vec<usize> = losses.iter().map(|node| node.0).collect();
    ancestors(graph, &losses).into_iter().zip(learns).map(|(needed, learns)| needed && learns).collect()
}

/// Lays values out in slots: two share one if they are never needed at the same time.
struct Layout<'a> {
    graph: &'a Graph,
    /// When a node is computed, and when its backward pass runs.
    forward_at: Vec<usize>,
    backward_at: Vec<Option<usize>>,
    /// The concatenation that a node's value is part of, and the column where it begins.
    inside: Vec<Option<(usize, usize)>>,
    wanted: &'a [usize],
    end: usize,
}

impl<'a> Layout<'a> {
    fn new(graph: &'a Graph, plan: &Plan, wanted: &'a [usize]) -> Self {
        let count = graph.nodes.len();
        let (mut forward_at, mut backward_at) = (vec![0; count], vec![None; count]);
        plan.forward.iter().enumerate().for_each(|(at, node)| forward_at[*node] = at + 1);
        let half = plan.forward.len() + 1;
        plan.backward.iter().enumerate().for_each(|(at, step)| backward_at[step.node] = Some(half + at + 1));
        let end = half + plan.backward.len() + 1;
        let mut layout = Self { graph, forward_at, backward_at, inside: vec![None; count], wanted, end };
        plan.forward.iter().for_each(|node| layout.place_inside(*node));
        layout
    }

    /// Finds the inputs of a concatenation that can be computed in place.
    fn place_inside(&mut self, node: usize) {
        let Node { op: Op::Concat(Concat { axis: 0 }), inputs, shape } = &self.graph.nodes[node] else { return };
        if shape.vector().is_err() {
            return;
        }
        let mut start = 0;
        for input in inputs {
            let own = &self.graph.nodes[input.0];
            let is_strided = own.op.operation().is_some_and(|op| op.is_strided());
            let is_taken_once = inputs.iter().filter(|other| *other == input).count() == 1;
            if is_strided && is_taken_once && self.consumers(input.0).count() == 1 && !self.wanted.contains(&input.0) {
                self.inside[input.0] = Some((node, start));
            }
            start += own.shape.width();
        }
    }

    /// Iterates over the computed nodes that take the value of a node.
    fn consumers(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        let takes = move |at: &usize| self.graph.nodes[*at].inputs.contains(&NodeId(node));
        (node + 1..self.graph.nodes.len()).filter(|at| self.forward_at[*at] > 0).filter(takes)
    }

    fn place(&self, plan: &mut Plan) {
        plan.is_inside = self.inside.iter().map(Option::is_some).collect();
        let mut slots = Slots::default();
        let mut intervals = Vec::new();
        for &node in &plan.forward {
            if self.inside[node].is_none() {
                intervals.push((Kind::Value, node, self.value(node), Size::of(&self.graph.nodes[node].shape)));
            }
            let keeps = self.keeps(node);
            if keeps != Size::default() {
                let end = self.backward_at[node].unwrap_or(self.forward_at[node]);
                let kept = Interval { start: self.forward_at[node], end };
                intervals.push((Kind::Kept, node, kept, keeps));
            }
        }
        for step in plan.backward.iter().filter(|step| self.inside[step.node].is_none()) {
            let size = Size::of(&self.graph.nodes[step.node].shape);
            intervals.push((Kind::Gradient, step.node, self.gradient(step.node), size));
        }
        intervals.sort_by_key(|(_, _, interval, _)| interval.start);
        for (kind, node, interval, size) in intervals {
            let slot = slots.take(interval, size);
            let width = self.graph.nodes[node].shape.width();
            let place = Place { slot, size, layout: RowLayout { stride: width, start: 0, width } };
            match kind {
                Kind::Value => plan.values[node] = Some(place),
                Kind::Gradient => plan.gradients[node] = Some(place),
                Kind::Kept => plan.kept[node] = Some(place),
            }
        }
        for &node in &plan.forward {
            let Some((whole, start)) = self.inside[node] else { continue };
            let width = self.graph.nodes[node].shape.width();
            let part = |place: Place| Place { layout: RowLayout { start, width, ..place.layout }, ..place };
            plan.values[node] = plan.values[whole].map(part);
            plan.gradients[node] = plan.gradients[whole].filter(|_| plan.flows[node]).map(part);
        }
        let second = plan.backward.iter().flat_map(|step| step.to.iter().map(move |to| (step.node, to)));
        let second = second.filter(|(_, to)| !to.first).map(|(node, to)| self.graph.nodes[node].inputs[to.input].0);
        if let Some(size) = second.map(|input| Size::of(&self.graph.nodes[input].shape)).reduce(Size::max) {
            let slot = slots.take(Interval { start: 0, end: self.end }, size);
            plan.scratch = Some(Place { slot, size, layout: RowLayout { stride: 1, start: 0, width: 1 } });
        }
        plan.slots = slots.sizes();
    }

    fn keeps(&self, node: usize) -> Size {
        let node = &self.graph.nodes[node];
        let shapes: Vec<&ValueShape> = node.inputs.iter().map(|input| self.graph.shape(*input)).collect();
        node.op.operation().map(|op| op.keeps(&shapes)).unwrap_or_default()
    }

    /// Returns how long a value is needed, with those that are computed inside of it.
    fn value(&self, node: usize) -> Interval {
        let parts = self.parts(node).map(|part| self.own_value(part));
        parts.fold(self.own_value(node), Interval::with)
    }

    fn own_value(&self, node: usize) -> Interval {
        let reads = |at: usize| self.graph.nodes[at].op.operation().map(|op| op.reads()).unwrap_or_default();
        let mut end = self.forward_at[node];
        if self.wanted.contains(&node) {
            end = self.end;
        }
        if let (Some(at), true) = (self.backward_at[node], reads(node).output) {
            end = end.max(at);
        }
        for consumer in self.consumers(node) {
            end = end.max(self.forward_at[consumer]);
            if let (Some(at), true) = (self.backward_at[consumer], reads(consumer).inputs) {
                end = end.max(at);
            }
        }
        Interval { start: self.forward_at[node], end }
    }

    /// Returns how long a gradient is needed, with those that are part of it.
    fn gradient(&self, node: usize) -> Interval {
        let own = |node: usize| {
            let at = self.backward_at[node].unwrap_or(self.end);
            let contributors = self.consumers(node).filter_map(|consumer| self.backward_at[consumer]);
            let start = if self.wanted.contains(&node) { 0 } else { contributors.min().unwrap_or(0) };
            Interval { start, end: at }
        };
        self.parts(node).map(own).fold(own(node), Interval::with)
    }

    /// Iterates over the nodes that are computed inside of a concatenation.
    fn parts(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        let inputs = self.graph.nodes[node].inputs.iter().map(|input| input.0);
        inputs.filter(move |input| self.inside[*input].is_some_and(|(whole, _)| whole == node))
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Value,
    Gradient,
    Kept,
}
