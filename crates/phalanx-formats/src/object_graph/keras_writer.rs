//! Writes weights so that Keras loads them.

use super::{Attribute, Child, OBJECT_GRAPH_KEY, ObjectGraph, ObjectNode, VARIABLE_VALUE, attribute_key};
use crate::bundle::{BundleIndex, BundleWriter};
use phalanx_base::{Code, Error, Result, Shape};
use std::collections::BTreeMap;
use std::io::Write;

/// One layer of a Keras model with its weights.
#[derive(Clone, Debug)]
pub struct KerasLayer<'a> {
    name: String,
    weights: Vec<Weight<'a>>,
}

#[derive(Clone, Debug)]
struct Weight<'a> {
    /// The names of the attributes from the layer to the variable.
    attribute: String,
    shape: Shape,
    values: &'a [f32],
}

/// The weights of a Sequential or functional model as a checkpoint that `model.load_weights(prefix)` takes.
///
/// Keras finds layers by their place in `model.layers`, so all of them must be given, in that order: those without
/// weights too, and the input layers of a functional model (`Sequential` hides its own).
///
/// An example is at the [module](super).
#[derive(Clone, Debug)]
pub struct KerasWeights<'a> {
    layers: Vec<KerasLayer<'a>>,
    under: Option<String>,
    save_counter: Option<i64>,
}

impl<'a> KerasLayer<'a> {
    /// A layer without weights.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), weights: Vec::new() }
    }

    /// Adds a weight by the name of Keras' attribute: `kernel`, `bias`, `embeddings`, `gamma`, `beta`, `moving_mean`,
    /// `moving_variance`. One inside of a part of the layer has the names on the way, as `cell/recurrent_kernel`.
    #[must_use]
    pub fn weight(mut self, attribute: impl Into<String>, shape: &Shape, values: &'a [f32]) -> Self {
        self.weights.push(Weight { attribute: attribute.into(), shape: shape.clone(), values });
        self
    }
}

impl<'a> KerasWeights<'a> {
    /// The weights of a model of these layers, as `model.save_weights` saves them.
    #[must_use]
    pub fn new(layers: impl Into<Vec<KerasLayer<'a>>>) -> Self {
        Self { layers: layers.into(), under: None, save_counter: None }
    }

    /// Saves the model as an attribute of something else: `under("model")` is what
    /// `tf.train.Checkpoint(model=model)` saves and restores.
    #[must_use]
    pub fn under(mut self, attribute: impl Into<String>) -> Self {
        self.under = Some(attribute.into());
        self
    }

    /// Adds the variable `save_counter`, in which `tf.train.Checkpoint.save` counts; `model.save_weights` has none.
    #[must_use]
    pub fn save_counter(mut self, count: i64) -> Self {
        self.save_counter = Some(count);
        self
    }

    /// Writes the data file; gives it back with the index that belongs to it.
    ///
    /// # Errors
    /// When a layer has a weight twice, a weight has not as many values as its shape wants, or writing fails.
    pub fn write<W: Write>(&self, data: W) -> Result<(W, BundleIndex)> {
        let mut bundle = BundleWriter::new(data);
        let mut tree = Tree::new();
        let (prefix, model) = match &self.under {
            Some(name) => (vec![&**name], tree.add(0, name)?),
            None => (Vec::new(), 0),
        };
        let mut weighted = 0;
        for (place, layer) in self.layers.iter().enumerate() {
            if layer.weights.is_empty() {
                tree.add(model, &format!("layer-{place}"))?;
                continue;
            }
            let name = format!("layer_with_weights-{weighted}");
            weighted += 1;
            let node = tree.add(model, &name)?;
            tree.nodes[model].children.push(Child { name: format!("layer-{place}"), node });
            for weight in &layer.weights {
                let parts: Vec<&str> = weight.attribute.split('/').collect();
                let path = [&prefix[..], &[&*name], &parts].concat();
                let key = attribute_key(&path, VARIABLE_VALUE);
                let full_name = format!("{}/{}", layer.name, weight.attribute);
                tree.variable(node, &parts, &full_name, &key)?;
                bundle.add_f32s(&key, &weight.shape, weight.values)?;
            }
        }
        if self.under.is_none() {
            // Keras' own checkpoint of a model has the model as its attribute `root` too.
            tree.nodes[0].children.push(Child { name: "root".to_owned(), node: 0 });
        }
        if let Some(count) = self.save_counter {
            let key = attribute_key(&["save_counter"], VARIABLE_VALUE);
            tree.variable(0, &["save_counter"], "save_counter", &key)?;
            bundle.add_i64s(&key, &Shape::new([])?, &[count])?;
        }
        bundle.add_strings(OBJECT_GRAPH_KEY, &Shape::new([])?, [tree.finish()?.encode()])?;
        bundle.finish()
    }
}

/// Objects while they are made.
struct Tree {
    nodes: Vec<ObjectNode>,
    /// Of each object the one that has it.
    parents: Vec<usize>,
    /// The objects by the one that has them and their name.
    found: BTreeMap<(usize, String), usize>,
}

impl Tree {
    fn new() -> Self {
        Self { nodes: vec![ObjectNode::default()], parents: vec![0], found: BTreeMap::new() }
    }

    /// A new object under this name.
    fn add(&mut self, parent: usize, name: &str) -> Result<usize> {
        if name.is_empty() {
            return Err(Error::new(Code::BadSetting, "an attribute of a Keras layer has no name")
                .help("give the name of Keras' attribute, as kernel or bias"));
        }
        let node = self.nodes.len();
        if self.found.insert((parent, name.to_owned()), node).is_some() {
            return Err(Error::new(Code::VariableConflict, format!("{name:?} comes twice")));
        }
        self.nodes.push(ObjectNode::default());
        self.parents.push(parent);
        self.nodes[parent].children.push(Child { name: name.to_owned(), node });
        Ok(node)
    }

    /// A variable at the end of a path; makes the objects on the way.
    fn variable(&mut self, mut node: usize, path: &[&str], full_name: &str, key: &str) -> Result<()> {
        let Some((last, way)) = path.split_last() else { return Ok(()) };
        let at = |error: Error| error.at(format!("weight {full_name:?}"));
        for name in way {
            let known = self.found.get(&(node, (*name).to_owned())).copied();
            node = known.map_or_else(|| self.add(node, name), Ok).map_err(at)?;
        }
        let node = self.add(node, last).map_err(at)?;
        self.nodes[node].attributes.push(Attribute::variable(full_name, key));
        Ok(())
    }

    /// The graph, every object with the word whether there is a value in it.
    fn finish(mut self) -> Result<ObjectGraph> {
        let mut has = vec![false; self.nodes.len()];
        // An object is made after the one that has it.
        for node in (0..self.nodes.len()).rev() {
            has[node] |= !self.nodes[node].attributes.is_empty();
            self.nodes[node].has_values = Some(has[node]);
            let parent = self.parents[node];
            has[parent] |= has[node];
        }
        ObjectGraph::new(self.nodes)
    }
}
