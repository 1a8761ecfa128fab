//! Convolution of images.

use crate::model::function::applied;
use crate::model::layer::{kernel_settings, layer_basics, mismatch, only, window_settings};
use crate::model::window::{Padding, Window};
use crate::model::{DynTensor, Function, Identity, Initializer, Layer, Mode, Op, Plan, WeightPlan, Weights};
use crate::{Precision, matmul};
use burn::tensor::Tensor;
use burn::tensor::module::conv2d;
use burn::tensor::ops::ConvOptions;
use phalanx_base::{Code, Error, Result};

/// A convolution of `[batch, height, width, channels]`.
///
/// ```
/// use phalanx_nn::model::{Conv2D, Function, Padding, Sequential};
/// let layer = Conv2D::new(8, [3, 3]).strides([2, 2]).padding(Padding::Same).activation(Function::Relu);
/// let model = Sequential::new().add(layer).build([28, 28, 1])?;
/// assert!(model.summary(None).contains("(None, 14, 14, 8)"));
/// # Ok::<(), phalanx_nn::model::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Conv2D {
    identity: Identity,
    filters: usize,
    window: Window,
    groups: usize,
    activation: Function,
    bias: bool,
    kernel_initializer: Initializer,
    bias_initializer: Initializer,
}

layer_basics!(Conv2D);
kernel_settings!(Conv2D);
window_settings!(Conv2D, "1");

impl Conv2D {
    /// Returns a convolution with `filters` filters of this height and width.
    #[must_use]
    pub fn new(filters: usize, kernel_size: [usize; 2]) -> Self {
        Self {
            identity: Identity::default(),
            filters,
            window: Window { size: kernel_size, stride: [1; 2], dilation: [1; 2], padding: Padding::Valid },
            groups: 1,
            activation: Function::Linear,
            bias: true,
            kernel_initializer: Initializer::glorot_uniform(),
            bias_initializer: Initializer::Zeros,
        }
    }

    setters! {
        /// Sets the dilation. The default is 1.
        dilation_rate: [usize; 2] => window.dilation;
        /// Sets the number of independent groups of channels and filters. The default is 1.
        groups: usize => groups;
    }
}

impl Layer for Conv2D {
    layer_basics!(parts Conv2D);

    fn op(&self) -> Option<Op> {
        let Window { stride: strides, dilation: dilations, padding, .. } = self.window;
        let (groups, bias, activation) = (self.groups, self.bias, self.activation);
        Some(Op::Conv2D { strides, dilations, padding, groups, bias, activation })
    }

    fn plan(&self, inputs: &[Vec<usize>]) -> Result<Plan> {
        self.window.check()?;
        let input = only(inputs)?;
        let &[height, width, channels] = input.as_slice() else {
            return Err(mismatch("[None, height, width, channels]", input));
        };
        let groups = self.groups;
        let whole = groups > 0 && channels.is_multiple_of(groups) && self.filters.is_multiple_of(groups);
        if !whole || self.filters == 0 || channels == 0 {
            let what = format!("{channels} channels and {} filters in {groups} groups", self.filters);
            return Err(
                Error::new(Code::BadSetting, what).because("each must be at least 1, and the groups must divide both")
            );
        }
        let [rows, columns] = self.window.output([height, width])?;
        let [kernel_height, kernel_width] = self.window.size;
        let kernel = [kernel_height, kernel_width, channels / groups, self.filters];
        let mut weights = vec![WeightPlan::new("kernel", kernel, self.kernel_initializer)];
        if self.bias {
            weights.push(WeightPlan::new("bias", [self.filters], self.bias_initializer));
        }
        Ok(Plan { output: vec![rows, columns, self.filters], weights })
    }

    fn forward(&self, inputs: Vec<DynTensor>, weights: &Weights<'_>, _: Mode) -> Result<DynTensor> {
        let input: Tensor<4> = only(inputs)?.tensor()?;
        let bias = if self.bias { Some(weights.vector(1)?) } else { None };
        let on_cpu = input.device() == crate::default_device();
        let output = if on_cpu && self.groups == 1 && self.window.stride == [1; 2] {
            self.by_patches(input, weights.kernel(0)?, bias)
        } else {
            self.by_burn(input, weights.kernel(0)?, bias)
        };
        Ok(applied(self.activation, output.into()))
    }
}

impl Conv2D {
    /// Burn's convolution, which has channels before height and width. The permuted tensors are views, and consecutive
    /// permutations cancel out.
    fn by_burn(&self, input: Tensor<4>, kernel: Tensor<4>, bias: Option<Tensor<1>>) -> Tensor<4> {
        let [_, height, width, _] = input.dims();
        let mut options = ConvOptions::new(self.window.stride, [0; 2], self.window.dilation, self.groups);
        options.padding = self.window.pads([height, width]);
        let output = conv2d(input.permute([0, 3, 1, 2]), kernel.permute([3, 2, 0, 1]), bias, options);
        output.permute([0, 2, 3, 1])
    }

    /// One matrix product over the concatenated patches. On a CPU, Burn's own convolution spends most of its time permuting
    /// tensors (docs/performance.md).
    fn by_patches(&self, input: Tensor<4>, kernel: Tensor<4>, bias: Option<Tensor<1>>) -> Tensor<4> {
        let [batch, height, width, channels] = input.dims();
        let [(top, bottom), (left, right)] = self.window.pads([height, width]);
        let input = if (top, bottom, left, right) == (0, 0, 0, 0) {
            input
        } else {
            input.pad([(0, 0), (top, bottom), (left, right), (0, 0)], 0.0)
        };
        let [_, height, width, _] = input.dims();
        let [tall, wide] = self.window.size;
        let [down, across] = self.window.dilation;
        let (rows, columns) = (height - (tall - 1) * down, width - (wide - 1) * across);
        let places = (0..tall).flat_map(|y| (0..wide).map(move |x| (y * down, x * across)));
        let patch = |(y, x): (usize, usize)| input.clone().slice([0..batch, y..y + rows, x..x + columns, 0..channels]);
        let patches = Tensor::cat(places.map(patch).collect(), 3);
        let length = tall * wide * channels;
        let patches = patches.reshape([batch * rows * columns, length]);
        let output = matmul(patches, kernel.reshape([length, self.filters]), Precision::F32);
        let output = match bias {
            Some(bias) => output + bias.unsqueeze(),
            None => output,
        };
        output.reshape([batch, rows, columns, self.filters])
    }
}
