//! Handles to what the nodes of a graph give.

use super::Element;
use crate::bundle::Dtype;
use std::marker::PhantomData;

/// A tensor of a graph: one output of one node. It means something only to the [`GraphBuilder`](super::GraphBuilder) that
/// gave it: another may take it for one of its own.
pub struct Output<T> {
    pub(super) at: NodeOutput,
    element: PhantomData<fn() -> T>,
}

/// A node and the number of its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeOutput {
    pub(super) node: usize,
    pub(super) output: usize,
}

/// A tensor whose type is known only when the program runs; signatures take it.
#[derive(Clone, Copy, Debug)]
pub struct AnyOutput {
    pub(super) at: NodeOutput,
    pub(super) dtype: Dtype,
}

impl<T> Output<T> {
    pub(super) fn new(node: usize, output: usize) -> Self {
        Self { at: NodeOutput { node, output }, element: PhantomData }
    }
}

// Derived, these would want `T` to have them.
impl<T> Clone for Output<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Output<T> {}

impl<T: Element> std::fmt::Debug for Output<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Output<{}>({}:{})", T::DTYPE, self.at.node, self.at.output)
    }
}

impl<T: Element> From<Output<T>> for AnyOutput {
    fn from(output: Output<T>) -> Self {
        Self { at: output.at, dtype: T::DTYPE }
    }
}
