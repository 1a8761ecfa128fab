//! A dense layer.

use super::{exactly, misfit};
use crate::op::{Operation, Out, Reads, Rows};
use crate::pass::Context;
use crate::plan::Size;
use crate::shape::ValueShape;
use phalanx_base::Result;
use phalanx_matmul::{Activation, Epilogue, Matrix, Precision, column_sums, relu_gradient_sums};
use serde::{Deserialize, Serialize};

/// A dense layer: `x · kernel + bias`, with ReLU if `relu` is set. The inputs are `x`, the kernel and, if it has one, the bias.
/// Bias and ReLU are part of the product.
///
/// ```
/// use phalanx_graph::{Dense, Op};
/// assert_eq!(Op::from(Dense { relu: true, ..Dense::default() }).name(), "Dense");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dense {
    /// Whether negative sums become 0.
    pub relu: bool,
    /// The precision of the products, forward and backward.
    #[serde(with = "crate::foreign::Precision")]
    pub precision: Precision,
}

impl Operation for Dense {
    fn shape(&self, inputs: &[&ValueShape]) -> Result<ValueShape> {
        let (x, kernel, bias) = match *inputs {
            [x, kernel] => (x, kernel, None),
            _ => exactly::<3, _>(inputs).map(|[x, kernel, bias]| (x, kernel, Some(bias)))?,
        };
        match kernel.dims.as_slice() {
            &[from, to] if from == x.width() && bias.is_none_or(|bias| bias.dims == [to]) => {
                let mut shape = x.clone();
                shape.dims.pop();
                shape.dims.push(to);
                Ok(shape)
            }
            _ => Err(misfit(format!("an input of shape {x} does not fit a kernel of shape {kernel}"))),
        }
    }

    fn forward(&self, cx: &Context<'_>, out: Out<'_>, _: &mut [f32]) {
        let epilogue = Epilogue {
            bias: (cx.count() > 2).then(|| cx.input(2)),
            activation: if self.relu { Activation::Relu } else { Activation::Linear },
            ..Epilogue::default()
        };
        cx.product(cx.matrix(0), cx.matrix(1), self.precision, epilogue, out.contiguous());
    }

    fn prepare_backward(&self, cx: &Context<'_>, gradient: &mut [f32], kept: &mut [f32]) {
        match self.relu {
            true => relu_gradient_sums(cx.level(), cx.output(), gradient, kept),
            false => column_sums(cx.level(), gradient, kept),
        }
    }

    fn backward(&self, input: usize, cx: &Context<'_>, gradient: Rows<'_>, to: &mut [f32]) {
        let (x, kernel, gradient) = (cx.matrix(0), cx.matrix(1), gradient.contiguous());
        let of_sums = Matrix::new(gradient, x.rows(), kernel.columns());
        match input {
            0 => cx.product(of_sums, kernel.transposed(), self.precision, Epilogue::default(), to),
            1 => cx.product(x.transposed(), of_sums, self.precision, Epilogue::default(), to),
            _ => to.copy_from_slice(cx.kept()),
        }
    }

    fn reads(&self) -> Reads {
        Reads { inputs: true, output: self.relu }
    }

    fn keeps(&self, inputs: &[&ValueShape]) -> Size {
        // The gradient of the bias, which is summed up in the pass through ReLU.
        Size { each: 0, fixed: inputs.get(1).map_or(0, |kernel| kernel.width()) }
    }
}
