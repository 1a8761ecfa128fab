//! One step on one replica: outputs, losses, metrics.

use super::accumulators::Accumulators;
use super::input_mapping::InputMapping;
use super::objective::Objective;
use phalanx_base::{Code, Error, Result};
use phalanx_data::Batch;
use phalanx_nn::Network;
use phalanx_nn::burn::tensor::{Device, Tensor, TensorData};
use phalanx_nn::losses::check_each;
use phalanx_nn::metrics::Values;
use phalanx_nn::model::{DynTensor, Mode};

/// What every replica needs for a step.
pub(super) struct StepPlan<'a> {
    pub(super) mapping: &'a InputMapping,
    pub(super) objectives: &'a [Objective],
    /// Whether this is training: only then do class weights apply.
    pub(super) learning: bool,
}

impl StepPlan<'_> {
    /// Returns the outputs for a batch.
    pub(super) fn outputs<M: Network>(
        &self,
        model: &M,
        batch: &Batch,
        device: &Device,
        mode: Mode,
    ) -> Result<Vec<DynTensor>> {
        self.outputs_for(model, self.mapping.inputs(batch, device)?, mode)
    }

    /// Returns the outputs for these inputs.
    pub(super) fn outputs_for<M: Network>(
        &self,
        model: &M,
        inputs: Vec<DynTensor>,
        mode: Mode,
    ) -> Result<Vec<DynTensor>> {
        let outputs = model.call(inputs, mode)?;
        if outputs.len() == self.objectives.len() {
            return Ok(outputs);
        }
        Err(Error::new(Code::ShapeMismatch, format!("the model returned {} outputs", outputs.len()))
            .because(format!("it was compiled for {}", self.objectives.len()))
            .help("name them all in Network::output_names"))
    }

    /// Returns the sum of all outputs' losses over the batch and updates the accumulators. Divided by the rows of all
    /// replicas, it is the mean that Keras minimizes.
    pub(super) fn loss(
        &self,
        batch: &Batch,
        outputs: Vec<DynTensor>,
        device: &Device,
        accumulators: &mut Accumulators,
    ) -> Result<Tensor<1>> {
        let weights = self.mapping.weights(batch, self.learning)?;
        let mut total: Option<Tensor<1>> = None;
        for (number, (output, objective)) in outputs.into_iter().zip(self.objectives).enumerate() {
            let target = self.mapping.target(batch, number, &*objective.loss)?;
            let prediction = rows(output)?;
            let [count, width] = prediction.dims();
            if !count.is_multiple_of(batch.rows().max(1)) {
                let what = format!("output {:?} has {count} rows for {} examples", objective.output, batch.rows());
                return Err(
                    Error::new(Code::ShapeMismatch, what).help("keep the batch as the first axis of the output")
                );
            }
            let each = objective.loss.forward(target.truth(width, device)?, prediction.clone())?;
            let each = check_each(objective.loss.name(), each, count)?;
            // The loss of an example with several rows is their mean.
            let by_example = count / batch.rows().max(1);
            let weights = weights.as_deref().map(|weights| spread(weights, by_example));
            let each = match &weights {
                Some(weights) => each * Tensor::from_data(TensorData::new(weights.clone(), [count]), device),
                None => each,
            };
            let sum = each.sum();
            let numbers = DynTensor::from(prediction.detach()).numbers()?;
            let counted = f64::from(phalanx_nn::scalar(sum.clone().detach())?);
            accumulators.count(
                self.objectives,
                number,
                (counted, count),
                &target,
                Values::rows(&numbers, width),
                weights.as_deref(),
            )?;
            let own = sum * (objective.weight / by_example.max(1) as f32);
            total = Some(match total {
                Some(total) => total + own,
                None => own,
            });
        }
        total.ok_or_else(|| Error::new(Code::BadSetting, "the model has no output"))
    }
}

/// Reshapes predictions to rows: all axes but the last count as examples.
pub(super) fn rows(output: DynTensor) -> Result<Tensor<2>> {
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

/// Fails if the weight of a loss is not finite.
pub(super) fn check_losses(objectives: &[Objective]) -> Result<()> {
    match objectives.iter().find(|objective| !objective.weight.is_finite()) {
        Some(objective) => {
            let what = format!("the loss of output {:?} has the weight {}", objective.output, objective.weight);
            Err(Error::new(Code::BadSetting, what))
        }
        None => Ok(()),
    }
}
