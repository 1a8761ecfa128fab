//! TensorFlow 2's object graph: which object of a program has which tensor of a checkpoint, by the names of attributes.
//!
//! It is the string tensor [`OBJECT_GRAPH_KEY`] of a [bundle](crate::bundle). [`ObjectGraph`] is the graph itself;
//! [`KerasWeights`] writes the one that Keras makes of a Sequential or functional model, so that `model.load_weights`
//! takes it, and [`read_keras_weights`] finds the weights in what `model.save_weights` or `tf.train.Checkpoint` wrote.
//!
//! ```
//! use phalanx_base::Shape;
//! use phalanx_formats::bundle::BundleReader;
//! use phalanx_formats::object_graph::{KerasLayer, KerasWeights, read_keras_weights};
//! # fn main() -> phalanx_base::Result<()> {
//! let layers = vec![
//!     KerasLayer::new("flatten"),
//!     KerasLayer::new("dense").weight("kernel", &Shape::new([2, 1])?, &[0.5, -0.5]).weight("bias", &Shape::new([1])?, &[0.1]),
//! ];
//! let (data, index) = KerasWeights::new(layers).write(Vec::new())?;
//!
//! let weights = read_keras_weights(&BundleReader::new(index, vec![data])?)?;
//! assert_eq!((weights[1].layer, &*weights[1].attribute, &*weights[1].name), (1, "bias", "dense/bias"));
//! assert_eq!(weights[1].tensor.f32s()?, [0.1]);
//! # Ok(())
//! # }
//! ```

mod decode;
mod encode;
mod keras_reader;
mod keras_writer;
mod node;

#[cfg(test)]
mod tests;

pub use keras_reader::{KerasWeight, read_keras_weights};
pub use keras_writer::{KerasLayer, KerasWeights};
pub use node::{Attribute, Child, ObjectGraph, ObjectNode, Saver, SlotVariable};
use phalanx_base::{Code, Error};

/// The name of the tensor that has the object graph.
pub const OBJECT_GRAPH_KEY: &str = "_CHECKPOINTABLE_OBJECT_GRAPH";
/// The name of the attribute of a variable that is its value.
pub const VARIABLE_VALUE: &str = "VARIABLE_VALUE";

/// The key of an object's attribute in a checkpoint, as TensorFlow makes it of the path to the object.
///
/// ```
/// use phalanx_formats::object_graph::attribute_key;
/// assert_eq!(attribute_key(&["model", "a/b"], "VARIABLE_VALUE"), "model/a.Sb/.ATTRIBUTES/VARIABLE_VALUE");
/// ```
#[must_use]
pub fn attribute_key(path: &[&str], attribute: &str) -> String {
    // A dot that is TensorFlow's own has no second dot before it.
    let parts: Vec<String> = path.iter().map(|name| name.replace('.', "..").replace('/', ".S")).collect();
    format!("{}/.ATTRIBUTES/{attribute}", parts.join("/"))
}

/// An error about bytes that are no object graph.
fn malformed(why: impl std::fmt::Display) -> Error {
    Error::new(Code::DataFormat, "the checkpoint's object graph is damaged")
        .because(why)
        .help("its writing was cut short or something changed it; restore another checkpoint")
}
