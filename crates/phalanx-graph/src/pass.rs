//! One computation of a graph: the forward pass, then the backward pass.

use crate::Op;
use crate::executor::{Executor, Memory};
use crate::feed::{Fed, Feed, Ids};
use crate::graph::{Graph, Node, NodeId};
use crate::op::{Out, Rows};
use crate::plan::{Backward, Contribution, Place};
use crate::shape::ValueShape;
use phalanx_base::mix;
use phalanx_matmul::{Epilogue, Fields, Level, Matrix, Precision, matmul_into, matmul_scratch};

/// Where the gradients of a backward pass begin.
#[derive(Clone, Copy, Debug)]
pub enum Seed<'a> {
    /// Every number of the node has this gradient.
    Constant(f32),
    /// The gradient, computed elsewhere.
    Numbers(&'a [f32]),
}

/// The gradients of a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gradients {
    /// Those of [`Graph::parameters`](crate::Graph::parameters); `None` where the losses do not depend on one.
    pub parameters: Vec<Option<Vec<f32>>>,
    /// Those of the unique rows of [`Graph::tables`](crate::Graph::tables); `None` where a table is not trained.
    pub tables: Vec<Option<Vec<f32>>>,
}

/// A computed forward pass. See [`Executor`].
#[derive(Debug)]
pub struct Pass<'e> {
    executor: &'e Executor,
    feed: Feed<'e>,
    memory: Memory,
}

impl<'e> Pass<'e> {
    pub(crate) fn new(executor: &'e Executor, feed: Feed<'e>, memory: Memory) -> Self {
        let mut pass = Self { executor, feed, memory };
        executor.plan.forward.iter().for_each(|node| pass.forward(*node));
        pass
    }

    /// Returns the value of an output or a loss, or what it was fed with.
    ///
    /// # Panics
    /// Panics if the node is none of those that the executor was made for.
    #[must_use]
    pub fn value(&self, node: NodeId) -> &[f32] {
        self.context(node.0).value(node.0)
    }

    /// Returns the value of a loss, which is one number.
    ///
    /// # Panics
    /// As [`Self::value`].
    #[must_use]
    pub fn scalar(&self, node: NodeId) -> f32 {
        self.value(node).first().copied().unwrap_or_default()
    }

    /// Computes the gradients of the losses that the executor was made for, which begin with these seeds, in their order.
    ///
    /// # Panics
    /// Panics if there is another number of seeds than of losses, or a seed has another number of numbers than its node.
    pub fn backward(&mut self, seeds: &[Seed<'_>]) -> Gradients {
        assert_eq!(seeds.len(), self.executor.losses.len(), "a seed for each loss");
        let mut gradients = Gradients {
            parameters: vec![None; self.feed.parameters.len()],
            tables: vec![None; self.feed.tables.len()],
        };
        for (node, seed) in self.executor.losses.iter().zip(seeds) {
            let Some(place) = self.executor.plan.gradients[node.0] else { continue };
            let gradient = &mut self.memory.slots[place.slot][..place.size.at(self.feed.rows)];
            match seed {
                Seed::Constant(number) => gradient.fill(*number),
                Seed::Numbers(numbers) => gradient.copy_from_slice(numbers),
            }
        }
        self.executor.plan.backward.iter().for_each(|step| self.step_back(step, &mut gradients));
        gradients
    }

    fn context(&self, node: usize) -> Context<'_> {
        let Self { executor, feed, memory } = self;
        Context { executor, feed, memory, node, own: &executor.graph.nodes[node] }
    }

    fn take(&mut self, place: Option<Place>) -> Vec<f32> {
        place.map_or_else(Vec::new, |place| std::mem::take(&mut self.memory.slots[place.slot]))
    }

    fn put_back(&mut self, place: Option<Place>, buffer: Vec<f32>) {
        if let Some(place) = place {
            self.memory.slots[place.slot] = buffer;
        }
    }

    fn forward(&mut self, node: usize) {
        let executor = self.executor;
        let (place, kept_at) = (executor.plan.values[node], executor.plan.kept[node]);
        let (Some(op), Some(at)) = (executor.graph.nodes[node].op.operation(), place) else { return };
        let (mut buffer, mut kept) = (self.take(place), self.take(kept_at));
        let kept_size = kept_at.map_or(0, |place| place.size.at(self.feed.rows));
        let out = Out { values: &mut buffer[..at.size.at(self.feed.rows)], layout: at.layout };
        op.forward(&self.context(node), out, &mut kept[..kept_size]);
        self.put_back(place, buffer);
        self.put_back(kept_at, kept);
    }

    fn step_back(&mut self, step: &Backward, gradients: &mut Gradients) {
        let executor = self.executor;
        let (place, kept_at) = (executor.plan.gradients[step.node], executor.plan.kept[step.node]);
        let (Some(op), Some(at)) = (executor.graph.nodes[step.node].op.operation(), place) else { return };
        let (mut buffer, mut kept) = (self.take(place), self.take(kept_at));
        let kept_size = kept_at.map_or(0, |place| place.size.at(self.feed.rows));
        let gradient = &mut buffer[..at.size.at(self.feed.rows)];
        op.prepare_backward(&self.context(step.node), gradient, &mut kept[..kept_size]);
        self.put_back(kept_at, kept);
        let gradient = Rows { values: gradient, layout: at.layout };
        for to in &step.to {
            self.contribute(step.node, *to, gradient, gradients);
        }
        self.put_back(place, buffer);
    }

    /// Adds the gradient with respect to one input of a node.
    fn contribute(&mut self, node: usize, to: Contribution, gradient: Rows<'_>, gradients: &mut Gradients) {
        let executor = self.executor;
        let input = executor.graph.nodes[node].inputs[to.input].0;
        let Some(op) = executor.graph.nodes[node].op.operation() else { return };
        let place = executor.plan.gradients[input];
        if executor.plan.is_inside[input] {
            // Its gradient is a part of this one.
            return;
        }
        let mut buffer = match executor.graph.nodes[input].op {
            Op::Parameter(at) => {
                gradients.parameters[at].take().unwrap_or_else(|| vec![0.0; self.feed.parameters[at].len()])
            }
            Op::Rows(at) => gradients.tables[at].take().unwrap_or_else(|| vec![0.0; self.feed.tables[at].len()]),
            _ => self.take(place),
        };
        let length = place.map_or(buffer.len(), |place| place.size.at(self.feed.rows));
        let out = &mut buffer[..length];
        if op.adds() {
            if to.first && place.is_some() {
                out.fill(0.0);
            }
            op.backward(to.input, &self.context(node), gradient, out);
        } else if to.first {
            op.backward(to.input, &self.context(node), gradient, out);
        } else {
            let mut scratch = self.take(executor.plan.scratch);
            if scratch.len() < length {
                // The rows of a table: their number is not planned.
                scratch.resize(length, 0.0);
            }
            op.backward(to.input, &self.context(node), gradient, &mut scratch[..length]);
            out.iter_mut().zip(&scratch).for_each(|(out, more)| *out += more);
            self.put_back(executor.plan.scratch, scratch);
        }
        match executor.graph.nodes[input].op {
            Op::Parameter(at) => gradients.parameters[at] = Some(buffer),
            Op::Rows(at) => gradients.tables[at] = Some(buffer),
            _ => self.put_back(place, buffer),
        }
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.executor.give_back(std::mem::take(&mut self.memory));
    }
}

/// What an operation sees while it is computed.
pub(crate) struct Context<'a> {
    executor: &'a Executor,
    feed: &'a Feed<'a>,
    memory: &'a Memory,
    node: usize,
    own: &'a Node,
}

impl<'a> Context<'a> {
    fn graph(&self) -> &'a Graph {
        &self.executor.graph
    }

    fn value(&self, node: usize) -> &'a [f32] {
        match self.graph().nodes[node].op {
            Op::Input(at) => match self.feed.inputs[at] {
                Fed::Numbers(numbers) => numbers,
                Fed::Classes(_) | Fed::Ids(_) | Fed::Absent => &[],
            },
            Op::Parameter(at) => self.feed.parameters[at],
            Op::Rows(at) => self.feed.tables[at],
            _ => match self.executor.plan.values[node] {
                Some(place) => &self.memory.slots[place.slot][..place.size.at(self.feed.rows)],
                None => &[],
            },
        }
    }

    fn fed(&self, input: usize) -> Fed<'a> {
        match self.graph().nodes[self.own.inputs[input].0].op {
            Op::Input(at) => self.feed.inputs[at],
            _ => Fed::Absent,
        }
    }

    /// Returns the number of examples.
    pub(crate) fn rows(&self) -> usize {
        self.feed.rows
    }

    /// Returns the number of inputs.
    pub(crate) fn count(&self) -> usize {
        self.own.inputs.len()
    }

    /// Returns the numbers of an input.
    pub(crate) fn input(&self, input: usize) -> &'a [f32] {
        self.value(self.own.inputs[input].0)
    }

    /// Returns the numbers of an input as rows along its last axis.
    pub(crate) fn matrix(&self, input: usize) -> Matrix<'a> {
        let (numbers, width) = (self.input(input), self.shape(input).width());
        Matrix::new(numbers, numbers.len() / width.max(1), width)
    }

    pub(crate) fn shape(&self, input: usize) -> &'a ValueShape {
        self.graph().shape(self.own.inputs[input])
    }

    pub(crate) fn own_shape(&self) -> &'a ValueShape {
        &self.own.shape
    }

    /// Returns the value of the operation itself, in its backward pass.
    pub(crate) fn output(&self) -> &'a [f32] {
        self.value(self.node)
    }

    /// Returns what was kept from the forward pass.
    pub(crate) fn kept(&self) -> &'a [f32] {
        self.executor.plan.kept[self.node]
            .map_or(&[], |place| &self.memory.slots[place.slot][..place.size.at(self.feed.rows)])
    }

    pub(crate) fn classes(&self, input: usize) -> &'a [i64] {
        if let Fed::Classes(classes) = self.fed(input) { classes } else { &[] }
    }

    pub(crate) fn ids(&self, input: usize) -> Ids<'a> {
        match self.fed(input) {
            Fed::Ids(ids) => ids,
            _ => Ids { splits: &[0], positions: &[], weights: None },
        }
    }

    pub(crate) fn level(&self) -> Level {
        self.executor.level
    }

    /// Returns the first input as vectors of several fields.
    pub(crate) fn fields(&self, fields: usize) -> Fields {
        Fields { fields, dim: self.shape(0).width() / fields.max(1) }
    }

    /// Writes `a · b`, with what is fused with it.
    pub(crate) fn product(
        &self,
        a: Matrix<'_>,
        b: Matrix<'_>,
        precision: Precision,
        epilogue: Epilogue<'_>,
        out: &mut [f32],
    ) {
        let length = matmul_scratch(self.level(), precision, a.rows(), a.columns(), b.columns());
        self.with_scratch(length, |scratch| matmul_into(self.level(), precision, a, b, epilogue, out, scratch));
    }

    /// Calls `work` with memory for this many numbers.
    pub(crate) fn with_scratch(&self, length: usize, work: impl FnOnce(&mut [f32])) {
        let mut scratch = self.memory.scratch.borrow_mut();
        if scratch.len() < length {
            scratch.resize(length, 0.0);
        }
        work(&mut scratch[..length]);
    }

    /// Returns whether the value of an input was computed inside of this one's.
    pub(crate) fn is_in_place(&self, input: usize) -> bool {
        self.executor.plan.is_inside[self.own.inputs[input].0]
    }

    pub(crate) fn is_training(&self) -> bool {
        !self.executor.losses.is_empty()
    }

    /// Returns a seed for random numbers of this node in this step.
    pub(crate) fn seed(&self) -> u64 {
        mix(self.feed.seed ^ mix(self.node as u64 + 1))
    }
}
