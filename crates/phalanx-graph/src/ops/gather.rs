//! The row of each id.

use super::{exactly, misfit};
use crate::op::{Operation, Out, Rows};
use crate::pass::Context;
use crate::shape::{Leading, ValueShape};
use phalanx_base::Result;
use serde::{Deserialize, Serialize};

/// Looks up a row for each id of an example, which has one id for each place of these dimensions: Keras' `Embedding`. The inputs
/// are the rows of a table and the ids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gather {
    /// The dimensions of the ids of an example.
    pub dims: Vec<usize>,
}

impl Operation for Gather {
    fn shape(&self, inputs: &[&ValueShape]) -> Result<ValueShape> {
        let [rows, ids] = exactly(inputs)?;
        match rows.leading {
            Leading::Rows if *ids == ValueShape::batch([]) => {
                Ok(ValueShape::batch([&self.dims[..], &rows.dims].concat()))
            }
            _ => Err(misfit(format!("values of shapes {rows} and {ids} are not the rows of a table and ids"))),
        }
    }

    fn forward(&self, cx: &Context<'_>, out: Out<'_>, _: &mut [f32]) {
        let (rows, dim) = (cx.input(0), cx.shape(0).width());
        for (out, &at) in out.contiguous().chunks_exact_mut(dim.max(1)).zip(cx.ids(1).positions) {
            out.copy_from_slice(&rows[at as usize * dim..][..dim]);
        }
    }

    fn backward(&self, _: usize, cx: &Context<'_>, gradient: Rows<'_>, to: &mut [f32]) {
        let dim = cx.shape(0).width();
        for (own, &at) in gradient.contiguous().chunks_exact(dim.max(1)).zip(cx.ids(1).positions) {
            to[at as usize * dim..][..dim].iter_mut().zip(own).for_each(|(to, own)| *to += own);
        }
    }

    fn adds(&self) -> bool {
        true
    }
}
