//! One step on one replica: outputs, losses, gradients, and what is counted.

use super::aim::Aim;
use super::feed::Feed;
use super::tally::Tally;
use phalanx_base::{Code, Error, Result};
use phalanx_data::Batch;
use phalanx_nn::Network;
use phalanx_nn::burn::tensor::{Device, Tensor, TensorData};
use phalanx_nn::metrics::Values;
use phalanx_nn::model::{Mode, Value};

/// What every replica needs to know for a step.
pub(super) struct Plan<'a> {
    pub(super) feed: &'a Feed,
    pub(super) aims: &'a [Aim],
    /// Whether it is learned from: classes have their weights only there.
    pub(super) learning: bool,
}

impl Plan<'_> {
    /// The outputs for a batch.
    pub(super) fn outputs<M: Network>(
        &self,
        model: &M,
        batch: &Batch,
        device: &Device,
        mode: Mode,
    ) -> Result<Vec<Value>> {
        let outputs = model.call(self.feed.inputs(batch, device)?, mode)?;
        if outputs.len() == self.aims.len() {
            return Ok(outputs);
        }
        Err(Error::new(Code::ShapeMismatch, format!("the model gave {} outputs", outputs.len()))
            .because(format!("it was compiled for {}", self.aims.len()))
            .help("name them all in Network::output_names"))
    }

    /// The sum over the batch of all outputs' losses, and everything counted. Divided by the rows of all replicas it is
    /// the mean that Keras minimizes.
    pub(super) fn loss(
        &self,
        batch: &Batch,
        outputs: Vec<Value>,
        device: &Device,
        tally: &mut Tally,
    ) -> Result<Tensor<1>> {
        let weights = self.feed.weights(batch, self.learning)?;
        let mut total: Option<Tensor<1>> = None;
        for (number, (output, aim)) in outputs.into_iter().zip(self.aims).enumerate() {
            let target = self.feed.target(batch, number, &aim.loss)?;
            let prediction = rows(output)?;
            let [count, width] = prediction.dims();
            if !count.is_multiple_of(batch.rows().max(1)) {
                let what = format!("output {:?} has {count} rows for {} examples", aim.output, batch.rows());
                return Err(
                    Error::new(Code::ShapeMismatch, what).help("keep the batch as the first axis of the output")
                );
            }
            let each = aim.loss.forward(target.truth(width, device)?, prediction.clone())?;
            // An output of several rows for each example is the mean over them.
            let by_example = count / batch.rows().max(1);
            let weights = weights.as_deref().map(|weights| spread(weights, by_example));
            let each = match &weights {
                Some(weights) => each * Tensor::from_data(TensorData::new(weights.clone(), [count]), device),
                None => each,
            };
            let sum = each.sum();
            let numbers = Value::from(prediction.detach()).numbers()?;
            let counted = f64::from(phalanx_nn::scalar(sum.clone().detach())?);
            tally.count(
                self.aims,
                number,
                (counted, count),
                &target,
                Values::rows(&numbers, width),
                weights.as_deref(),
            )?;
            let own = sum * (aim.weight / by_example.max(1) as f32);
            total = Some(match total {
                Some(total) => total + own,
                None => own,
            });
        }
        total.ok_or_else(|| Error::new(Code::BadSetting, "the model has no output"))
    }
}

/// Rows of predictions: all axes but the last are examples.
pub(super) fn rows(output: Value) -> Result<Tensor<2>> {
    let dims = output.dims();
    let (count, width) = match dims.as_slice() {
        [count] => (*count, 1),
        [leading @ .., width] => (leading.iter().product(), *width),
        [] => (0, 1),
    };
    output.reshape(&[count, width])?.tensor()
}

fn spread(weights: &[f32], times: usize) -> Vec<f32> {
    if times <= 1 {
        return weights.to_vec();
    }
    weights.iter().flat_map(|&weight| std::iter::repeat_n(weight, times)).collect()
}

/// Losses whose settings make no sense are refused before anything is trained.
pub(super) fn check_losses(aims: &[Aim]) -> Result<()> {
    match aims.iter().find(|aim| !aim.weight.is_finite()) {
        Some(aim) => {
            Err(Error::new(Code::BadSetting, format!("the loss of output {:?} counts {}", aim.output, aim.weight)))
        }
        None => Ok(()),
    }
}
