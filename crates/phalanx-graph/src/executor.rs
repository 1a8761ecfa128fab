//! Computes a graph on slices.

use crate::Op;
use crate::feed::{Fed, Feed};
use crate::graph::{Graph, NodeId};
use crate::pass::Pass;
use crate::plan::Plan;
use phalanx_base::{Code, Error, Result};
use phalanx_matmul::Level;
use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};

/// A graph that is ready to compute certain values of it, and gradients. It can be used by several threads at once, each of
/// which then has memory of its own; memory is used again by later steps.
///
/// ```
/// use phalanx_graph::{Dense, Executor, Fed, Feed, Graph, InputValues, Reduce, Seed, SquaredError};
/// # use std::sync::Arc;
/// let mut graph = Graph::default();
/// let x = graph.input("x", InputValues::Numbers(vec![2]))?;
/// let labels = graph.input("y", InputValues::Numbers(vec![1]))?;
/// let kernel = graph.parameter("kernel", [2, 1])?;
/// let y = graph.add(Dense::default(), &[x, kernel])?;
/// let each = graph.add(SquaredError, &[y, labels])?;
/// let loss = graph.add(Reduce::Mean, &[each])?;
///
/// let executor = Executor::new(&Arc::new(graph), &[y], &[loss])?;
/// let feed = Feed {
///     rows: 1,
///     inputs: vec![Fed::Numbers(&[3.0, 4.0]), Fed::Numbers(&[10.0])],
///     parameters: vec![&[1.0, 2.0]],
///     tables: vec![],
///     seed: 0,
/// };
/// let mut pass = executor.forward(feed)?;
/// assert_eq!((pass.value(y), pass.scalar(loss)), (&[11.0][..], 1.0));
/// let gradients = pass.backward(&[Seed::Constant(1.0)]);
/// assert_eq!(gradients.parameters, [Some(vec![6.0, 8.0])]);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Debug)]
pub struct Executor {
    pub(crate) graph: Arc<Graph>,
    pub(crate) plan: Plan,
    pub(crate) losses: Vec<NodeId>,
    pub(crate) level: Level,
    /// The memory of steps that have ended.
    spare: Mutex<Vec<Memory>>,
}

/// The memory of a step.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// Of the values, gradients and what is kept, as planned.
    pub(crate) slots: Vec<Vec<f32>>,
    /// Of the kernels while they compute.
    pub(crate) scratch: RefCell<Vec<f32>>,
}

impl Executor {
    /// Plans the values of `outputs`, and the gradients of `losses`. Without losses, the values are those of inference.
    ///
    /// # Errors
    /// Fails if the graph is damaged or has no such nodes.
    pub fn new(graph: &Arc<Graph>, outputs: &[NodeId], losses: &[NodeId]) -> Result<Self> {
        graph.check()?;
        let plan = Plan::new(graph, outputs, losses)?;
        let (graph, losses) = (Arc::clone(graph), losses.to_vec());
        Ok(Self { graph, plan, losses, level: Level::detect(), spare: Mutex::default() })
    }

    /// Computes the values.
    ///
    /// # Errors
    /// Fails if what it is fed with does not fit the graph.
    pub fn forward<'e>(&'e self, feed: Feed<'e>) -> Result<Pass<'e>> {
        feed.check(&self.graph)?;
        self.check_inputs(&feed)?;
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut memory = spare.unwrap_or_default();
        memory.slots.resize_with(self.plan.slots.len(), Vec::new);
        for (slot, size) in memory.slots.iter_mut().zip(&self.plan.slots) {
            let length = size.at(feed.rows);
            if slot.len() < length {
                slot.resize(length, 0.0);
            }
        }
        Ok(Pass::new(self, feed, memory))
    }

    /// Refuses inputs that are absent but read, and ids beyond the rows of their table.
    fn check_inputs(&self, feed: &Feed<'_>) -> Result<()> {
        for node in &self.plan.forward {
            let node = &self.graph.nodes[*node];
            let fed = |at: usize| node.inputs.get(at).map(|input| &self.graph.nodes[input.0].op);
            for input in &node.inputs {
                if let Op::Input(at) = self.graph.nodes[input.0].op
                    && matches!(feed.inputs[at], Fed::Absent)
                {
                    let name = &self.graph.inputs[at].name;
                    return Err(Error::new(Code::Internal, format!("a step was not given {name:?}")));
                }
            }
            let each = match &node.op {
                Op::Bag(_) => None,
                Op::Gather(gather) => Some(gather.dims.iter().product::<usize>()),
                _ => continue,
            };
            if let (Some(Op::Rows(table)), Some(Op::Input(input))) = (fed(0), fed(1))
                && let Fed::Ids(ids) = feed.inputs[*input]
            {
                if each.is_some_and(|each| each * feed.rows != ids.positions.len()) {
                    let name = &self.graph.inputs[*input].name;
                    return Err(Error::new(
                        Code::ShapeMismatch,
                        format!("{name:?} has another number of ids than places"),
                    ));
                }
                let rows = feed.tables[*table].len() / self.graph.tables[*table].dim;
                if ids.positions.iter().copied().max().is_some_and(|most| most as usize >= rows) {
                    let name = &self.graph.inputs[*input].name;
                    return Err(Error::new(
                        Code::ShapeMismatch,
                        format!("the ids of {name:?} have more rows than {rows}"),
                    ));
                }
            }
        }
        Ok(())
    }

    pub(crate) fn give_back(&self, memory: Memory) {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).push(memory);
    }
}
