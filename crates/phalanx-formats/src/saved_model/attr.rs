//! The attributes of nodes.

use super::proto::attr::{List, Value};
use super::proto::{Attr, Shape, Tensor, shape};
use crate::bundle::Dtype;

/// The extents of a tensor of a graph; `None` is an extent that only the run knows, as the batch's.
pub type Dims<'a> = &'a [Option<usize>];

pub(super) fn dtype(dtype: Dtype) -> Attr {
    of(Value::Type(dtype.number()))
}

pub(super) fn dtypes(dtypes: impl IntoIterator<Item = Dtype>) -> Attr {
    list(List { r#type: dtypes.into_iter().map(Dtype::number).collect(), ..List::default() })
}

pub(super) fn text(text: &str) -> Attr {
    of(Value::S(text.as_bytes().to_vec()))
}

pub(super) fn int(number: i64) -> Attr {
    of(Value::I(number))
}

pub(super) fn ints(numbers: impl IntoIterator<Item = i64>) -> Attr {
    list(List { i: numbers.into_iter().collect(), ..List::default() })
}

pub(super) fn float(number: f32) -> Attr {
    of(Value::F(number))
}

pub(super) fn floats(numbers: &[f32]) -> Attr {
    list(List { f: numbers.to_vec(), ..List::default() })
}

pub(super) fn flag(set: bool) -> Attr {
    of(Value::B(set))
}

pub(super) fn shape(shape: Shape) -> Attr {
    of(Value::Shape(shape))
}

pub(super) fn shapes(shapes: Vec<Shape>) -> Attr {
    list(List { shape: shapes, ..List::default() })
}

pub(super) fn tensor(tensor: Tensor) -> Attr {
    of(Value::Tensor(tensor))
}

/// A shape's message.
pub(super) fn dims(dims: Dims<'_>) -> Shape {
    let size = |dim: &Option<usize>| dim.map_or(-1, |size| size as i64);
    Shape { dim: dims.iter().map(|dim| shape::Dim { size: size(dim) }).collect(), unknown_rank: false }
}

/// The message of a shape that is known.
pub(super) fn known(dims: &[usize]) -> Shape {
    Shape { dim: dims.iter().map(|&size| shape::Dim { size: size as i64 }).collect(), unknown_rank: false }
}

/// The message of a shape that is not known at all.
pub(super) fn unknown() -> Shape {
    Shape { dim: Vec::new(), unknown_rank: true }
}

fn of(value: Value) -> Attr {
    Attr { value: Some(value) }
}

fn list(list: List) -> Attr {
    of(Value::List(list))
}
