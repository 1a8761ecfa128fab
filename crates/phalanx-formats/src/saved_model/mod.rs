//! SavedModels: a graph of TensorFlow's ops with its variables, as TensorFlow itself and its servers load it.
//!
//! A [`GraphBuilder`] makes the graph, [`Signature`]s say what can be asked of it, and a [`SavedModelWriter`] writes
//! the folder. The model has the form of TensorFlow 1: `tf.saved_model.load(folder).signatures["serving_default"]`,
//! `tf.compat.v1.saved_model.load` and TensorFlow Serving all take it.
//!
//! ```
//! use std::collections::BTreeMap;
//! use phalanx_base::Shape;
//! use phalanx_formats::saved_model::{DEFAULT_SIGNATURE, GraphBuilder, SavedModel, SavedModelWriter, Signature};
//! # fn main() -> phalanx_base::Result<()> {
//! let mut graph = GraphBuilder::new();
//! let x = graph.placeholder::<f32>("x", &[None, Some(2)]);
//! let kernel = graph.variable("dense/kernel", &Shape::new([2, 1])?);
//! let bias = graph.variable("dense/bias", &Shape::new([1])?);
//! let y = graph.dense(x, kernel, Some(bias));
//! let signature = Signature::predict().input("x", x).output_of("y", y, &[None, Some(1)]);
//! let model = SavedModel::new(graph).signature(DEFAULT_SIGNATURE, signature);
//!
//! let folder = SavedModelWriter::new(BTreeMap::new()).write(model, |variable| {
//!     Ok(vec![0.5; variable.shape.elements()].into())
//! })?;
//! let files: Vec<&str> = folder.keys().map(String::as_str).collect();
//! assert_eq!(files, ["saved_model.pb", "variables/variables.data-00000-of-00001", "variables/variables.index"]);
//! # Ok(())
//! # }
//! ```

mod attr;
mod bag;
mod constant;
mod directory;
mod element;
mod graph;
mod inspect;
mod layout;
mod logic;
mod math;
mod model;
mod nn;
mod output;
mod parse;
mod saver;
mod signature;
mod sparse;
mod strings;
mod table;
mod variable;
mod writer;

#[cfg(test)]
mod tests;

/// The messages as prost sees them.
#[allow(missing_docs, unreachable_pub, clippy::all)]
mod proto {
    include!(concat!(env!("OUT_DIR"), "/phalanx.saved_model.rs"));
}

pub use attr::Dims;
pub use directory::Directory;
pub use element::{Element, Index, Number, Text};
pub use graph::GraphBuilder;
pub use inspect::graph_variables;
pub use model::SavedModel;
pub use nn::{Normalization, Padding};
pub use output::{AnyOutput, Output};
pub use parse::{DenseFeature, ExampleFeatures, Parsed, SparseFeature};
pub use signature::{DEFAULT_SIGNATURE, Signature};
pub use sparse::{CROSS_HASH_KEY, Combiner, Crossed, Sparse};
pub use table::Table;
pub use variable::VariableSpec;
pub use writer::{SavedModelWriter, VariableValues};
