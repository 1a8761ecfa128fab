//! The order of computation of a graph, and Keras' order of its layers.

use super::graph::{Node, Symbol};
use std::collections::HashMap;
use std::sync::Arc;

/// The nodes that outputs depend on, and their layers.
pub(crate) struct Topology {
    /// All nodes in topological order.
    pub(crate) nodes: Vec<Arc<Node>>,
    /// The number of each node's layer.
    pub(crate) layer_of: Vec<usize>,
    /// The distance of each node from the outputs, in layers.
    pub(crate) depths: Vec<usize>,
    /// The layers' numbers in Keras' order: by decreasing distance from the outputs, then in order of discovery.
    pub(crate) order: Vec<usize>,
    places: HashMap<*const Node, usize>,
}

impl Topology {
    /// Traverses the graph from the outputs. Unused inputs come last and have depth 0.
    pub(crate) fn of(inputs: &[&Symbol], outputs: &[&Symbol]) -> Self {
        let mut walk = Walk::default();
        for output in outputs {
            walk.go(&output.0);
        }
        for input in inputs.iter().filter(|input| !walk.places.contains_key(&Arc::as_ptr(&input.0))).collect::<Vec<_>>()
        {
            walk.go(&input.0);
        }
        let Walk { nodes, places, met } = walk;
        // Layers are numbered by their first node, which is the order of names.
        let mut firsts: Vec<usize> = Vec::new();
        let layer_of: Vec<usize> = (0..nodes.len())
            .map(|at| {
                firsts.iter().position(|&first| nodes[first].same_layer(&nodes[at])).unwrap_or_else(|| {
                    firsts.push(at);
                    firsts.len() - 1
                })
            })
            .collect();
        let (mut depths, mut layer_depths) = (vec![0; nodes.len()], vec![0; firsts.len()]);
        for at in (0..nodes.len()).rev() {
            let depth = depths[at].max(layer_depths[layer_of[at]]);
            (depths[at], layer_depths[layer_of[at]]) = (depth, depth);
            for input in &nodes[at].inputs {
                let before = places[&Arc::as_ptr(&input.0)];
                depths[before] = depths[before].max(depth + 1);
            }
        }
        let mut met_at = vec![usize::MAX; firsts.len()];
        for (at, &layer) in layer_of.iter().enumerate() {
            met_at[layer] = met_at[layer].min(met[&Arc::as_ptr(&nodes[at])]);
        }
        let mut order: Vec<usize> = (0..firsts.len()).collect();
        order.sort_by_key(|&layer| (usize::MAX - layer_depths[layer], met_at[layer]));
        Self { nodes, layer_of, depths, order, places }
    }

    /// One node of each layer, by the layers' numbers.
    pub(crate) fn layers(&self) -> Vec<&Arc<Node>> {
        let mut layers = Vec::new();
        for (at, &layer) in self.layer_of.iter().enumerate() {
            if layer == layers.len() {
                layers.push(&self.nodes[at]);
            }
        }
        layers
    }

    /// The index of a symbol's node.
    pub(crate) fn place(&self, symbol: &Symbol) -> usize {
        self.places[&Arc::as_ptr(&symbol.0)]
    }

    /// Whether the graph is a chain without shared layers, which a summary shows without connections.
    pub(crate) fn is_chain(&self) -> bool {
        let mut depths = self.depths.clone();
        depths.sort_unstable();
        depths.windows(2).all(|pair| pair[0] != pair[1])
            && self.nodes.iter().all(|node| node.inputs.len() <= 1)
            && self.layers().len() == self.nodes.len()
    }
}

#[derive(Default)]
struct Walk {
    nodes: Vec<Arc<Node>>,
    places: HashMap<*const Node, usize>,
    met: HashMap<*const Node, usize>,
}

impl Walk {
    fn go(&mut self, node: &Arc<Node>) {
        // An explicit stack, because recursion would overflow on a long chain.
        let mut open = vec![(Arc::clone(node), 0)];
        while let Some((node, next)) = open.last_mut() {
            let key = Arc::as_ptr(node);
            if self.places.contains_key(&key) {
                open.pop();
                continue;
            }
            let met = self.met.len();
            self.met.entry(key).or_insert(met);
            if let Some(input) = node.inputs.get(*next) {
                *next += 1;
                let input = Arc::clone(&input.0);
                open.push((input, 0));
            } else {
                self.places.insert(key, self.nodes.len());
                let done = Arc::clone(node);
                self.nodes.push(done);
                open.pop();
            }
        }
    }
}
