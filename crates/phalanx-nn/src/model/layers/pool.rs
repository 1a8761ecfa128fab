//! Pooling of images.

use crate::model::layer::{layer_basics, mismatch, only, window_settings};
use crate::model::window::{Padding, Window};
use crate::model::{DynTensor, Identity, Layer, Mode, Op, Plan, Weights};
use burn::tensor::Tensor;
use burn::tensor::module::{avg_pool2d, max_pool2d};
use burn::tensor::ops::{AvgPoolOptions, MaxPoolOptions};
use phalanx_base::Result;

macro_rules! pooling {
    ($(#[$doc:meta])* $name:ident or $adjacent:ident, mean $mean:literal, $x:ident, $window:ident, $pads:ident => $pooled:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            identity: Identity,
            window: Window,
        }

        layer_basics!($name);
        window_settings!($name, "its size");

        impl $name {
            /// Returns a layer with adjacent windows of this height and width.
            #[must_use]
            pub fn new(pool_size: [usize; 2]) -> Self {
                let window = Window { size: pool_size, stride: pool_size, dilation: [1; 2], padding: Padding::Valid };
                Self { identity: Identity::default(), window }
            }
        }

        impl Default for $name {
            /// Windows of 2 by 2.
            fn default() -> Self {
                Self::new([2, 2])
            }
        }

        impl Layer for $name {
            layer_basics!(parts $name);

            fn op(&self) -> Option<Op> {
                let Window { size, stride: strides, padding, .. } = self.window;
                Some(Op::Pooling2D { mean: $mean, size, strides, padding })
            }

            fn plan(&self, inputs: &[Vec<usize>]) -> Result<Plan> {
                self.window.check()?;
                let [height, width, channels] = image(only(inputs)?)?;
                let [rows, columns] = self.window.output([height, width])?;
                Ok(Plan::output([rows, columns, channels]))
            }

            fn forward(&self, inputs: Vec<DynTensor>, _: &Weights<'_>, _: Mode) -> Result<DynTensor> {
                let input: Tensor<4> = only(inputs)?.tensor()?;
                let [_, height, width, _] = input.dims();
                if let Some(pooled) = $adjacent(&input, &self.window) {
                    return Ok(pooled.into());
                }
                let ($x, $window) = (input.permute([0, 3, 1, 2]), &self.window);
                let $pads = $window.pads([height, width]);
                Ok($pooled.permute([0, 2, 3, 1]).into())
            }
        }
    };
}

pooling! {
    /// The maximum of each window.
    MaxPooling2D or max_adjacent, mean false, x, window, pads => {
        max_pool2d(x, MaxPoolOptions::new(window.size).with_stride(window.stride).with_padding_pairs(pads))
    }
}

pooling! {
    /// The mean of each window, without padding.
    AveragePooling2D or mean_adjacent, mean true, x, window, pads => {
        let options = AvgPoolOptions::new(window.size).with_stride(window.stride).with_padding_pairs(pads);
        avg_pool2d(x, options.with_count_include_pad(false))
    }
}

/// Adjacent windows need no gathering: two rounds of pairwise comparison, first along rows, and no permutation for Burn,
/// which has channels before height and width. Of equal numbers the first is taken, as in TensorFlow.
fn max_adjacent(input: &Tensor<4>, window: &Window) -> Option<Tensor<4>> {
    by_pairs(input, window, Tensor::max_pair)
}

fn mean_adjacent(input: &Tensor<4>, window: &Window) -> Option<Tensor<4>> {
    let count = (window.size[0] * window.size[1]) as f32;
    by_pairs(input, window, |a, b| a + b).map(|sum| sum / count)
}

fn by_pairs(input: &Tensor<4>, window: &Window, join: impl Fn(Tensor<4>, Tensor<4>) -> Tensor<4>) -> Option<Tensor<4>> {
    let [batch, height, width, channels] = input.dims();
    let [tall, wide] = window.size;
    let adjacent = window.size == window.stride && window.pads([height, width]) == [(0, 0); 2];
    if !adjacent || input.device() != crate::default_device() {
        return None;
    }
    let (rows, columns) = (height / tall, width / wide);
    let input = input.clone().slice([0..batch, 0..rows * tall, 0..columns * wide, 0..channels]);
    let joined = |x: Tensor<4>, parts: usize, length: usize| {
        let [a, b, c, _] = x.dims();
        let part = |at: usize| x.clone().slice([0..a, 0..b, 0..c, at * length..(at + 1) * length]);
        (1..parts).fold(part(0), |all, at| join(all, part(at)))
    };
    let lines = input.reshape([batch, rows * tall, columns, wide * channels]);
    let lines = joined(lines, wide, channels);
    let length = columns * channels;
    let stacked = lines.reshape([batch, rows, 1, tall * length]);
    Some(joined(stacked, tall, length).reshape([batch, rows, columns, channels]))
}

fn image(input: &[usize]) -> Result<[usize; 3]> {
    input.try_into().map_err(|_| mismatch("[None, height, width, channels]", input))
}

/// The mean of each channel over an image.
///
/// ```
/// use phalanx_nn::model::{GlobalAveragePooling2D, Sequential};
/// let model = Sequential::new().add(GlobalAveragePooling2D::new()).build([28, 28, 3])?;
/// assert!(model.summary(None).contains("(None, 3)"));
/// # Ok::<(), phalanx_nn::model::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct GlobalAveragePooling2D {
    identity: Identity,
    keepdims: bool,
}

layer_basics!(GlobalAveragePooling2D);

impl GlobalAveragePooling2D {
    /// Returns the layer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets whether to keep height and width as axes of 1. The default is false.
        keepdims: bool => keepdims;
    }
}

impl Layer for GlobalAveragePooling2D {
    layer_basics!(parts GlobalAveragePooling2D);

    fn op(&self) -> Option<Op> {
        Some(Op::GlobalAveragePooling2D { keepdims: self.keepdims })
    }

    fn plan(&self, inputs: &[Vec<usize>]) -> Result<Plan> {
        let [_, _, channels] = image(only(inputs)?)?;
        Ok(Plan::output(if self.keepdims { vec![1, 1, channels] } else { vec![channels] }))
    }

    fn forward(&self, inputs: Vec<DynTensor>, _: &Weights<'_>, _: Mode) -> Result<DynTensor> {
        let input: Tensor<4> = only(inputs)?.tensor()?;
        let [batch, _, _, channels] = input.dims();
        let means = input.mean_dim(2).mean_dim(1);
        Ok(if self.keepdims { means.into() } else { means.reshape([batch, channels]).into() })
    }
}
