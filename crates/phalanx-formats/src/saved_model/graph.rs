//! Puts nodes into a graph, with names that are all different.

use super::output::NodeOutput;
use super::proto::{Attr, Node};
use super::variable::Declared;
use super::{Dims, Element, Output, attr};
use phalanx_base::{Code, Error, Result};
use std::collections::{BTreeMap, BTreeSet};

/// Builds a graph, node by node. Every method gives a handle to the tensor that its node will give when the graph runs;
/// nothing is computed here, and no shapes are: TensorFlow does that when it loads the graph.
///
/// Types are checked by the compiler. What it cannot see, as a name that is taken or too few values for a constant,
/// does not fail at once but when the [model](super::SavedModel) is written, with the first such fault.
///
/// ```
/// use phalanx_base::Shape;
/// use phalanx_formats::saved_model::GraphBuilder;
/// let mut graph = GraphBuilder::new();
/// let x = graph.placeholder::<f32>("x", &[None, Some(2)]);
/// let kernel = graph.variable::<f32>("dense/kernel", &Shape::new([2, 1]).unwrap());
/// let logits = graph.matmul(x, kernel);
/// let _probability = graph.sigmoid(logits);
/// ```
#[derive(Debug, Default)]
pub struct GraphBuilder {
    pub(super) nodes: Vec<Node>,
    pub(super) variables: Vec<Declared>,
    /// Nodes that must run once before the graph is used.
    pub(super) initializers: Vec<usize>,
    /// The constants that hold the names of files, and the files.
    pub(super) assets: BTreeMap<String, NodeOutput>,
    names: BTreeSet<String>,
    /// The next number to try for a name that is taken.
    counters: BTreeMap<String, u64>,
    /// Ends with a slash unless it is empty.
    scope: String,
    fault: Option<Error>,
}

/// A node while it is made.
pub(super) struct Making<'g> {
    graph: &'g mut GraphBuilder,
    node: Node,
}

impl GraphBuilder {
    /// A graph without nodes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Names all nodes that `build` adds `NAME/...`, for those who look at the graph. Variables and placeholders keep
    /// the names that they are given.
    ///
    /// ```
    /// # let mut graph = phalanx_formats::saved_model::GraphBuilder::new();
    /// # let x = graph.placeholder::<f32>("x", &[None]);
    /// let y = graph.scope("tower", |graph| graph.relu(x)); // tower/Relu
    /// # let _ = y;
    /// ```
    pub fn scope<R>(&mut self, name: &str, build: impl FnOnce(&mut Self) -> R) -> R {
        let scope = format!("{}/", self.unique(name));
        let outer = std::mem::replace(&mut self.scope, scope);
        let result = build(self);
        self.scope = outer;
        result
    }

    /// A tensor that the caller of a signature gives.
    pub fn placeholder<T: Element>(&mut self, name: &str, dims: Dims<'_>) -> Output<T> {
        let node =
            self.make("Placeholder").attr("dtype", attr::dtype(T::DTYPE)).attr("shape", attr::shape(attr::dims(dims)));
        let node = node.add_named(name);
        Output::new(node, 0)
    }

    /// The same tensor, under a name of its own: `NAME:0`.
    pub fn named<T: Element>(&mut self, name: &str, x: Output<T>) -> Output<T> {
        let node = self.make("Identity").input(x).dtype::<T>("T").add_named(name);
        Output::new(node, 0)
    }

    /// Begins a node.
    pub(super) fn make(&mut self, op: &str) -> Making<'_> {
        Making { graph: self, node: Node { op: op.to_owned(), ..Node::default() } }
    }

    /// Keeps the first fault.
    pub(super) fn fault(&mut self, error: Error) {
        self.fault.get_or_insert(error);
    }

    /// The first fault, if there was one.
    pub(super) fn check(&self) -> Result<()> {
        self.fault.clone().map_or(Ok(()), Err)
    }

    /// How an input is written; `None` for a place that this graph does not have.
    pub(super) fn reference(&self, at: NodeOutput) -> Option<String> {
        let name = &self.nodes.get(at.node)?.name;
        Some(if at.output == 0 { name.clone() } else { format!("{name}:{}", at.output) })
    }

    /// How a tensor is called from outside of the graph.
    pub(super) fn tensor_name(&self, at: NodeOutput) -> Option<String> {
        self.nodes.get(at.node).map(|node| format!("{}:{}", node.name, at.output))
    }

    /// A name that no node has: this one in the scope, or with a number behind it.
    fn unique(&mut self, name: &str) -> String {
        let base = format!("{}{name}", self.scope);
        if !is_name(&base) {
            self.fault(bad_name(name));
        }
        let mut unique = base.clone();
        let counter = self.counters.entry(base.clone()).or_insert(0);
        while !self.names.insert(unique.clone()) {
            *counter += 1;
            unique = format!("{base}_{counter}");
        }
        unique
    }

    /// Takes exactly this name.
    fn claim(&mut self, name: &str) -> String {
        if !is_name(name) {
            self.fault(bad_name(name));
        } else if !self.names.insert(name.to_owned()) {
            let error = Error::new(Code::VariableConflict, format!("the graph has two nodes {name:?}"));
            self.fault(error.help("give the placeholder, variable or output another name"));
        }
        name.to_owned()
    }

    fn push(&mut self, node: Node) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }
}

impl Making<'_> {
    /// Adds an input.
    pub(super) fn input<T>(self, output: Output<T>) -> Self {
        self.place(output.at)
    }

    /// Adds several inputs.
    pub(super) fn inputs<T>(self, outputs: &[Output<T>]) -> Self {
        outputs.iter().fold(self, |making, output| making.input(*output))
    }

    /// Adds an input by its place.
    pub(super) fn place(mut self, at: NodeOutput) -> Self {
        match self.graph.reference(at) {
            Some(name) => self.node.input.push(name),
            None => self.graph.fault(
                Error::new(Code::BadSetting, format!("an input of {} is a tensor of another graph", self.node.op))
                    .help("use a handle only with the GraphBuilder that gave it"),
            ),
        }
        self
    }

    /// Makes the node wait for another, which gives it nothing.
    pub(super) fn after(mut self, node: usize) -> Self {
        if let Some(node) = self.graph.nodes.get(node) {
            self.node.input.push(format!("^{}", node.name));
        }
        self
    }

    pub(super) fn attr(mut self, name: &str, value: Attr) -> Self {
        self.node.attr.insert(name.to_owned(), value);
        self
    }

    /// Sets an attribute to the type of the tensors.
    pub(super) fn dtype<T: Element>(self, name: &str) -> Self {
        self.attr(name, attr::dtype(T::DTYPE))
    }

    /// Adds the node, named after what it does; gives its first output.
    pub(super) fn add<T>(self) -> Output<T> {
        Output::new(self.add_node(), 0)
    }

    /// As [`Making::add`], for nodes of which the outputs do not count.
    pub(super) fn add_node(mut self) -> usize {
        self.node.name = self.graph.unique(&self.node.op);
        self.graph.push(self.node)
    }

    /// As [`Making::add_node`], with a name in the scope instead of the one after what it does.
    pub(super) fn add_as(mut self, name: &str) -> usize {
        self.node.name = self.graph.unique(name);
        self.graph.push(self.node)
    }

    /// Adds the node under exactly this name, whatever the scope.
    pub(super) fn add_named(mut self, name: &str) -> usize {
        self.node.name = self.graph.claim(name);
        self.graph.push(self.node)
    }
}

/// Whether TensorFlow takes this for a node's name.
fn is_name(name: &str) -> bool {
    let first = |c: char| c.is_ascii_alphanumeric() || c == '.';
    let rest = |c: char| c.is_ascii_alphanumeric() || "_.\\-/".contains(c);
    name.starts_with(first) && name.chars().all(rest)
}

fn bad_name(name: &str) -> Error {
    let name: String = name.chars().take(60).collect();
    Error::new(Code::BadSetting, format!("{name:?} is not a name for a node"))
        .because("TensorFlow allows letters, digits and ._-/ and a letter, a digit or a point at the start")
        .help("rename it")
}
