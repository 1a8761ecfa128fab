//! What an operation is: a rule for its shape, its value, and its derivative.

use crate::pass::Context;
use crate::plan::Size;
use crate::shape::ValueShape;
use phalanx_base::Result;

/// Which values the backward pass of an operation reads. Others may be overwritten before it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reads {
    pub(crate) inputs: bool,
    pub(crate) output: bool,
}

/// An operation of a graph: one file each in `ops`.
pub(crate) trait Operation {
    /// Returns the shape of the value.
    fn shape(&self, inputs: &[&ValueShape]) -> Result<ValueShape>;

    /// Computes the value.
    fn forward(&self, cx: &Context<'_>, out: Out<'_>, kept: &mut [f32]);

    /// Called once before [`Self::backward`], which then sees what it does to the gradient of the value: what the
    /// gradients of all inputs share is computed here.
    fn prepare_backward(&self, cx: &Context<'_>, gradient: &mut [f32], kept: &mut [f32]) {
        let _ = (cx, gradient, kept);
    }

    /// Computes the gradient with respect to one input from that of the value. `to` is overwritten, unless the operation
    /// [adds](Self::adds).
    fn backward(&self, input: usize, cx: &Context<'_>, gradient: Rows<'_>, to: &mut [f32]);

    /// Returns which values [`Self::backward`] reads.
    fn reads(&self) -> Reads {
        Reads::default()
    }

    /// Returns how many numbers the operation keeps from forward to backward.
    fn keeps(&self, inputs: &[&ValueShape]) -> Size {
        let _ = inputs;
        Size::default()
    }

    /// Returns whether [`Self::backward`] adds to what is there.
    fn adds(&self) -> bool {
        false
    }

    /// Returns whether the value and its gradient may be part of wider rows: a concatenation then copies nothing.
    fn is_strided(&self) -> bool {
        false
    }
}

/// A matrix whose rows may be part of wider ones.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    pub(crate) values: &'a [f32],
    pub(crate) layout: RowLayout,
}

/// Where the rows of a matrix lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowLayout {
    /// The distance between rows.
    pub(crate) stride: usize,
    /// The first number of a row.
    pub(crate) start: usize,
    pub(crate) width: usize,
}

impl RowLayout {
    pub(crate) fn is_contiguous(self) -> bool {
        self.stride == self.width
    }
}

impl<'a> Rows<'a> {
    /// Iterates over the rows.
    pub(crate) fn iter(self) -> impl Iterator<Item = &'a [f32]> {
        let RowLayout { stride, start, width } = self.layout;
        self.values.chunks_exact(stride.max(1)).map(move |row| &row[start..start + width])
    }

    /// Returns all numbers of an operation that is not strided.
    pub(crate) fn contiguous(self) -> &'a [f32] {
        debug_assert!(self.layout.is_contiguous());
        self.values
    }
}

/// The memory of a value that is computed.
pub(crate) struct Out<'a> {
    pub(crate) values: &'a mut [f32],
    pub(crate) layout: RowLayout,
}

impl<'a> Out<'a> {
    /// Returns all numbers of an operation that is not strided.
    pub(crate) fn contiguous(self) -> &'a mut [f32] {
        debug_assert!(self.layout.is_contiguous());
        self.values
    }
}
