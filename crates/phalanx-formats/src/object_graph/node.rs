//! The object graph's own words.

use super::{OBJECT_GRAPH_KEY, malformed};
use crate::bundle::{BundleReader, DataSource, Dtype};
use phalanx_base::{Code, Error, Result};

/// Objects that refer to each other by name; the first is the one that was saved.
///
/// ```
/// use phalanx_formats::object_graph::{Attribute, Child, ObjectGraph, ObjectNode};
/// let step = Attribute::variable("step", "step/.ATTRIBUTES/VARIABLE_VALUE");
/// let root = ObjectNode { children: vec![Child { name: "step".into(), node: 1 }], ..ObjectNode::default() };
/// let graph = ObjectGraph::new(vec![root, ObjectNode { attributes: vec![step], ..ObjectNode::default() }])?;
/// let read = ObjectGraph::decode(&graph.encode())?;
/// assert_eq!(read.child(0, "step"), Some(1));
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectGraph {
    nodes: Vec<ObjectNode>,
}

/// One object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectNode {
    /// The objects that it has, by the name of the attribute that holds them.
    pub children: Vec<Child>,
    /// The tensors that it has.
    pub attributes: Vec<Attribute>,
    /// The optimizer's slot variables; only TensorFlow 1 and `legacy` optimizers list them here.
    pub slots: Vec<SlotVariable>,
    /// The saver registered for the object, if any.
    pub saver: Option<Saver>,
    /// Whether it or anything below it has a tensor; missing in older checkpoints.
    pub has_values: Option<bool>,
}

/// An object that another has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// The name of the attribute.
    pub name: String,
    /// Which object.
    pub node: usize,
}

/// A tensor that an object has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// What it is of the object: `VARIABLE_VALUE` for the value of a variable.
    pub name: String,
    /// The variable's own name, as `dense/kernel`; may be empty.
    pub full_name: String,
    /// The tensor's name in the checkpoint.
    pub key: String,
}

/// An optimizer's state for a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotVariable {
    /// The slot's name, as `m`.
    pub name: String,
    /// The object that is the variable.
    pub variable: usize,
    /// The object that is the state.
    pub slot: usize,
}

/// A saver that a program registered for its objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saver {
    /// The saver's name.
    pub name: String,
    /// The object's name for it.
    pub object: String,
}

impl Attribute {
    /// The value of the variable `full_name`, stored as `key`.
    #[must_use]
    pub fn variable(full_name: impl Into<String>, key: impl Into<String>) -> Self {
        Self { name: super::VARIABLE_VALUE.to_owned(), full_name: full_name.into(), key: key.into() }
    }
}

impl ObjectGraph {
    /// A graph of these objects.
    ///
    /// # Errors
    /// When there is none, or one refers to an object that is not among them.
    pub fn new(nodes: Vec<ObjectNode>) -> Result<Self> {
        if nodes.is_empty() {
            return Err(malformed("it has no object"));
        }
        for (id, node) in nodes.iter().enumerate() {
            let children = node.children.iter().map(|child| child.node);
            let slots = node.slots.iter().flat_map(|slot| [slot.variable, slot.slot]);
            if let Some(missing) = children.chain(slots).find(|&other| other >= nodes.len()) {
                let why = format!("object {id} refers to object {missing} of {}", nodes.len());
                return Err(malformed(why));
            }
        }
        Ok(Self { nodes })
    }

    /// The graph of a checkpoint.
    ///
    /// # Errors
    /// When the checkpoint has none, or a damaged one.
    pub fn read<S: DataSource>(checkpoint: &BundleReader<S>) -> Result<Self> {
        if !checkpoint.index().tensors().contains_key(OBJECT_GRAPH_KEY) {
            return Err(Error::new(Code::CheckpointMismatch, "the checkpoint has no object graph")
                .because(format!("there is no tensor {OBJECT_GRAPH_KEY:?}"))
                .help("it was saved by name, as Estimator and tf.compat.v1.train.Saver do; read its tensors by name"));
        }
        let tensor = checkpoint.read(OBJECT_GRAPH_KEY)?;
        match tensor.strings().ok().filter(|strings| strings.len() == 1).and_then(|strings| strings.iter().next()) {
            Some(bytes) => Self::decode(bytes),
            None => {
                Err(malformed(format!("{OBJECT_GRAPH_KEY:?} is not one string but {} {}", Dtype::String, tensor.shape)))
            }
        }
    }

    /// All objects.
    #[must_use]
    pub fn nodes(&self) -> &[ObjectNode] {
        &self.nodes
    }

    /// The object that `node` has under this name.
    #[must_use]
    pub fn child(&self, node: usize, name: &str) -> Option<usize> {
        let children = &self.nodes.get(node)?.children;
        children.iter().find(|child| child.name == name).map(|child| child.node)
    }
}
