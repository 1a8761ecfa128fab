//! Dropout.

use crate::model::layer::{layer_basics, only};
use crate::model::random::Random;
use crate::model::{DynTensor, Identity, Layer, Mode, Op, Plan, Weights};
use burn::tensor::{Tensor, TensorData};
use phalanx_base::{Code, Error, Result};

/// In training, sets a random fraction of the numbers to 0 and scales the others to preserve the expected sum. The seed of
/// the step determines which numbers are dropped.
///
/// ```
/// use phalanx_nn::model::{Dense, Dropout, Sequential};
/// let model = Sequential::new().add(Dropout::new(0.3)).add(Dense::new(1)).build([4])?;
/// assert!(model.summary(None).contains("(None, 4)"));
/// # Ok::<(), phalanx_nn::model::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Dropout {
    identity: Identity,
    rate: f64,
}

layer_basics!(Dropout);

impl Dropout {
    /// Returns a layer that drops this fraction of the numbers.
    #[must_use]
    pub fn new(rate: f64) -> Self {
        Self { identity: Identity::default(), rate }
    }
}

impl Layer for Dropout {
    layer_basics!(parts Dropout);

    fn op(&self) -> Option<Op> {
        Some(Op::Identity)
    }

    fn plan(&self, inputs: &[Vec<usize>]) -> Result<Plan> {
        if !(0.0..=1.0).contains(&self.rate) {
            let error = Error::new(Code::BadSetting, format!("a dropout rate of {}", self.rate));
            return Err(error.because("it must be between 0 and 1"));
        }
        Ok(Plan::output(only(inputs)?.clone()))
    }

    fn forward(&self, inputs: Vec<DynTensor>, _: &Weights<'_>, mode: Mode) -> Result<DynTensor> {
        let input = only(inputs)?;
        let Mode::Training { seed } = mode else { return Ok(input) };
        if self.rate == 0.0 {
            return Ok(input);
        }
        let dims = input.dims();
        let count: usize = dims.iter().product();
        let kept = if self.rate < 1.0 { (1.0 / (1.0 - self.rate)) as f32 } else { 0.0 };
        let mut random = Random::new(seed);
        let mask: Vec<f32> = (0..count).map(|_| if random.uniform() < self.rate { 0.0 } else { kept }).collect();
        let row: Tensor<1> = input.reshape(&[count])?.tensor()?;
        let mask = Tensor::from_data(TensorData::new(mask, [count]), &row.device());
        DynTensor::from(row * mask).reshape(&dims)
    }
}
