//! The graph that calling layers makes.

use super::layer::Layer;
use std::sync::Arc;

/// What will flow between layers: the output of a layer that was called, or an [`Input`].
#[derive(Clone, Debug)]
pub struct Symbol(pub(crate) Arc<Node>);

/// One call of a layer, or an input.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) what: What,
    /// Which call of its layer this is, from 0.
    pub(crate) call: usize,
    pub(crate) inputs: Vec<Symbol>,
}

#[derive(Debug)]
pub(crate) enum What {
    Input { dims: Vec<usize>, name: Option<String> },
    Layer(Arc<dyn Layer>),
}

impl Node {
    pub(crate) fn layer(&self) -> Option<&Arc<dyn Layer>> {
        match &self.what {
            What::Layer(layer) => Some(layer),
            What::Input { .. } => None,
        }
    }

    pub(crate) fn own_name(&self) -> Option<&str> {
        match &self.what {
            What::Layer(layer) => layer.identity().name(),
            What::Input { name, .. } => name.as_deref(),
        }
    }

    /// Whether both are calls of one layer, or one input.
    pub(crate) fn same_layer(&self, other: &Self) -> bool {
        match (self.layer(), other.layer()) {
            (Some(mine), Some(theirs)) => mine.identity().is(theirs.identity()),
            (None, None) => std::ptr::eq(self, other),
            _ => false,
        }
    }
}

impl Symbol {
    /// The output of `layer` after these symbols.
    pub(crate) fn after(layer: Arc<dyn Layer>, inputs: Inputs<'_>) -> Self {
        let call = layer.identity().count_call();
        let inputs = inputs.0.into_iter().cloned().collect();
        Self(Arc::new(Node { what: What::Layer(layer), call, inputs }))
    }
}

/// Where data come into a functional model.
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
    /// An input with these extents, the batch not among them.
    // Keras' name for what makes a symbol; a type of its own could not stand in one list with other symbols.
    #[allow(clippy::new_ret_no_self)]
    #[must_use]
    pub fn new(dims: impl Into<Vec<usize>>) -> Symbol {
        Self::make(dims.into(), None)
    }

    /// The same with a name.
    #[must_use]
    pub fn named(name: &str, dims: impl Into<Vec<usize>>) -> Symbol {
        Self::make(dims.into(), Some(name.to_owned()))
    }

    fn make(dims: Vec<usize>, name: Option<String>) -> Symbol {
        Symbol(Arc::new(Node { what: What::Input { dims, name }, call: 0, inputs: Vec::new() }))
    }
}

/// One symbol or several: `&x`, `[&a, &b]`, or a list.
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
