//! The graph: nodes, and the inputs, parameters and tables that they read.

use crate::Op;
use crate::shape::{Leading, ValueShape};
use phalanx_base::{Code, Error, Result};
use serde::{Deserialize, Serialize};

/// A node of a [`Graph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(pub(crate) usize);

impl NodeId {
    /// Returns the place of the node among [`Graph::nodes`].
    #[must_use]
    pub fn index(self) -> usize {
        self.0
    }
}

/// An operation, and the nodes whose values it takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// The operation.
    pub op: Op,
    /// What it takes, each an earlier node.
    pub inputs: Vec<NodeId>,
    /// The shape of its value.
    pub shape: ValueShape,
}

/// What a batch brings along for a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// Its name, for messages and for exports.
    pub name: String,
    /// The type of its values.
    pub values: InputValues,
}

/// The values of an [`Input`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum InputValues {
    /// Numbers of these dimensions for each example.
    Numbers(Vec<usize>),
    /// A class below this number for each example.
    Classes(usize),
    /// Any number of ids for each example, with or without weights.
    Ids,
}

/// A dense variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameter {
    /// Its name in checkpoints.
    pub name: String,
    /// Its dimensions.
    pub dims: Vec<usize>,
}

/// A table of rows by id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Its name in checkpoints.
    pub name: String,
    /// The number of numbers in a row.
    pub dim: usize,
    /// Whether training changes its rows.
    pub trainable: bool,
}

/// A model as data: operations in the order of computation, with the shapes of their values.
///
/// ```
/// use phalanx_graph::{Dense, Graph, InputValues};
/// let mut graph = Graph::default();
/// let x = graph.input("x", InputValues::Numbers(vec![3]))?;
/// let kernel = graph.parameter("dense/kernel", [3, 2])?;
/// let bias = graph.parameter("dense/bias", [2])?;
/// let y = graph.add(Dense::default(), &[x, kernel, bias])?;
/// assert_eq!(graph.shape(y).to_string(), "[batch, 2]");
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Graph {
    pub(crate) inputs: Vec<Input>,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) tables: Vec<Table>,
    pub(crate) nodes: Vec<Node>,
}

impl Graph {
    /// Adds an input, and returns the node of its values.
    ///
    /// # Errors
    /// Fails if its dimensions are too large.
    pub fn input(&mut self, name: impl Into<String>, values: InputValues) -> Result<NodeId> {
        self.inputs.push(Input { name: name.into(), values });
        self.add(Op::Input(self.inputs.len() - 1), &[])
    }

    /// Adds a dense variable, and returns the node of its values.
    ///
    /// # Errors
    /// Fails if its dimensions are too large.
    pub fn parameter(&mut self, name: impl Into<String>, dims: impl Into<Vec<usize>>) -> Result<NodeId> {
        self.parameters.push(Parameter { name: name.into(), dims: dims.into() });
        self.add(Op::Parameter(self.parameters.len() - 1), &[])
    }

    /// Adds a table, and returns the node of the rows that a batch looks up, each once.
    ///
    /// # Errors
    /// Fails if its rows are too long.
    pub fn table(&mut self, name: impl Into<String>, dim: usize, trainable: bool) -> Result<NodeId> {
        self.tables.push(Table { name: name.into(), dim, trainable });
        self.add(Op::Rows(self.tables.len() - 1), &[])
    }

    /// Adds an operation on the values of earlier nodes, and returns the node of its value.
    ///
    /// # Errors
    /// Fails if the values have shapes that the operation cannot take.
    pub fn add(&mut self, op: impl Into<Op>, inputs: &[NodeId]) -> Result<NodeId> {
        let op = op.into();
        let shape = self.shape_of(&op, inputs, self.nodes.len())?;
        self.nodes.push(Node { op, inputs: inputs.to_vec(), shape });
        Ok(NodeId(self.nodes.len() - 1))
    }

    /// Returns the shape of a node's value.
    ///
    /// # Panics
    /// Panics if the node is of another graph that is larger.
    #[must_use]
    pub fn shape(&self, node: NodeId) -> &ValueShape {
        &self.nodes[node.0].shape
    }

    /// Returns the nodes in the order of computation.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns what a batch brings along.
    #[must_use]
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// Returns the dense variables.
    #[must_use]
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// Returns the tables.
    #[must_use]
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// Checks that the graph is what its own functions would have built: a stored one may be damaged.
    ///
    /// # Errors
    /// Fails at the first node that does not fit its inputs.
    pub fn check(&self) -> Result<()> {
        self.nodes.iter().enumerate().try_for_each(|(at, node)| {
            let shape = self.shape_of(&node.op, &node.inputs, at)?;
            let damaged = || Error::new(Code::ShapeMismatch, format!("node {at} of a graph has shape {}", node.shape));
            if shape == node.shape { Ok(()) } else { Err(damaged().because(format!("its operation gives {shape}"))) }
        })
    }

    /// Returns the shape of an operation's value, if it becomes node number `at`.
    fn shape_of(&self, op: &Op, inputs: &[NodeId], at: usize) -> Result<ValueShape> {
        let missing = |what: &str| Error::new(Code::ShapeMismatch, format!("node {at} of a graph reads {what}"));
        if inputs.iter().any(|input| input.0 >= at) {
            return Err(missing("a node that comes later"));
        }
        let shape = match op {
            Op::Input(input) => match self.inputs.get(*input).map(|input| &input.values) {
                Some(InputValues::Numbers(dims)) => ValueShape::batch(dims.clone()),
                Some(InputValues::Classes(_) | InputValues::Ids) => ValueShape::batch([]),
                None => return Err(missing("an input that does not exist")),
            },
            Op::Parameter(parameter) => match self.parameters.get(*parameter) {
                Some(parameter) => ValueShape::fixed(parameter.dims.clone()),
                None => return Err(missing("a parameter that does not exist")),
            },
            Op::Rows(table) => match self.tables.get(*table) {
                Some(table) => ValueShape { leading: Leading::Rows, dims: vec![table.dim] },
                None => return Err(missing("a table that does not exist")),
            },
            _ => {
                let shapes: Vec<&ValueShape> = inputs.iter().map(|input| self.shape(*input)).collect();
                let named = |error: Error| if error.place().is_some() { error } else { error.at(op.name()) };
                op.operation().map_or_else(|| Err(missing("nothing")), |own| own.shape(&shapes)).map_err(named)?
            }
        };
        shape.check()?;
        Ok(shape)
    }
}
