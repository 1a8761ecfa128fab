//! The step of a canned model: its graph with the loss of its head, and what is computed with it.

use super::Canned;
use super::input::CannedInput;
use super::parts::ModelPlan;
use crate::Head;
use crate::head::Targets;
use crate::model::StepPart;
use phalanx_base::{Code, Error, Result};
use phalanx_graph::{Add, Executor, Fed, Feed, Gradients, Graph, NodeId, Pass, Seed};
use phalanx_nn::burn::tensor::{Tensor, TensorData};
use phalanx_nn::{HostBuffer, ParameterValues, default_device, scalar};
use phalanx_train::{RowValues, StepGradients};
use std::sync::Arc;

/// The graph of a model and of its head, ready to be computed.
pub(crate) struct Step {
    pub(crate) graph: Arc<Graph>,
    pub(crate) logits: NodeId,
    /// The loss, unless a function of the user computes it from the logits.
    loss: Option<NodeId>,
    penalty: Option<NodeId>,
    training: Executor,
    inference: Executor,
}

impl Step {
    pub(super) fn new(head: &Head, logits: NodeId, plan: &ModelPlan) -> Result<Self> {
        let mut graph = plan.graph.clone();
        let penalty = match plan.penalties.as_slice() {
            [] => None,
            penalties => Some(graph.add(Add, penalties)?),
        };
        let loss = head.add_loss(&mut graph, logits)?;
        let graph = Arc::new(graph);
        let losses: Vec<NodeId> = [loss.unwrap_or(logits)].into_iter().chain(penalty).collect();
        let (training, inference) =
            (Executor::new(&graph, &[logits], &losses)?, Executor::new(&graph, &[logits], &[])?);
        Ok(Self { graph, logits, loss, penalty, training, inference })
    }
}

impl Canned {
    /// Returns what a step of this input is computed from.
    fn feed<'a>(
        &self,
        values: &'a ParameterValues,
        input: &'a CannedInput,
        rows: &'a [RowValues],
        targets: Option<&'a Targets>,
        seed: u64,
    ) -> Feed<'a> {
        let graph = &self.step.graph;
        let mut inputs = vec![Fed::Absent; graph.inputs().len()];
        for (columns, part) in self.plan.parts.iter().zip(&input.parts) {
            part.feed(columns, rows, &mut inputs);
        }
        if let Some(targets) = targets.filter(|_| self.step.loss.is_some()) {
            let labels = targets.fed();
            let first = inputs.len() - labels.len();
            inputs.splice(first.., labels);
        }
        let mut tables: Vec<&[f32]> = vec![&[]; graph.tables().len()];
        input.ids.iter().zip(rows).for_each(|(of, rows)| tables[of.table] = &rows.values);
        Feed { rows: input.rows, inputs, parameters: values.slices(), tables, seed }
    }

    pub(super) fn gradients(&self, values: &ParameterValues, part: StepPart<'_, CannedInput>) -> Result<StepGradients> {
        let StepPart { input, rows, seed, targets, share } = part;
        let mut pass = self.step.training.forward(self.feed(values, input, &rows, Some(targets), seed))?;
        // A sum over rows counts fully, whatever their share is.
        let scale = if share != 1.0 && self.head.sums_losses() { 1.0 / share } else { 1.0 };
        let penalty = self.step.penalty.map(|penalty| pass.scalar(penalty));
        let penalties = penalty.map(|_| Seed::Constant(1.0));
        let (loss, gradients) = match self.step.loss {
            Some(loss) => {
                let value = pass.scalar(loss);
                let seeds: Vec<Seed<'_>> = [Seed::Constant(scale)].into_iter().chain(penalties).collect();
                (value, pass.backward(&seeds))
            }
            None => self.own_loss(&mut pass, targets, scale, penalties)?,
        };
        let Gradients { parameters, mut tables } = gradients;
        let dense = parameters.into_iter().map(|numbers| numbers.map(HostBuffer::from)).collect();
        let rows = input.ids.iter().map(|of| tables[of.table].take().map(HostBuffer::from)).collect();
        let loss = scale * loss + penalty.unwrap_or(0.0);
        Ok(StepGradients { loss: Some(loss), dense, rows, ..StepGradients::default() })
    }

    /// Computes the loss with a function of the user, and continues with its gradient.
    fn own_loss(
        &self,
        pass: &mut Pass<'_>,
        targets: &Targets,
        scale: f32,
        penalty: Option<Seed<'_>>,
    ) -> Result<(f32, Gradients)> {
        let width = self.head.logits_dimension();
        let logits = pass.value(self.step.logits).to_vec();
        let shape = [logits.len() / width.max(1), width];
        let logits = Tensor::<2>::from_data(TensorData::new(logits, shape), &default_device()).require_grad();
        let loss = self.head.batch_loss(logits.clone(), targets)?;
        let mut gradients = (loss.clone() * scale).backward();
        let of_logits = logits.grad_remove(&mut gradients).map(HostBuffer::of).transpose()?;
        let of_logits = of_logits.unwrap_or_else(|| HostBuffer::zeros(shape[0] * width));
        let seeds: Vec<Seed<'_>> = [Seed::Numbers(&of_logits)].into_iter().chain(penalty).collect();
        Ok((scalar(loss)?, pass.backward(&seeds)))
    }

    pub(super) fn infer(&self, values: &ParameterValues, input: &CannedInput, rows: &[RowValues]) -> Result<Vec<f32>> {
        let pass = self.step.inference.forward(self.feed(values, input, rows, None, 0))?;
        let logits = pass.value(self.step.logits);
        match logits.len() == input.rows * self.head.logits_dimension() {
            true => Ok(logits.to_vec()),
            false => Err(Error::new(Code::Internal, format!("{} logits for {} rows", logits.len(), input.rows))),
        }
    }
}
