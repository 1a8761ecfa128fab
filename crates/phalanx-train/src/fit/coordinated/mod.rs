//! `fit` and `evaluate` with variables on parameter servers, steps on workers, and a chief that schedules them.
//!
//! | file | contents |
//! | --- | --- |
//! | `input` | dividing the data among workers |
//! | `steps` | the workers' step functions: a training batch, a part of an evaluation |
//! | `worker_progress` | which workers have finished a pass |
//! | `training_state` | the chief's loop |
//! | `trained_state` | the model as callbacks see it |

mod input;
mod steps;
mod trained_state;
mod training_state;
mod worker_progress;

use super::{Compiled, Data, Fit, History, Logs};
use crate::{ParameterServerStrategy, StepFunctions};
use input::SharedInput;
use phalanx_base::{Code, Error, Result, Role};
use phalanx_data::InputContext;
use phalanx_nn::Network;
use training_state::{RunSettings, TrainingState};

impl ParameterServerStrategy {
    /// Keras' `fit` with a coordinator. Every task of the job calls it with the same model and data: parameter servers
    /// serve, workers compute steps, and the chief schedules them, shows progress and calls the callbacks. On the chief it
    /// returns the trained model and the history; elsewhere `None`.
    ///
    /// A step is one batch of one worker. A [`Dataset`](phalanx_data::Dataset) and arrays are divided among the workers;
    /// a [`DatasetCreator`](super::DatasetCreator) creates each worker's share. With `steps_per_epoch`, which counts
    /// the steps of all workers, the data continues from epoch to epoch. Without it, an epoch is one pass over the data of
    /// all workers, which then must be finite. After each epoch the workers evaluate the validation data in parts,
    /// and every example counts once.
    ///
    /// The model must be compiled with the supervisor's optimizer. A learning rate set by a callback travels with every
    /// later step, and weights set by a callback are sent to the servers. `BackupAndRestore` is refused: give the supervisor a
    /// run directory instead, and a restarted job continues from its newest checkpoint.
    ///
    /// ```
    /// use phalanx_data::Column;
    /// use phalanx_nn::model::{Dense, Sequential};
    /// use phalanx_optim::Sgd;
    /// use phalanx_train::fit::{Compile, Fit, Verbose};
    /// use phalanx_train::{MiniCluster, ParameterServerStrategy, Server, Supervisor};
    /// fn task(server: &Server) -> phalanx_base::Result<Option<f64>> {
    ///     let x = Column::f32((0..64).map(|i| i as f32 / 64.0).collect()).with_row_shape([1])?;
    ///     let y = Column::f32((0..64).map(|i| 3.0 * i as f32 / 64.0 + 1.0).collect());
    ///     let model = Sequential::new().add(Dense::new(1)).build([1])?.compile(Sgd::new(0.2), "mse", ["mae"])?;
    ///     let strategy = ParameterServerStrategy::new(Supervisor::new(server, Sgd::new(0.2)));
    ///     let fit = Fit::epochs(20).batch_size(8).verbose(Verbose::Silent);
    ///     let Some((model, history)) = strategy.fit(model, (x.clone(), y), fit)? else { return Ok(None) };
    ///     assert_eq!(model.predict(x)?.rows(), 64);
    ///     history.last("loss").map(Some)
    /// }
    /// let cluster = MiniCluster::start(1, 3)?;
    /// let loss = std::thread::scope(|scope| {
    ///     let workers: Vec<_> = cluster.trainers()[1..].iter().map(|server| scope.spawn(|| task(server))).collect();
    ///     let loss = task(&cluster.trainers()[0]);
    ///     workers.into_iter().for_each(|worker| assert!(worker.join().unwrap().is_ok()));
    ///     loss
    /// })?;
    /// assert!(loss.unwrap() < 0.1);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the data cannot be read or does not fit the model (the error names the task and its input position), a
    /// callback fails, the model has moving averages or another optimizer than the supervisor, the job does not form or
    /// fails, or the process is interrupted.
    pub fn fit<M: Network>(
        self,
        mut compiled: Compiled<M>,
        data: impl Into<Data>,
        mut fit: Fit,
    ) -> Result<Option<(Compiled<M>, History)>> {
        let server = self.server().clone();
        if server.task().role == Role::Ps {
            return server.join().map(|()| None);
        }
        let prepared =
            self.check_optimizer(compiled.optimizer()).and_then(|()| prepare(&mut compiled, data.into(), &mut fit));
        let (steps, training, validated) = prepared.inspect_err(|error| server.leave(Some(error)))?;
        let workers = server.config().trainers().len().saturating_sub(1);
        let batches = training.batches(workers).filter(|_| fit.steps_per_epoch.is_none());
        let settings = RunSettings { fit, batches, validated, round: self.round() };
        let model = compiled.module().clone();
        let history =
            self.run(model, steps, |coordinator| TrainingState::new(&mut compiled, coordinator, settings)?.run())?;
        Ok(history.map(|history| (compiled, history)))
    }

    /// Returns the loss and metrics on `data`, computed in parts by the workers of a job; every example counts once. Every
    /// task calls it; only the chief gets logs, the others `None`. The weights are those of the run directory's newest
    /// checkpoint if the supervisor has one, else those of `compiled`. Uses the settings `batch_size`,
    /// `validation_steps` and `sample_weight`.
    ///
    /// # Errors
    /// As [`Self::fit`].
    pub fn evaluate<M: Network>(
        self,
        mut compiled: Compiled<M>,
        data: impl Into<Data>,
        fit: Fit,
    ) -> Result<Option<Logs>> {
        let server = self.server().clone();
        if server.task().role == Role::Ps {
            return server.join().map(|()| None);
        }
        let prepared = self
            .check_optimizer(compiled.optimizer())
            .and_then(|()| prepare_evaluation(&mut compiled, data.into(), &fit));
        let steps = prepared.inspect_err(|error| server.leave(Some(error)))?;
        let settings = RunSettings { fit, batches: None, validated: true, round: self.round() };
        let model = compiled.module().clone();
        self.run(model, steps, |coordinator| {
            let accumulators = TrainingState::new(&mut compiled, coordinator, settings)?.evaluate()?;
            Ok(accumulators.logs(&compiled.objectives, ""))
        })
    }
}

/// Returns the steps of a `fit`, its training data, and whether there is validation data.
fn prepare<M: Network>(
    compiled: &mut Compiled<M>,
    data: Data,
    fit: &mut Fit,
) -> Result<(StepFunctions<M>, SharedInput, bool)> {
    check(compiled)?;
    let (data, held_out) = compiled.take_data(data, fit)?;
    let training = SharedInput::training(data, fit)?;
    let held_out =
        held_out.map(|data| SharedInput::evaluation(data, fit.batch_size, fit.validation_steps)).transpose()?;
    resolve(compiled, &training)?;
    let validated = held_out.is_some();
    Ok((steps::steps(compiled, Some(training.clone()), held_out), training, validated))
}

fn prepare_evaluation<M: Network>(compiled: &mut Compiled<M>, data: Data, fit: &Fit) -> Result<StepFunctions<M>> {
    check(compiled)?;
    compiled.mapping.sample_weight.clone_from(&fit.sample_weight);
    let held_out = SharedInput::evaluation(data, fit.batch_size, fit.validation_steps)?;
    resolve(compiled, &held_out)?;
    Ok(steps::steps(compiled, None, Some(held_out)))
}

/// Creates the metrics given by name, with a row of the data if the model does not know the widths of its outputs.
fn resolve<M: Network>(compiled: &mut Compiled<M>, data: &SharedInput) -> Result<()> {
    compiled.resolve_with(|| data.of(&InputContext::default())?.iter()?.next().transpose())
}

fn check<M: Network>(compiled: &Compiled<M>) -> Result<()> {
    if compiled.strategy().num_replicas_in_sync() > 1 {
        return Err(Error::new(Code::BadSetting, "the model was compiled under a strategy with several replicas")
            .because("under a ParameterServerStrategy the variables are on the servers")
            .help("build and compile it outside another strategy's scope"));
    }
    match compiled.model.registry.states() {
        [] => Ok(()),
        [state, ..] => Err(Error::new(Code::BadSetting, format!("{:?} is a moving average", state.name))
            .because("parameter servers hold variables that are updated by gradients, and moving averages are not")
            .help("use LayerNormalization, or train with a mirrored strategy")),
    }
}
