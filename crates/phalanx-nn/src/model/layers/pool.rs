//! Images made smaller.

use crate::model::layer::{layer_basics, mismatch, only};
use crate::model::window::{Padding, Window};
use crate::model::{Identity, Layer, Mode, Plan, Value, Weights};
use burn::tensor::Tensor;
use burn::tensor::module::{avg_pool2d, max_pool2d};
use burn::tensor::ops::{AvgPoolOptions, MaxPoolOptions};
use phalanx_base::Result;

macro_rules! pooling {
    ($(#[$doc:meta])* $name:ident, $x:ident, $window:ident, $pads:ident => $pooled:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            identity: Identity,
            window: Window,
        }

        layer_basics!($name);

        impl $name {
            /// Windows of this height and width, side by side.
            #[must_use]
            pub fn new(pool_size: [usize; 2]) -> Self {
                let window = Window { size: pool_size, stride: pool_size, dilation: [1; 2], padding: Padding::Valid };
                Self { identity: Identity::default(), window }
            }

            /// Sets how far a window is from the next; its size unless set.
            #[must_use]
            pub fn strides(mut self, strides: [usize; 2]) -> Self {
                self.window.stride = strides;
                self
            }

            /// Sets what happens at the borders; valid unless set.
            #[must_use]
            pub fn padding(mut self, padding: Padding) -> Self {
                self.window.padding = padding;
                self
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

            fn plan(&self, inputs: &[Vec<usize>]) -> Result<Plan> {
                self.window.check()?;
                let [height, width, channels] = image(only(inputs)?)?;
                let [rows, columns] = self.window.output([height, width])?;
                Ok(Plan::output([rows, columns, channels]))
            }

            fn forward(&self, inputs: Vec<Value>, _: &Weights<'_>, _: Mode) -> Result<Value> {
                let input: Tensor<4> = only(inputs)?.tensor()?;
                let [_, height, width, _] = input.dims();
                let ($x, $window) = (input.permute([0, 3, 1, 2]), &self.window);
                let $pads = $window.pads([height, width]);
                Ok($pooled.permute([0, 2, 3, 1]).into())
            }
        }
    };
}

pooling! {
    /// The largest number of each window.
    MaxPooling2D, x, window, pads => {
        max_pool2d(x, MaxPoolOptions::new(window.size).with_stride(window.stride).with_padding_pairs(pads))
    }
}

pooling! {
    /// The mean of each window; what is padded does not count.
    AveragePooling2D, x, window, pads => {
        let options = AvgPoolOptions::new(window.size).with_stride(window.stride).with_padding_pairs(pads);
        avg_pool2d(x, options.with_count_include_pad(false))
    }
}

fn image(input: &[usize]) -> Result<[usize; 3]> {
    input.try_into().map_err(|_| mismatch("[None, height, width, channels]", input))
}

/// The mean of each channel over the whole image.
#[derive(Clone, Debug, Default)]
pub struct GlobalAveragePooling2D {
    identity: Identity,
    keepdims: bool,
}

layer_basics!(GlobalAveragePooling2D);

impl GlobalAveragePooling2D {
    /// The layer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether height and width stay as axes of 1; they go unless set.
    #[must_use]
    pub fn keepdims(mut self, keepdims: bool) -> Self {
        self.keepdims = keepdims;
        self
    }
}

impl Layer for GlobalAveragePooling2D {
    layer_basics!(parts GlobalAveragePooling2D);

    fn plan(&self, inputs: &[Vec<usize>]) -> Result<Plan> {
        let [_, _, channels] = image(only(inputs)?)?;
        Ok(Plan::output(if self.keepdims { vec![1, 1, channels] } else { vec![channels] }))
    }

    fn forward(&self, inputs: Vec<Value>, _: &Weights<'_>, _: Mode) -> Result<Value> {
        let input: Tensor<4> = only(inputs)?.tensor()?;
        let [batch, _, _, channels] = input.dims();
        let means = input.mean_dim(2).mean_dim(1);
        Ok(if self.keepdims { means.into() } else { means.reshape([batch, channels]).into() })
    }
}
