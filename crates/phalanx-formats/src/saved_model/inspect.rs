//! Reads the variables of a graph on disk.

use super::proto;
use super::proto::attr::Value;
use super::variable::VariableSpec;
use crate::bundle::Dtype;
use phalanx_base::{Code, Error, Result, Shape};
use prost::Message;

/// The variables that the graph of a `saved_model.pb` restores, in its order: their names in the checkpoint, types and
/// shapes.
///
/// ```
/// use std::collections::BTreeMap;
/// use phalanx_base::Shape;
/// use phalanx_formats::saved_model::{GraphBuilder, SavedModel, SavedModelWriter, Signature, graph_variables};
/// let mut graph = GraphBuilder::new();
/// let x = graph.placeholder::<f32>("x", &[None, Some(3)]);
/// let bias = graph.variable("dense/bias", &Shape::new([3])?);
/// let y = graph.bias_add(x, bias);
/// let signature = Signature::predict().input("x", x).output_of("y", y, &[None, Some(3)]);
/// let model = SavedModel::new(graph).signature("predict", signature);
/// let files = SavedModelWriter::new(BTreeMap::new()).write(model, |_| Ok(vec![0.5_f32; 3].into()))?;
/// let found = graph_variables(&files["saved_model.pb"])?;
/// assert_eq!((found[0].name.as_str(), found[0].shape.dims()), ("dense/bias", &[3][..]));
/// # Ok::<(), phalanx_base::Error>(())
/// ```
///
/// # Errors
/// When the bytes are no SavedModel, or a variable of it has no name, type or shape.
pub fn graph_variables(bytes: &[u8]) -> Result<Vec<VariableSpec>> {
    let wrong = |why: String| Error::new(Code::DataFormat, "this is no SavedModel that can be read").because(why);
    let model = proto::SavedModel::decode(bytes).map_err(|error| wrong(error.to_string()))?;
    let graph = model.meta_graphs.into_iter().next().and_then(|meta| meta.graph_def);
    let graph = graph.ok_or_else(|| wrong("it has no graph".to_owned()))?;
    let handles = graph.node.into_iter().filter(|node| node.op == "VarHandleOp");
    handles
        .map(|node| variable(&node).ok_or_else(|| wrong(format!("the variable {:?} is not whole", node.name))))
        .collect()
}

fn variable(node: &proto::Node) -> Option<VariableSpec> {
    let value = |name: &str| node.attr.get(name).and_then(|attr| attr.value.as_ref());
    let Some(Value::S(name)) = value("shared_name") else { return None };
    let Some(Value::Type(dtype)) = value("dtype") else { return None };
    let Some(Value::Shape(shape)) = value("shape") else { return None };
    let dims = shape.dim.iter().map(|dim| usize::try_from(dim.size).ok()).collect::<Option<Vec<usize>>>()?;
    let name = String::from_utf8(name.clone()).ok()?;
    Some(VariableSpec { name, dtype: Dtype::from_number(*dtype)?, shape: Shape::new(dims).ok()? })
}
