//! Finds the weights of a Keras model in a checkpoint.

use super::{ObjectGraph, VARIABLE_VALUE, malformed};
use crate::bundle::{BundleReader, DataSource, Tensor};
use phalanx_base::{Code, Error, Result};
use std::collections::{BTreeMap, BTreeSet};

/// The names on the way from a layer to a weight have no more bytes than this.
const MAX_PATH: usize = 1024;

/// One weight of a Keras model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KerasWeight {
    /// The layer's place in `model.layers`.
    pub layer: usize,
    /// The name of the layer's attribute, as `kernel`; with the names on the way where it is inside of a part of the
    /// layer, as `cell/kernel`.
    pub attribute: String,
    /// The variable's own name, as `dense_1/kernel`.
    pub name: String,
    /// Its shape, type and values. All but a few counters and seeds are `float32`.
    pub tensor: Tensor,
}

/// The weights of the Sequential or functional model of a checkpoint: layer after layer as in `model.layers`, and in a
/// layer as Keras made them. `model.save_weights(prefix)` and `tf.train.Checkpoint(model=model)` make such checkpoints.
///
/// # Errors
/// When the checkpoint has no object graph, no such model or more than one, or is damaged.
pub fn read_keras_weights<S: DataSource>(checkpoint: &BundleReader<S>) -> Result<Vec<KerasWeight>> {
    let graph = ObjectGraph::read(checkpoint)?;
    let model = find_model(&graph)?;
    let mut walk = Walk { graph: &graph, seen: vec![false; graph.nodes().len()] };
    // The model is an attribute of itself: nothing below a layer may lead back to it.
    walk.seen[model] = true;
    let layers = layers(&graph, model);
    for &node in layers.values() {
        walk.seen[node] = true;
    }
    let (mut weights, mut keys) = (Vec::new(), BTreeSet::new());
    for (&layer, &node) in &layers {
        for Found { path, name, key } in walk.below(node)? {
            // Else a small file could ask for one large tensor many times.
            if !keys.insert(key) {
                let key: String = key.chars().take(100).collect();
                return Err(malformed(format!("two variables have the tensor {key:?}")));
            }
            let tensor = checkpoint.read(key)?;
            weights.push(KerasWeight { layer, attribute: path, name: name.to_owned(), tensor });
        }
    }
    Ok(weights)
}

/// The one object that has layers: what was saved, or an attribute of it.
fn find_model(graph: &ObjectGraph) -> Result<usize> {
    if is_model(graph, 0) {
        return Ok(0);
    }
    let children = graph.nodes().first().map_or(&[][..], |root| &root.children);
    let mut models: Vec<_> = children.iter().filter(|child| is_model(graph, child.node)).collect();
    // One model under two names is one model.
    models.sort_by_key(|child| child.node);
    models.dedup_by_key(|child| child.node);
    match models[..] {
        [child] => Ok(child.node),
        [] => Err(Error::new(Code::CheckpointMismatch, "the checkpoint has no Keras model with layers")
            .because("neither what was saved nor an attribute of it has layer-0")
            .help("save a Sequential or functional model with model.save_weights or tf.train.Checkpoint(model=model)")),
        _ => {
            let names: Vec<&str> = models.iter().map(|child| &*child.name).collect();
            Err(Error::new(Code::CheckpointMismatch, "the checkpoint has more than one Keras model")
                .because(names.join(", "))
                .help("save each with its own model.save_weights"))
        }
    }
}

fn is_model(graph: &ObjectGraph, node: usize) -> bool {
    graph.child(node, "layer-0").is_some()
}

/// The objects `layer-0`, `layer-1` and so on by their numbers.
fn layers(graph: &ObjectGraph, model: usize) -> BTreeMap<usize, usize> {
    let children = graph.nodes().get(model).map_or(&[][..], |node| &node.children);
    let numbered = children.iter().filter_map(|child| {
        let number = child.name.strip_prefix("layer-")?.parse().ok()?;
        Some((number, child.node))
    });
    numbered.collect()
}

/// A walk over all that layers have.
struct Walk<'a> {
    graph: &'a ObjectGraph,
    /// Objects come once: a graph may have circles.
    seen: Vec<bool>,
}

/// An object on the way.
struct Step<'a> {
    node: usize,
    /// The step before, and the name that led from there; `None` for the layer itself.
    from: Option<(usize, &'a str)>,
    /// The bytes of all names up to here.
    length: usize,
}

/// A variable: its path in the layer, its name, and its key in the checkpoint.
struct Found<'a> {
    path: String,
    name: &'a str,
    key: &'a str,
}

impl<'a> Walk<'a> {
    /// All variables below a layer, nearest first, as TensorFlow itself orders them. Without recursion, because a graph
    /// may be as deep as it is large.
    fn below(&mut self, layer: usize) -> Result<Vec<Found<'a>>> {
        let graph = self.graph;
        let mut steps = vec![Step { node: layer, from: None, length: 0 }];
        let (mut at, mut found) = (0, Vec::new());
        while let Some(&Step { node, length, .. }) = steps.get(at) {
            let Some(object) = graph.nodes().get(node) else { break };
            for attribute in object.attributes.iter().filter(|attribute| attribute.name == VARIABLE_VALUE) {
                found.push(Found { path: path(&steps, at), name: &attribute.full_name, key: &attribute.key });
            }
            for child in &object.children {
                let length = length + child.name.len() + 1;
                if length > MAX_PATH {
                    return Err(malformed(format!("the names below a layer have more than {MAX_PATH} bytes")));
                }
                if !std::mem::replace(&mut self.seen[child.node], true) {
                    steps.push(Step { node: child.node, from: Some((at, &child.name)), length });
                }
            }
            at += 1;
        }
        Ok(found)
    }
}

/// The names from the layer to a step.
fn path(steps: &[Step<'_>], mut at: usize) -> String {
    let mut names = Vec::new();
    while let Some((before, name)) = steps[at].from {
        names.push(name);
        at = before;
    }
    names.reverse();
    names.join("/")
}
