//! Dense layers, and activation functions as layers.

use crate::model::function::{activated_dense, applied};
use crate::model::layer::{kernel_settings, layer_basics, mismatch, only};
use crate::model::{DynTensor, Function, Identity, Initializer, Layer, Mode, Op, Plan, WeightPlan, Weights};
use crate::{Precision, matmul};
use burn::tensor::Tensor;
use phalanx_base::{Code, Error, Result};

/// `activation(x kernel + bias)` along the last axis.
///
/// ```
/// use phalanx_nn::model::{Dense, Function, Sequential};
/// let model = Sequential::new().add(Dense::new(8).activation(Function::Relu)).add(Dense::new(1)).build([4])?;
/// assert!(model.summary(None).contains("(None, 8)"));
/// # Ok::<(), phalanx_nn::model::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Dense {
    identity: Identity,
    units: usize,
    activation: Function,
    bias: bool,
    kernel_initializer: Initializer,
    bias_initializer: Initializer,
    precision: Precision,
}

layer_basics!(Dense);
kernel_settings!(Dense);

impl Dense {
    /// Returns a layer with `units` outputs.
    #[must_use]
    pub fn new(units: usize) -> Self {
        Self {
            identity: Identity::default(),
            units,
            activation: Function::Linear,
            bias: true,
            kernel_initializer: Initializer::glorot_uniform(),
            bias_initializer: Initializer::Zeros,
            precision: Precision::F32,
        }
    }

    setters! {
        /// Sets the precision of the product's factors. The default is [`Precision::F32`]. [`Precision::Bf16`] corresponds to
        /// Keras' policy `mixed_bfloat16`: the kernel and its gradient stay 32-bit floats.
        precision: Precision => precision;
    }
}

impl Layer for Dense {
    layer_basics!(parts Dense);

    fn op(&self) -> Option<Op> {
        Some(Op::Dense { bias: self.bias, activation: self.activation })
    }

    fn plan(&self, inputs: &[Vec<usize>]) -> Result<Plan> {
        let input = only(inputs)?;
        let (Some((&features, outer)), true) = (input.split_last(), self.units > 0) else {
            return Err(match self.units {
                0 => Error::new(Code::BadSetting, "a layer of 0 units").because("it needs at least 1"),
                _ => mismatch("[None, ..., features]", input),
            });
        };
        let mut weights = vec![WeightPlan::new("kernel", [features, self.units], self.kernel_initializer)];
        if self.bias {
            weights.push(WeightPlan::new("bias", [self.units], self.bias_initializer));
        }
        Ok(Plan { output: [outer, &[self.units]].concat(), weights })
    }

    fn forward(&self, inputs: Vec<DynTensor>, weights: &Weights<'_>, _: Mode) -> Result<DynTensor> {
        let input = only(inputs)?;
        let mut dims = input.dims();
        let features = dims.pop().unwrap_or_default();
        let rows: Tensor<2> = input.reshape(&[dims.iter().product(), features])?.tensor()?;
        dims.push(self.units);
        let kernel = weights.matrix(0)?;
        // Two axes suffice for the activation, since softmax depends on the last axis only.
        let output: DynTensor = if self.bias {
            activated_dense(self.activation, rows, kernel, weights.vector(1)?, self.precision).into()
        } else {
            applied(self.activation, matmul(rows, kernel, self.precision).into())
        };
        output.reshape(&dims)
    }
}

/// An activation function as a layer.
///
/// ```
/// use phalanx_nn::model::{Activation, Dense, Function, Sequential};
/// let model = Sequential::new().add(Dense::new(3)).add(Activation::new(Function::Softmax)).build([4])?;
/// assert!(model.summary(None).contains("(None, 3)"));
/// # Ok::<(), phalanx_nn::model::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Activation {
    identity: Identity,
    function: Function,
}

layer_basics!(Activation);

impl Activation {
    /// Returns a layer that applies `function`.
    #[must_use]
    pub fn new(function: Function) -> Self {
        Self { identity: Identity::default(), function }
    }
}

impl Layer for Activation {
    layer_basics!(parts Activation);

    fn op(&self) -> Option<Op> {
        Some(Op::Activation(self.function))
    }

    fn plan(&self, inputs: &[Vec<usize>]) -> Result<Plan> {
        let input = only(inputs)?;
        if input.is_empty() && self.function == Function::Softmax {
            return Err(mismatch("[None, ..., classes]", input));
        }
        Ok(Plan::output(input.clone()))
    }

    fn forward(&self, inputs: Vec<DynTensor>, _: &Weights<'_>, _: Mode) -> Result<DynTensor> {
        Ok(applied(self.function, only(inputs)?))
    }
}
