//! Tensors of a graph whose type is known only when the program runs.

use phalanx_base::{Code, Error, Result};
use phalanx_data::DType;
use phalanx_formats::saved_model::{AnyOutput, GraphBuilder, Output, Text};

/// A tensor of a graph: numbers, integers or texts.
#[derive(Clone, Copy, Debug)]
pub enum GraphTensor {
    /// Numbers.
    F32(Output<f32>),
    /// Integers, such as ids.
    I64(Output<i64>),
    /// Texts.
    Text(Output<Text>),
}

impl GraphTensor {
    /// Adds a placeholder for values of this type.
    pub fn placeholder(graph: &mut GraphBuilder, name: &str, dtype: DType, dims: &[Option<usize>]) -> Self {
        match dtype {
            DType::Bytes => Self::Text(graph.placeholder(name, dims)),
            DType::I64 | DType::U8 => Self::I64(graph.placeholder(name, dims)),
            DType::F32 => Self::F32(graph.placeholder(name, dims)),
        }
    }

    /// Returns the numbers.
    ///
    /// # Errors
    /// If it has texts.
    pub fn floats(self, graph: &mut GraphBuilder) -> Result<Output<f32>> {
        match self {
            Self::F32(numbers) => Ok(numbers),
            Self::I64(integers) => Ok(graph.cast(integers)),
            Self::Text(_) => Err(other("numbers", "texts")),
        }
    }

    /// Returns the integers.
    ///
    /// # Errors
    /// If it has texts.
    pub fn integers(self, graph: &mut GraphBuilder) -> Result<Output<i64>> {
        match self {
            Self::I64(integers) => Ok(integers),
            Self::F32(numbers) => Ok(graph.cast(numbers)),
            Self::Text(_) => Err(other("integers", "texts")),
        }
    }

    /// Returns the texts.
    ///
    /// # Errors
    /// If it has numbers.
    pub fn texts(self) -> Result<Output<Text>> {
        match self {
            Self::Text(texts) => Ok(texts),
            Self::F32(_) | Self::I64(_) => Err(other("texts", "numbers")),
        }
    }
}

impl From<GraphTensor> for AnyOutput {
    fn from(tensor: GraphTensor) -> Self {
        match tensor {
            GraphTensor::F32(output) => output.into(),
            GraphTensor::I64(output) => output.into(),
            GraphTensor::Text(output) => output.into(),
        }
    }
}

fn other(wanted: &str, found: &str) -> Error {
    Error::new(Code::BadSetting, format!("{wanted} are needed, and the input has {found}"))
        .help("declare the type of the input: Input::texts or Input::integers")
}
