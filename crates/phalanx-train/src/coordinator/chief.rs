//! The coordinator: it schedules steps, waits for them, and handles lost workers.

use super::codec::encode;
use super::handle::{MetricHandle, StepHandle};
use super::state::{CoordinatorState, Work};
use super::watcher::Watcher;
use super::{RemoteValue, StepFunctions};
use crate::session::StepDirective;
use crate::{Server, Session};
use phalanx_base::{Code, Context, Error, Incarnation, Result, TaskId};
use phalanx_cluster::schedule::{RefusalReason, SchedulerOptions, StepEffect, TaskIncarnation, WorkerView};
use phalanx_nn::burn::module::Module;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How old updates were when they were applied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Staleness {
    /// The number of updates by their age: entry n counts those applied n steps after the values that they were computed on,
    /// and the last of 64 entries all that were older.
    pub counts: Vec<u64>,
    /// The most steps that the worker of an update was behind the foremost one.
    pub widest_lag: u64,
}

/// A call of the program, such as a `fit`, that a coordinator carries out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// Counted from 1, in the same way by every task.
    pub(crate) number: u64,
    /// The committed steps of the calls before.
    pub(crate) steps_before: u64,
}

/// Hands steps to workers: TensorFlow's `ClusterCoordinator`. [`Strategy::coordinate`](crate::Strategy::coordinate) creates one.
///
/// ```
/// use phalanx_nn::burn::nn::{Linear, LinearConfig};
/// use phalanx_optim::Sgd;
/// use phalanx_train::{MiniCluster, ParameterServerOptions, StepFunctions, Strategy};
/// let sum = MiniCluster::start(1, 2)?.run(|server| {
///     let mut steps = StepFunctions::<Linear>::new();
///     let square = steps.evaluation(|_, x: f64| Ok(x * x));
///     let model = LinearConfig::new(2, 1).init(&phalanx_nn::default_device());
///     let strategy = Strategy::parameter_server_on(server, ParameterServerOptions::default())?;
///     strategy.coordinate(model, Sgd::new(0.1), steps, |coordinator| {
///         let squares = [1.0, 2.0, 3.0].map(|x| coordinator.schedule(&square, x));
///         coordinator.join()?;
///         squares.into_iter().map(|value| value?.fetch()).sum::<phalanx_base::Result<f64>>()
///     })
/// })?;
/// assert_eq!(sum, Some(14.0));
/// # Ok::<(), phalanx_base::Error>(())
/// ```
pub struct Coordinator<M> {
    server: Server,
    session: Option<Session<M>>,
    steps: StepFunctions<M>,
    state: Arc<CoordinatorState>,
    call: Call,
    watching: Option<(Arc<AtomicBool>, JoinHandle<()>)>,
}

impl<M: Module> Coordinator<M> {
    pub(super) fn start(
        server: &Server,
        session: Session<M>,
        steps: StepFunctions<M>,
        options: SchedulerOptions,
        call: Call,
    ) -> Result<Self> {
        let client = server.client()?;
        let known = client.task_incarnations()?;
        let description = client.describe(0)?;
        let step = description.global_step;
        let state = Arc::new(CoordinatorState::new(server.incarnation().0, options, step, &steps));
        state.lock().start_at(description.newest_clock, step);
        server.coordinator_service()?.open(call.number, Arc::clone(&state));
        let stop = Arc::new(AtomicBool::new(false));
        let services = session.follow({
            let state = Arc::clone(&state);
            Arc::new(move || state.committed.load(Ordering::Acquire))
        });
        let watcher = Watcher { server: server.clone(), state: Arc::clone(&state), stop: Arc::clone(&stop), services };
        let thread = std::thread::Builder::new().name("phalanx-losses".into()).spawn(move || watcher.run());
        let thread = thread.context(Code::Internal, "the thread that handles lost workers cannot be started")?;
        let watching = Some((stop, thread));
        let mut coordinator = Self { server: server.clone(), session: Some(session), steps, state, call, watching };
        coordinator.wait_for_former_workers(known)?;
        Ok(coordinator)
    }

    /// Waits until the workers of a former chief have joined this one or are fenced: from then on, no update arrives that this
    /// coordinator has not handed out.
    fn wait_for_former_workers(&mut self, known: BTreeSet<(TaskId, Incarnation)>) -> Result<()> {
        if known.is_empty() {
            return Ok(());
        }
        if let Some(chief) = self.server.chief() {
            chief.take_over(known.clone());
        }
        let own = self.server.task();
        let service = Arc::clone(self.server.coordinator_service()?);
        let began = Instant::now();
        let mut logged = began;
        loop {
            self.state.check()?;
            let mut absent = known.clone();
            absent.retain(|&life| life.0 != own && !service.is_ahead(life));
            let queue = self.state.lock();
            let away = |life: TaskIncarnation| !queue.has(life) && !queue.is_over(life);
            let away: Vec<TaskIncarnation> =
                absent.into_iter().map(TaskIncarnation::from).filter(|&life| away(life)).collect();
            if away.is_empty() {
                return Ok(());
            }
            if began.elapsed() > self.server.options().formation_deadline {
                // The job does not wait for them any longer.
                self.server.job().add_lost(away.iter().map(|life| (life.task, life.incarnation)).collect());
            }
            if logged.elapsed() > Duration::from_secs(5) {
                logged = Instant::now();
                let names: Vec<String> = away.iter().map(|life| life.task.to_string()).collect();
                let names = names.join(", ");
                self.server
                    .in_scope(|| tracing::info!("waiting for {names} to finish their steps of the former chief"));
            }
            drop(self.state.wait(queue, Duration::from_millis(20)));
        }
    }

    /// Schedules a step with this argument, on whichever worker is free. Waits while the queue is full.
    ///
    /// # Errors
    /// When the argument cannot be sent, an earlier step failed (its error is then raised here, once), or the job cannot go on.
    pub fn schedule<A: Serialize, R>(&mut self, step: &StepHandle<A, R>, argument: A) -> Result<RemoteValue<R>> {
        let function = self.steps.index(step)?;
        let effect = self.steps.step(function)?.effect;
        let mut work = Work { function, argument: encode("the argument of a step", &argument)? };
        let bytes = size_of::<Work>() + work.argument.len();
        let mut queue = self.state.lock();
        loop {
            self.state.check()?;
            if let Some(error) = queue.raise() {
                return Err(error);
            }
            match queue.schedule(work, bytes, effect) {
                Ok(step) => {
                    if effect == StepEffect::Update {
                        queue.adopt_unfinished_updates(step);
                    }
                    drop(queue);
                    self.state.notify_work();
                    return Ok(RemoteValue::new(step, Arc::clone(&self.state)));
                }
                Err(refused) if matches!(refused.why, RefusalReason::TooLarge) => {
                    return Err(Error::new(Code::BadSetting, format!("a step's arguments take {bytes} bytes"))
                        .because("the queue may not hold as much"));
                }
                Err(refused) => {
                    work = refused.work;
                    queue = self.state.wait(queue, Duration::from_millis(200));
                }
            }
        }
    }

    /// Waits until every step is done.
    ///
    /// # Errors
    /// The first error of a step, once, when nothing runs any more; and when the job cannot go on.
    pub fn join(&mut self) -> Result<()> {
        let mut queue = self.state.lock();
        loop {
            self.state.check()?;
            if let Some(error) = queue.raise() {
                return Err(error);
            }
            // The last round may have fewer gradients, and is closed now.
            queue.end_round();
            if queue.is_done() && queue.complete_round().is_none() {
                return Ok(());
            }
            queue = self.state.wait(queue, Duration::from_millis(200));
        }
    }

    /// Returns whether every step is done.
    ///
    /// # Errors
    /// As [`Self::join`].
    pub fn done(&mut self) -> Result<bool> {
        self.state.check()?;
        let mut queue = self.state.lock();
        queue.raise().map_or_else(|| Ok(queue.is_done()), Err)
    }

    /// Returns the progress of every worker: its steps, and how old the oldest unfinished one is.
    #[must_use]
    pub fn workers(&self) -> Vec<WorkerView> {
        self.state.lock().workers(self.state.now()).collect()
    }

    /// Returns how old updates were when they were applied, since server 0 was started.
    ///
    /// # Errors
    /// When that server does not answer.
    pub fn staleness(&self) -> Result<Staleness> {
        let description = self.server.client()?.describe(0)?;
        Ok(Staleness { counts: description.staleness, widest_lag: description.widest_lag })
    }

    /// Returns the model with the newest values, for an evaluation by the chief itself.
    ///
    /// # Errors
    /// When a server does not answer.
    pub fn newest_model(&mut self) -> Result<&M> {
        self.refresh()?;
        self.session()?.model()
    }

    pub(super) fn refresh(&mut self) -> Result<()> {
        self.include_closed_rounds()?.refresh()
    }

    /// Returns the chief's session; what it reads from now on includes the rounds that are closed.
    pub(super) fn include_closed_rounds(&mut self) -> Result<&mut Session<M>> {
        let closed_rounds = self.state.lock().closed_rounds();
        let session = self.session_mut()?;
        session.set_directive(StepDirective { closed_rounds, ..StepDirective::default() });
        Ok(session)
    }

    /// Returns the number of committed steps; in synchronous training, of closed rounds. A program that was started again
    /// continues from there.
    ///
    /// # Errors
    /// When the server that counts them does not answer.
    pub fn global_step(&mut self) -> Result<u64> {
        self.refresh()?;
        Ok(self.session()?.global_step())
    }

    /// Waits for several results.
    ///
    /// # Errors
    /// As [`RemoteValue::fetch`].
    pub fn fetch<T: DeserializeOwned>(&self, values: &[RemoteValue<T>]) -> Result<Vec<T>> {
        values.iter().map(RemoteValue::fetch).collect()
    }

    /// Returns the value of a metric over all steps that are done, since the chief was started or the metric was reset.
    /// Every such step is counted once; after [`Self::join`], these are all that were scheduled.
    ///
    /// # Errors
    /// When the metric is none of this job's.
    pub fn result(&self, metric: &MetricHandle) -> Result<f64> {
        self.state.metrics.result(self.steps.index(metric)?)
    }

    /// Sets all metrics back to their beginning, for the next epoch.
    pub fn reset_metrics(&self) {
        self.state.metrics.reset();
    }

    /// Returns the step that was registered under this name with these types.
    pub(crate) fn find_step<A: 'static, R: 'static>(&self, name: &str) -> Result<StepHandle<A, R>> {
        self.steps.find(name).ok_or_else(|| Error::new(Code::Internal, format!("there is no step {name:?}")))
    }

    /// Returns the chief's own session: values, checkpoints, summaries.
    ///
    /// # Errors
    /// When there is no model.
    pub fn session_mut(&mut self) -> Result<&mut Session<M>> {
        self.session.as_mut().ok_or_else(gone)
    }

    pub(super) fn session(&self) -> Result<&Session<M>> {
        self.session.as_ref().ok_or_else(gone)
    }

    /// Returns the call that this coordinator carries out.
    pub(crate) fn call(&self) -> Call {
        self.call
    }

    /// Returns whether no step waits or runs.
    pub(super) fn is_idle(&self) -> bool {
        self.state.lock().is_done()
    }

    /// Stops coordinating, and returns the session.
    pub(super) fn finish(mut self) -> Result<Session<M>> {
        self.stop();
        self.session.take().ok_or_else(gone)
    }
}

impl<M> Coordinator<M> {
    fn stop(&mut self) {
        if let Some((stop, thread)) = self.watching.take() {
            stop.store(true, Ordering::Release);
            // It ends by its own deadlines.
            let _ = thread.join();
        }
        self.state.lock().end();
        self.state.notify_changed();
        self.state.notify_work();
    }
}

impl<M> Drop for Coordinator<M> {
    fn drop(&mut self) {
        self.stop();
    }
}

pub(super) fn gone() -> Error {
    Error::new(Code::Internal, "the model is gone")
}
