//! What goes into a step and what comes out of it.

use crate::TableId;
use phalanx_base::Result;
use phalanx_nn::burn::module::Module;
use phalanx_nn::burn::tensor::{Gradients, Tensor};
use phalanx_nn::{HostBuffer, ParameterRegistry, scalar};

/// The policy for a gradient or a loss that is not finite.
///
/// ```
/// use phalanx_optim::Sgd;
/// use phalanx_train::{NonFinite, Server, Supervisor};
/// let supervisor = Supervisor::new(&Server::local()?, Sgd::new(0.1)).non_finite(NonFinite::Skip);
/// # let _ = supervisor;
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NonFinite {
    /// End the job with an error that names the variable, the step and the worker.
    #[default]
    Stop,
    /// Drop the step's gradients, log it, and continue.
    Skip,
}

/// The result of one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step<V = ()> {
    /// The loss on this step's batch; NaN if the step's gradients came without one.
    pub loss: f32,
    /// The updates of all trainers before this step: its own goes with the next message.
    pub global_step: u64,
    /// What the step's closure returned beside the loss.
    pub value: V,
}

impl<V> Step<V> {
    /// Returns the same step with another value.
    #[must_use]
    pub fn with<W>(self, value: W) -> Step<W> {
        Step { loss: self.loss, global_step: self.global_step, value }
    }
}

/// The rows of one table that a batch needs.
#[derive(Clone, Debug)]
pub struct RowValues {
    /// The unique rows, concatenated.
    pub values: Vec<f32>,
    /// How many numbers a row has.
    pub dim: usize,
    /// For each id of the batch, the index of its unique row.
    pub positions: Vec<u32>,
}

/// What a step computed: buffers, whichever library computed them.
#[derive(Debug, Default)]
pub struct StepGradients {
    /// The loss, for reports; `None` if what computed the gradients does not know it.
    pub loss: Option<f32>,
    /// The gradient of each variable, in the order of the model's parameters and then of its moving averages; `None` where
    /// there is none.
    pub dense: Vec<Option<HostBuffer>>,
    /// The gradients of the unique rows of each table used, in the order of the ids; `None` where there are none.
    pub rows: Vec<Option<HostBuffer>>,
    /// The gradients of rows that were looked up while the step was computed: the table, each id once, and their gradients.
    pub looked_up: Vec<(TableId, Vec<i64>, HostBuffer)>,
    /// The session's learning rate from this step on, as [`Session::set_learning_rate`](crate::Session::set_learning_rate) sets
    /// it; `None` leaves it.
    pub learning_rate: Option<f32>,
}

impl StepGradients {
    /// Computes a loss and its gradients; `forward` also returns the function that takes those of the rows. The changes of
    /// moving averages count as gradients, too.
    ///
    /// # Errors
    /// Fails if a gradient is not made of 32-bit floats, or `forward` fails.
    pub fn compute<M: Module, G>(
        registry: &ParameterRegistry,
        module: &M,
        forward: impl FnOnce(&M) -> Result<(Tensor<1>, G)>,
    ) -> Result<Self>
    where
        G: FnOnce(&mut Gradients) -> Result<Vec<Option<HostBuffer>>>,
    {
        let before = registry.state_values(module)?;
        let (loss, of_rows) = forward(module)?;
        let mut gradients = loss.backward();
        let mut dense = registry.gradients(module, &mut gradients)?;
        let rows = of_rows(&mut gradients)?;
        for (mut change, after) in before.into_iter().zip(registry.state_values(module)?) {
            change.iter_mut().zip(&*after).for_each(|(before, after)| *before -= after);
            dense.push(change.iter().any(|number| *number != 0.0).then_some(change));
        }
        Ok(Self { loss: Some(scalar(loss)?), dense, rows, ..Self::default() })
    }
}
