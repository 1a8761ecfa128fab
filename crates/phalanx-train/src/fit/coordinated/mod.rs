//! `fit` and `evaluate` with variables on parameter servers, steps on workers, and a chief that hands them out.
//!
//! | file | what |
//! | --- | --- |
//! | `input` | who reads what |
//! | `steps` | what workers do: a batch of training, a part of an evaluation |
//! | `crew` | whose share has ended |
//! | `fitting` | the chief's loop |
//! | `fitted` | the model as callbacks see it |

mod crew;
mod fitted;
mod fitting;
mod input;
mod steps;

use super::{Compiled, Data, Fit, History, Logs};
use crate::{ParameterServerStrategy, Steps};
use fitting::{Course, Fitting};
use input::Shared;
use phalanx_base::{Code, Error, Result, Role};
use phalanx_data::InputContext;
use phalanx_nn::Network;

impl ParameterServerStrategy {
    /// Keras' `fit` with a coordinator. Every task of the job calls it with the same model and data: parameter servers
    /// serve, workers compute steps, and the chief counts, shows and calls the callbacks. There it returns the model with
    /// what it has learned, and what every epoch came to; `None` elsewhere.
    ///
    /// A step is one batch of one worker. A [`Dataset`](phalanx_data::Dataset) and arrays are divided among the workers;
    /// a [`DatasetCreator`](super::DatasetCreator) makes each worker's share itself. With `steps_per_epoch`, which counts
    /// the steps of all workers, the data goes on from epoch to epoch; without it, an epoch is one pass over the data of
    /// all workers, which then must have an end. After each epoch the workers evaluate on the validation data in parts,
    /// and every example counts once.
    ///
    /// The optimizer that the model was compiled with must be the supervisor's. A learning rate that callbacks change goes
    /// with every step from then on, and weights that they replace are sent to the servers. A run directory of the supervisor takes
    /// the place of `BackupAndRestore`, which is refused: a job that is started again goes on where it was saved.
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
    /// When the data cannot be read or does not fit the model (once, with the task and the place in its data), a callback
    /// fails, the model has moving averages or another optimizer than the supervisor, the job does not form or fails, or
    /// somebody asks the process to stop.
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
        let course = Course { fit, batches, validated, round: self.round() };
        let model = compiled.module().clone();
        let history = self.run(model, steps, |coordinator| Fitting::new(&mut compiled, coordinator, course)?.run())?;
        Ok(history.map(|history| (compiled, history)))
    }

    /// The loss and the metrics on `data`, computed by the workers of a job, in parts; every example counts once. Every
    /// task calls it; the numbers are the chief's, `None` elsewhere. The weights are those of the run directory's newest
    /// checkpoint where the supervisor has one, else those of `compiled`. Of the settings `batch_size`,
    /// `validation_steps` and `sample_weight` matter.
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
        let course = Course { fit, batches: None, validated: true, round: self.round() };
        let model = compiled.module().clone();
        self.run(model, steps, |coordinator| {
            let tally = Fitting::new(&mut compiled, coordinator, course)?.evaluate()?;
            Ok(tally.logs(&compiled.aims, ""))
        })
    }
}

/// The steps of a `fit`, what is learned from, and whether there is something to validate on.
fn prepare<M: Network>(compiled: &mut Compiled<M>, data: Data, fit: &mut Fit) -> Result<(Steps<M>, Shared, bool)> {
    check(compiled)?;
    let (data, held_out) = compiled.take_data(data, fit)?;
    let training = Shared::training(data, fit)?;
    let held_out = held_out.map(|data| Shared::evaluation(data, fit.batch_size, fit.validation_steps)).transpose()?;
    resolve(compiled, &training)?;
    let validated = held_out.is_some();
    Ok((steps::steps(compiled, Some(training.clone()), held_out), training, validated))
}

fn prepare_evaluation<M: Network>(compiled: &mut Compiled<M>, data: Data, fit: &Fit) -> Result<Steps<M>> {
    check(compiled)?;
    compiled.feed.sample_weight.clone_from(&fit.sample_weight);
    let held_out = Shared::evaluation(data, fit.batch_size, fit.validation_steps)?;
    resolve(compiled, &held_out)?;
    Ok(steps::steps(compiled, None, Some(held_out)))
}

/// Finds the metrics that were named, with a row of the data where the model does not say how wide its outputs are.
fn resolve<M: Network>(compiled: &mut Compiled<M>, data: &Shared) -> Result<()> {
    compiled.resolve_with(|| data.of(&InputContext::default())?.iter()?.next().transpose())
}

fn check<M: Network>(compiled: &Compiled<M>) -> Result<()> {
    if compiled.strategy().num_replicas_in_sync() > 1 {
        return Err(Error::new(Code::BadSetting, "the model was compiled for replicas that learn together")
            .because("under a ParameterServerStrategy the variables are on the servers")
            .help("build and compile it outside of another strategy's scope"));
    }
    match compiled.model.book.states() {
        [] => Ok(()),
        [state, ..] => Err(Error::new(Code::BadSetting, format!("{:?} is a moving average", state.name))
            .because("servers keep what is learned from gradients, and moving averages are not")
            .help("use LayerNormalization, or train with a mirrored strategy")),
    }
}
