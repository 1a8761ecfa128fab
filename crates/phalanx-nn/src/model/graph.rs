//! The graph of layer calls.

use super::layer::Layer;
use std::sync::Arc;

/// A symbolic value between layers: the output of a layer call, or an [`Input`].
#[derive(Clone, Debug)]
pub struct Symbol(pub(crate) Arc<Node>);

/// A call of a layer, or an input.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) what: NodeKind,
    /// The index of this call among those of its layer.
    pub(crate) call: usize,
    pub(crate) inputs: Vec<Symbol>,
}

#[derive(Debug)]
pub(crate) enum NodeKind {
    Input { dims: Vec<usize>, name: Option<String>, values: InputValues },
    Layer(Arc<dyn Layer>),
}

/// The type of the values of an input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InputValues {
    /// What the layers that take it need.
    #[default]
    Inferred,
    /// Integers.
    Integers,
    /// Texts, which only preprocessing layers take.
    Texts,
}

impl Node {
    pub(crate) fn layer(&self) -> Option<&Arc<dyn Layer>> {
        match &self.what {
            NodeKind::Layer(layer) => Some(layer),
            NodeKind::Input { .. } => None,
        }
    }

    /// The type of an input's values.
    pub(crate) fn values(&self) -> InputValues {
        match &self.what {
            NodeKind::Input { values, .. } => *values,
            NodeKind::Layer(_) => InputValues::Inferred,
        }
    }

    pub(crate) fn own_name(&self) -> Option<&str> {
        match &self.what {
            NodeKind::Layer(layer) => layer.identity().name(),
            NodeKind::Input { name, .. } => name.as_deref(),
        }
    }

    /// Whether both are calls of the same layer, or the same input.
    pub(crate) fn same_layer(&self, other: &Self) -> bool {
        match (self.layer(), other.layer()) {
            (Some(mine), Some(theirs)) => mine.identity().is(theirs.identity()),
            (None, None) => std::ptr::eq(self, other),
            _ => false,
        }
    }
}

impl Symbol {
    /// The output of `layer` for these symbols.
    pub(crate) fn after(layer: Arc<dyn Layer>, inputs: Inputs<'_>) -> Self {
        let call = layer.identity().count_call();
        let inputs = inputs.0.into_iter().cloned().collect();
        Self(Arc::new(Node { what: NodeKind::Layer(layer), call, inputs }))
    }
}

/// An input of a functional model.
///
/// ```
/// use phalanx_nn::model::{Concatenate, Dense, Input, Layer, Model};
/// let (user, item) = (Input::named("user", [8]), Input::named("item", [4]));
/// let both = Concatenate::new().call([&user, &item]);
/// let model = Model::new([&user, &item], &Dense::new(1).call(&both))?;
/// assert_eq!(model.variables()[0].shape.dims(), [12, 1]);
/// # Ok::<(), phalanx_nn::model::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Input;

impl Input {
    /// Returns an input of this shape, without the batch.
    // Keras' name. Inputs are plain symbols, so that they fit into lists with others.
    #[allow(clippy::new_ret_no_self)]
    #[must_use]
    pub fn new(dims: impl Into<Vec<usize>>) -> Symbol {
        Self::make(dims.into(), None, InputValues::Inferred)
    }

    /// Returns an input with a name.
    #[must_use]
    pub fn named(name: &str, dims: impl Into<Vec<usize>>) -> Symbol {
        Self::make(dims.into(), Some(name.to_owned()), InputValues::Inferred)
    }

    /// Returns a named input of integers, which matters for exports: Keras' `Input(dtype="int64")`.
    #[must_use]
    pub fn integers(name: &str, dims: impl Into<Vec<usize>>) -> Symbol {
        Self::make(dims.into(), Some(name.to_owned()), InputValues::Integers)
    }

    /// Returns a named input of texts for preprocessing layers: Keras' `Input(dtype="string")`.
    #[must_use]
    pub fn texts(name: &str, dims: impl Into<Vec<usize>>) -> Symbol {
        Self::make(dims.into(), Some(name.to_owned()), InputValues::Texts)
    }

    fn make(dims: Vec<usize>, name: Option<String>, values: InputValues) -> Symbol {
        Symbol(Arc::new(Node { what: NodeKind::Input { dims, name, values }, call: 0, inputs: Vec::new() }))
    }
}

/// One or several symbols: `&x`, `[&a, &b]`, or a list.
#[derive(Clone, Debug)]
pub struct Inputs<'a>(pub(crate) Vec<&'a Symbol>);

impl<'a> From<&'a Symbol> for Inputs<'a> {
    fn from(symbol: &'a Symbol) -> Self {
        Self(vec![symbol])
    }
}

impl<'a, const N: usize> From<[&'a Symbol; N]> for Inputs<'a> {
    fn from(symbols: [&'a Symbol; N]) -> Self {
        Self(symbols.to_vec())
    }
}

impl<'a> From<&'a [Symbol]> for Inputs<'a> {
    fn from(symbols: &'a [Symbol]) -> Self {
        Self(symbols.iter().collect())
    }
}

impl<'a> From<&'a Vec<Symbol>> for Inputs<'a> {
    fn from(symbols: &'a Vec<Symbol>) -> Self {
        symbols.as_slice().into()
    }
}
