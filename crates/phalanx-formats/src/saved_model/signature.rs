//! Signatures: what a model can be asked, and by which names.

use super::proto::{self, TensorInfo, attr::Value};
use super::{AnyOutput, Dims, GraphBuilder, attr};
use crate::bundle::Dtype;
use phalanx_base::{Code, Error, Result};
use std::collections::BTreeMap;

/// The name of the signature that is used when none is asked for.
pub const DEFAULT_SIGNATURE: &str = "serving_default";

/// One question that a model answers.
///
/// ```
/// use phalanx_formats::saved_model::{GraphBuilder, Signature};
/// # let mut graph = GraphBuilder::new();
/// let x = graph.placeholder::<f32>("x", &[None, Some(4)]);
/// let y = graph.relu(x);
/// let signature = Signature::predict().input("x", x).output_of("y", y, &[None, Some(4)]);
/// # let _ = signature;
/// ```
#[derive(Clone, Debug)]
pub struct Signature {
    method: Method,
    inputs: BTreeMap<String, Port>,
    outputs: BTreeMap<String, Port>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Predict,
    Classify,
    Regress,
}

#[derive(Clone, Debug)]
struct Port {
    output: AnyOutput,
    /// `None`: nobody said.
    dims: Option<Vec<Option<usize>>>,
}

impl Signature {
    /// Any tensors in, any tensors out.
    #[must_use]
    pub fn predict() -> Self {
        Self::new(Method::Predict)
    }

    /// Serialized Examples `inputs` in; `classes`, which are strings, and `scores` out, or one of them.
    #[must_use]
    pub fn classify() -> Self {
        Self::new(Method::Classify)
    }

    /// Serialized Examples `inputs` in; numbers `outputs` out.
    #[must_use]
    pub fn regress() -> Self {
        Self::new(Method::Regress)
    }

    fn new(method: Method) -> Self {
        Self { method, inputs: BTreeMap::new(), outputs: BTreeMap::new() }
    }

    /// Adds an input. Its shape is the placeholder's.
    #[must_use]
    pub fn input(mut self, name: &str, placeholder: impl Into<AnyOutput>) -> Self {
        self.inputs.insert(name.to_owned(), Port { output: placeholder.into(), dims: None });
        self
    }

    /// Adds an output of a shape that is not said.
    #[must_use]
    pub fn output(mut self, name: &str, output: impl Into<AnyOutput>) -> Self {
        self.outputs.insert(name.to_owned(), Port { output: output.into(), dims: None });
        self
    }

    /// Adds an output of this shape, which the model's users are told.
    #[must_use]
    pub fn output_of(mut self, name: &str, output: impl Into<AnyOutput>, dims: Dims<'_>) -> Self {
        self.outputs.insert(name.to_owned(), Port { output: output.into(), dims: Some(dims.to_vec()) });
        self
    }

    /// The message, after a look at what servers of TensorFlow want of the method.
    pub(super) fn to_proto(&self, graph: &GraphBuilder) -> Result<proto::Signature> {
        let refuse = |why: &str| {
            Error::new(Code::BadSetting, format!("a signature cannot have the method {}", self.method.name()))
                .because(why)
                .help("correct its inputs and outputs, or make it Signature::predict()")
        };
        if self.inputs.is_empty() || self.outputs.is_empty() {
            return Err(refuse("it has no inputs or no outputs"));
        }
        let serialized = matches!(self.inputs.get("inputs"), Some(port) if port.output.dtype == Dtype::String);
        let output = |name: &str| self.outputs.get(name).map(|port| port.output.dtype);
        let only = |names: &[&str]| self.outputs.keys().all(|name| names.contains(&&**name));
        match self.method {
            Method::Predict => {}
            _ if !serialized || self.inputs.len() != 1 => {
                return Err(refuse("its one input must be called inputs and be of strings"));
            }
            Method::Classify if !only(&["classes", "scores"]) => {
                return Err(refuse("its outputs must be called classes and scores"));
            }
            Method::Classify if output("classes").is_some_and(|dtype| dtype != Dtype::String) => {
                return Err(refuse("its output classes must be of strings"));
            }
            Method::Classify if output("scores").is_some_and(|dtype| dtype != Dtype::F32) => {
                return Err(refuse("its output scores must be of float32"));
            }
            Method::Regress if !only(&["outputs"]) || output("outputs") != Some(Dtype::F32) => {
                return Err(refuse("its one output must be called outputs and be of float32"));
            }
            _ => {}
        }
        Ok(proto::Signature {
            inputs: infos(&self.inputs, graph)?,
            outputs: infos(&self.outputs, graph)?,
            method_name: self.method.name().to_owned(),
        })
    }
}

impl Method {
    fn name(self) -> &'static str {
        match self {
            Self::Predict => "tensorflow/serving/predict",
            Self::Classify => "tensorflow/serving/classify",
            Self::Regress => "tensorflow/serving/regress",
        }
    }
}

fn infos(ports: &BTreeMap<String, Port>, graph: &GraphBuilder) -> Result<BTreeMap<String, TensorInfo>> {
    ports.iter().map(|(name, port)| Ok((name.clone(), info(port, graph)?))).collect()
}

fn info(port: &Port, graph: &GraphBuilder) -> Result<TensorInfo> {
    let AnyOutput { at, dtype } = port.output;
    let name = graph.tensor_name(at).ok_or_else(|| {
        Error::new(Code::BadSetting, "a signature has a tensor of another graph")
            .help("use a handle only with the GraphBuilder that gave it")
    })?;
    let placeholder = graph.nodes.get(at.node).filter(|node| node.op == "Placeholder");
    let given = placeholder.and_then(|node| match node.attr.get("shape")?.value.as_ref()? {
        Value::Shape(shape) => Some(shape.clone()),
        _ => None,
    });
    // No shape at all would be taken for that of a scalar.
    let shape = port.dims.as_deref().map(attr::dims).or(given).unwrap_or_else(attr::unknown);
    Ok(TensorInfo { name, dtype: dtype.number(), tensor_shape: Some(shape) })
}
