//! What layers of networks do: activations, convolutions, pooling, normalization.

use super::math::unary;
use super::{GraphBuilder, Output, attr};

/// What happens at the border of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// Zeros are added so that the image keeps its size, divided by the stride.
    Same,
    /// Only places where all of the window is inside of the image count.
    Valid,
}

impl Padding {
    fn as_str(self) -> &'static str {
        match self {
            Self::Same => "SAME",
            Self::Valid => "VALID",
        }
    }
}

unary! {
    /// `max(x, 0)`.
    relu = "Relu";
    /// `x` where it is positive, else `e^x - 1`.
    elu = "Elu";
    /// The scaled `elu` of self-normalizing networks.
    selu = "Selu";
    /// `ln(1 + e^x)`.
    softplus = "Softplus";
    /// `x / (1 + |x|)`.
    softsign = "Softsign";
    /// `1 / (1 + e^-x)`.
    sigmoid = "Sigmoid";
    /// The hyperbolic tangent.
    tanh = "Tanh";
    /// Probabilities along the last axis.
    softmax = "Softmax";
    /// The logarithms of probabilities along the last axis.
    log_softmax = "LogSoftmax";
}

impl GraphBuilder {
    /// `x` where it is positive, else `alpha * x`.
    pub fn leaky_relu(&mut self, x: Output<f32>, alpha: f32) -> Output<f32> {
        self.make("LeakyRelu").input(x).dtype::<f32>("T").attr("alpha", attr::float(alpha)).add()
    }

    /// `x * sigmoid(x)`.
    pub fn swish(&mut self, x: Output<f32>) -> Output<f32> {
        let gate = self.sigmoid(x);
        self.mul(x, gate)
    }

    /// `x * tanh(softplus(x))`.
    pub fn mish(&mut self, x: Output<f32>) -> Output<f32> {
        let gate = self.softplus(x);
        let gate = self.tanh(gate);
        self.mul(x, gate)
    }

    /// `0.2 x + 0.5`, but not below 0 and not above 1.
    pub fn hard_sigmoid(&mut self, x: Output<f32>) -> Output<f32> {
        let (half, zero, one) = (self.scalar(0.5), self.scalar(0.0), self.scalar(1.0));
        let line = self.scaled(x, 0.2);
        let line = self.add(line, half);
        let line = self.maximum(line, zero);
        self.minimum(line, one)
    }

    /// `x` times the probability that a normal number is below it: exact with `erf`, or approximated with `tanh`.
    pub fn gelu(&mut self, x: Output<f32>, approximate: bool) -> Output<f32> {
        let curve = if approximate {
            let square = self.mul(x, x);
            let cube = self.mul(square, x);
            let inner = self.scaled(cube, 0.044_715);
            let inner = self.add(x, inner);
            let inner = self.scaled(inner, (2.0 / std::f64::consts::PI).sqrt() as f32);
            self.tanh(inner)
        } else {
            let inner = self.scaled(x, std::f32::consts::FRAC_1_SQRT_2);
            self.erf(inner)
        };
        let one = self.scalar(1.0);
        let above = self.add(curve, one);
        let half = self.scaled(x, 0.5);
        self.mul(half, above)
    }

    fn scaled(&mut self, x: Output<f32>, by: f32) -> Output<f32> {
        let by = self.scalar(by);
        self.mul(x, by)
    }

    /// Adds a vector to the last axis.
    pub fn bias_add(&mut self, x: Output<f32>, bias: Output<f32>) -> Output<f32> {
        self.make("BiasAdd").input(x).input(bias).dtype::<f32>("T").add()
    }

    /// `x` times a matrix plus a vector: what a dense layer does with the rows of a matrix.
    pub fn dense(&mut self, x: Output<f32>, kernel: Output<f32>, bias: Option<Output<f32>>) -> Output<f32> {
        let product = self.matmul(x, kernel);
        bias.map_or(product, |bias| self.bias_add(product, bias))
    }

    /// A convolution of images `[batch, height, width, channels]` with filters `[height, width, in, out]`.
    pub fn conv2d(
        &mut self,
        images: Output<f32>,
        filters: Output<f32>,
        strides: [usize; 2],
        padding: Padding,
    ) -> Output<f32> {
        self.dilated_conv2d(images, filters, strides, [1, 1], padding)
    }

    /// As [`GraphBuilder::conv2d`], of pixels that are `dilations` apart.
    pub fn dilated_conv2d(
        &mut self,
        images: Output<f32>,
        filters: Output<f32>,
        strides: [usize; 2],
        dilations: [usize; 2],
        padding: Padding,
    ) -> Output<f32> {
        let convolution = self.make("Conv2D").input(images).input(filters).dtype::<f32>("T");
        let convolution = convolution.attr("strides", window(strides)).attr("dilations", window(dilations));
        convolution.attr("padding", attr::text(padding.as_str())).add()
    }

    /// The largest of each window of images `[batch, height, width, channels]`.
    pub fn max_pool(&mut self, x: Output<f32>, size: [usize; 2], strides: [usize; 2], padding: Padding) -> Output<f32> {
        self.pool("MaxPool", x, size, strides, padding)
    }

    /// The mean of each window of images `[batch, height, width, channels]`.
    pub fn avg_pool(&mut self, x: Output<f32>, size: [usize; 2], strides: [usize; 2], padding: Padding) -> Output<f32> {
        self.pool("AvgPool", x, size, strides, padding)
    }

    fn pool(
        &mut self,
        op: &str,
        x: Output<f32>,
        size: [usize; 2],
        strides: [usize; 2],
        padding: Padding,
    ) -> Output<f32> {
        let pooled = self.make(op).input(x).dtype::<f32>("T").attr("ksize", window(size));
        pooled.attr("strides", window(strides)).attr("padding", attr::text(padding.as_str())).add()
    }

    /// Batch normalization as it is when it does not train: `(x - mean) / sqrt(variance + epsilon) * gamma + beta`,
    /// summed up as Keras does.
    pub fn batch_norm(&mut self, x: Output<f32>, norm: &Normalization, epsilon: f32) -> Output<f32> {
        let epsilon = self.scalar(epsilon);
        let variance = self.add(norm.variance, epsilon);
        let mut scale = self.rsqrt(variance);
        if let Some(gamma) = norm.gamma {
            scale = self.mul(scale, gamma);
        }
        let scaled = self.mul(x, scale);
        let mean = self.mul(norm.mean, scale);
        let shift = match norm.beta {
            Some(beta) => self.sub(beta, mean),
            None => self.neg(mean),
        };
        self.add(scaled, shift)
    }

    /// Layer normalization over the last axis: each row gets the mean 0 and the variance 1, then `* gamma + beta`.
    pub fn layer_norm(
        &mut self,
        x: Output<f32>,
        gamma: Option<Output<f32>>,
        beta: Option<Output<f32>>,
        epsilon: f32,
    ) -> Output<f32> {
        let mean = self.mean(x, &[-1], true);
        let off = self.sub(x, mean);
        let squares = self.square(off);
        let variance = self.mean(squares, &[-1], true);
        let epsilon = self.scalar(epsilon);
        let variance = self.add(variance, epsilon);
        let scale = self.rsqrt(variance);
        let mut y = self.mul(off, scale);
        if let Some(gamma) = gamma {
            y = self.mul(y, gamma);
        }
        beta.map_or(y, |beta| self.add(y, beta))
    }
}

/// The four vectors of a batch normalization.
#[derive(Clone, Copy, Debug)]
pub struct Normalization {
    /// The moving mean.
    pub mean: Output<f32>,
    /// The moving variance.
    pub variance: Output<f32>,
    /// What the result is multiplied with.
    pub gamma: Option<Output<f32>>,
    /// What is added to the result.
    pub beta: Option<Output<f32>>,
}

/// Extents of height and width as an op of images wants them: with those of the batch and of the channels.
fn window([height, width]: [usize; 2]) -> super::proto::Attr {
    attr::ints([1, height as i64, width as i64, 1])
}
