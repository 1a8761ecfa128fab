//! A model on parameter servers: this task's part of every call that the program makes with it.

use super::outcomes::{Outcome, confirm, wait_for_outcome};
use super::{Call, Coordinator, StepFunctions, worker};
use crate::job_state::HeartbeatWriter;
use crate::{Server, Session, StepGradients, Supervisor};
use bytes::Bytes;
use phalanx_base::{Code, Error, Result, Role, TaskId};
use phalanx_cluster::schedule::{Consistency, SchedulerOptions};
use phalanx_nn::ParameterRegistry;
use phalanx_nn::burn::module::Module;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the chief waits for tasks to take the outcome of a call and the values that go with it.
const CONFIRMATIONS: Duration = Duration::from_secs(30);

/// This task's part of a job whose variables are on parameter servers.
///
/// Every task makes the same calls. The chief carries a call out and the workers compute its steps; parameter servers only
/// wait. All return the same outcome. Dropping it ends the task's part: the chief ends the job, and a parameter server
/// serves until then.
pub(crate) struct OnServers<M: Module> {
    supervisor: Supervisor,
    options: SchedulerOptions,
    session: Option<Session<M>>,
    /// The outcomes of the calls before.
    outcomes: Vec<Bytes>,
    heartbeat: Option<HeartbeatWriter>,
    /// The worker of a job that is this process alone.
    companion: Option<Box<Self>>,
    /// How many trainers take steps of their own.
    trainers: usize,
}

impl<M: Module> OnServers<M> {
    pub(crate) fn new(supervisor: Supervisor, options: SchedulerOptions) -> Self {
        if let Some(chief) = supervisor.server().chief() {
            chief.take_any_workers();
        }
        let trainers = supervisor.server().config().trainers().len();
        let (session, outcomes, heartbeat, companion) = (None, Vec::new(), None, None);
        Self { supervisor, options, session, outcomes, heartbeat, companion, trainers }
    }

    /// Lets `worker` compute the steps beside this task, in a job of one process.
    pub(crate) fn with_companion(mut self, worker: Self) -> Self {
        (self.companion, self.trainers) = (Some(Box::new(worker)), 1);
        self
    }

    pub(crate) fn server(&self) -> &Server {
        self.supervisor.server()
    }

    /// Takes a step of this trainer's own: fetches the newest values, computes, and hands over the gradients. In synchronous
    /// training it waits until the update is made. `compute` returns its value, and the gradients if it has any.
    pub(crate) fn step<T>(
        &mut self,
        (model, changed): (M, bool),
        compute: impl FnOnce(&M, &ParameterRegistry) -> Result<(T, Option<StepGradients>)>,
    ) -> Result<T> {
        self.prepare((model, changed))?;
        let session = self.session.as_mut().ok_or_else(gone)?;
        if session.is_coordinated() {
            self.supervisor.let_drive(session)?;
            session.wait_for_round(self.trainers)?;
        }
        let (mut value, mut pushes) = (None, false);
        let step = session.step_with_gradients(&[], |module, registry, _| {
            let (computed, gradients) = compute(module, registry)?;
            (value, pushes) = (Some(computed), gradients.is_some());
            let nothing = || StepGradients { loss: 0.0, dense: Vec::new(), rows: Vec::new() };
            Ok(gradients.unwrap_or_else(nothing))
        })?;
        if !pushes {
            session.forget_last_step();
        }
        let goes_on = step.is_some() && session.complete_round()?;
        value.filter(|_| goes_on).ok_or_else(|| {
            let job = self.supervisor.server().job();
            let ended = || Error::new(Code::JobFailed, "the job ended before this step did").relayed();
            job.interrupted().or_else(|| job.failure()).unwrap_or_else(ended)
        })
    }

    /// Returns the model with the values that were fetched last, if there are any.
    pub(crate) fn model(&self) -> Option<&M> {
        self.session.as_ref().and_then(|session| session.model().ok())
    }

    /// Sets the learning rate of this trainer's own steps.
    pub(crate) fn set_learning_rate(&mut self, rate: f32) {
        if let Some(session) = &mut self.session {
            session.set_learning_rate(rate);
        }
    }

    /// Returns the number of updates, as this task knows it.
    pub(crate) fn global_step(&self) -> Option<u64> {
        self.session.as_ref().map(Session::global_step)
    }

    /// Makes a call. Every task gives the same `steps`; only the chief runs `coordinate`, unless a former incarnation of it
    /// has completed the call. The model tells whether its values are to replace those on the servers. Also returns this
    /// task's model with the values at the end of the call.
    pub(crate) fn call<T: Outcome>(
        &mut self,
        (model, changed): (M, bool),
        steps: StepFunctions<M>,
        coordinate: impl FnOnce(&mut Coordinator<M>) -> Result<T>,
    ) -> Result<(T, M)> {
        let server = self.server().clone();
        let done = match self.take_part(&server, (model, changed), steps, coordinate) {
            Ok(outcome) => self.newest_model().and_then(|model| Ok((T::from_bytes(split(&outcome)?.1)?, model))),
            Err(error) => Err(error),
        };
        let done = done.and_then(|done| self.confirmed(&server).map(|()| done));
        if let Err(error) = &done {
            server.leave(Some(error));
        }
        done
    }

    fn take_part<T: Outcome>(
        &mut self,
        server: &Server,
        (model, changed): (M, bool),
        steps: StepFunctions<M>,
        coordinate: impl FnOnce(&mut Coordinator<M>) -> Result<T>,
    ) -> Result<Bytes> {
        let call = self.outcomes.len() as u64 + 1;
        if server.task().role == Role::Ps {
            let outcome = wait_for_outcome(server, call)?;
            // The model is there now: what the program does with it afterwards needs its values.
            self.prepare((model, false))?;
            self.outcomes.push(outcome.clone());
            return Ok(outcome);
        }
        if !server.is_chief() {
            return self.serve(server, model, &steps);
        }
        let outcome = self.lead(server, call, (model, changed), steps, coordinate)?;
        self.outcomes.push(outcome.clone());
        Ok(outcome)
    }

    /// A worker's part: it computes steps until the call is over.
    fn serve(&mut self, server: &Server, model: M, steps: &StepFunctions<M>) -> Result<Bytes> {
        let call = self.outcomes.len() as u64 + 1;
        self.prepare((model, false))?;
        let session = self.session.as_mut().ok_or_else(gone)?;
        session.follow_coordinator()?;
        server.record_failure(worker::serve(server, session, steps, call, &self.outcomes))?;
        let outcome = wait_for_outcome(server, call)?;
        self.outcomes.push(outcome.clone());
        Ok(outcome)
    }

    /// Connects to the model on the servers, once. A model that was changed since then replaces theirs.
    fn prepare(&mut self, (model, changed): (M, bool)) -> Result<()> {
        let chief = self.server().is_chief();
        match &mut self.session {
            Some(session) if changed && chief => session.replace(&model),
            Some(_) => Ok(()),
            None => {
                let rounds = chief && matches!(self.options.consistency, Consistency::Rounds { .. });
                self.session = Some(self.supervisor.prepare_coordinated(model, rounds)?.coordinated());
                Ok(())
            }
        }
    }

    fn lead<T: Outcome>(
        &mut self,
        server: &Server,
        call: u64,
        (model, changed): (M, bool),
        steps: StepFunctions<M>,
        coordinate: impl FnOnce(&mut Coordinator<M>) -> Result<T>,
    ) -> Result<Bytes> {
        if self.companion.is_none() && server.config().trainers().len() < 2 {
            return Err(Error::new(Code::BadSetting, "a job with parameter servers needs workers")
                .because("the cluster has a chief and no worker")
                .help("add a worker job to the cluster"));
        }
        let Some(mut companion) = self.companion.take() else {
            return self.coordinate(server, call, (model, changed), steps, coordinate);
        };
        let (led, companion) = std::thread::scope(|scope| {
            let (model_there, steps_there) = (model.clone(), steps.clone());
            let beside = scope.spawn(move || {
                let server = companion.server().clone();
                let served = companion.serve(&server, model_there, &steps_there);
                if let Err(error) = served.and_then(|_| companion.confirmed(&server)) {
                    // Ends the job, whose error the chief returns.
                    server.leave(Some(&error));
                }
                companion
            });
            let led = self.coordinate(server, call, (model, changed), steps, coordinate);
            if let Err(error) = &led {
                server.leave(Some(error));
            }
            (led, beside.join())
        });
        self.companion = companion.ok();
        led
    }

    fn coordinate<T: Outcome>(
        &mut self,
        server: &Server,
        call: u64,
        (model, changed): (M, bool),
        steps: StepFunctions<M>,
        coordinate: impl FnOnce(&mut Coordinator<M>) -> Result<T>,
    ) -> Result<Bytes> {
        self.prepare((model, changed))?;
        if self.heartbeat.is_none() {
            // For evaluators, which only follow the checkpoints.
            self.heartbeat = self.supervisor.kept_in().map(HeartbeatWriter::start).transpose()?;
        }
        if let Some(session) = self.session.as_mut().filter(|session| !session.is_coordinated()) {
            // From now on nobody waits for this trainer.
            session.finish()?;
            self.wait_for_trainers(server, call)?;
        }
        let mut session = self.session.take().ok_or_else(gone)?;
        session.follow_coordinator()?;
        let steps_before = self.outcomes.last().map_or(Ok(0), |outcome| split(outcome).map(|(steps, _)| steps))?;
        let this = Call { number: call, steps_before };
        let mut coordinator = server.record_failure(Coordinator::start(server, session, steps, self.options, this))?;
        // A former incarnation of the chief may have completed it.
        let known = server.coordinator_service()?.outcome(call);
        let done = match known {
            Some(outcome) => Ok(outcome),
            None => coordinate(&mut coordinator).and_then(|done| {
                let steps = coordinator.global_step()?;
                Ok([&steps.to_le_bytes()[..], &done.to_bytes()].concat().into())
            }),
        };
        let mut session = coordinator.finish()?;
        // A program that was asked to stop saves; after a mistake nothing is worth saving.
        let asked = |error: &Error| matches!(error.code(), Code::Interrupted | Code::Terminated);
        let saved = match &done {
            Ok(_) => session.save(),
            Err(error) if asked(error) => session.save_last(),
            Err(_) => Ok(()),
        };
        self.session = Some(session);
        let outcome = done.and_then(|done| saved.map(|()| done))?;
        server.coordinator_service()?.complete(call, outcome.clone());
        Ok(outcome)
    }

    /// Waits until every other trainer has ended its own steps and is in this call, or is lost: the call is to find all
    /// their updates. A trainer that has not joined the job is waited for until the formation deadline.
    fn wait_for_trainers(&mut self, server: &Server, call: u64) -> Result<()> {
        let service = Arc::clone(server.coordinator_service()?);
        let (began, own) = (Instant::now(), server.task());
        let mut logged = Duration::ZERO;
        loop {
            let job = server.job();
            if let Some(error) = job.interrupted().or_else(|| job.failure()) {
                return Err(error);
            }
            let lost: BTreeSet<TaskId> = job.ever_lost().into_iter().map(|(task, _)| task).collect();
            let live: BTreeSet<TaskId> = server.live().into_iter().map(|(task, _)| task).collect();
            let late = began.elapsed() > server.options().formation_deadline;
            let is_away = |task: &TaskId| {
                let comes = live.contains(task) || !(late || lost.contains(task));
                *task != own && comes && !service.is_in(call, *task)
            };
            let away: Vec<TaskId> =
                server.config().trainers().into_iter().map(|(task, _)| task).filter(is_away).collect();
            if away.is_empty() || self.companion.is_some() {
                return Ok(());
            }
            if began.elapsed() > logged + Duration::from_secs(10) {
                logged = began.elapsed();
                let names: Vec<String> = away.iter().map(ToString::to_string).collect();
                server.in_scope(|| tracing::info!("waiting for {} to end their steps", names.join(", ")));
            }
            if let Some(session) = &mut self.session {
                session.finish_lost_updates()?;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Returns the model with the newest values.
    fn newest_model(&mut self) -> Result<M> {
        let session = self.session.as_mut().ok_or_else(gone)?;
        session.refresh()?;
        session.model().cloned()
    }

    /// Tells the chief that this task has what the call left. The chief waits for that, so that no server ends before.
    fn confirmed(&self, server: &Server) -> Result<()> {
        let Some(service) = server.is_chief().then(|| server.coordinator_service()).transpose()? else {
            return confirm(server, self.outcomes.len() as u64);
        };
        let until = Instant::now() + CONFIRMATIONS;
        let own = server.task();
        // A parameter server need not run the program; one that has asked for the outcome does.
        let takes_part = |task: TaskId| task.role != Role::Ps || service.is_in(self.outcomes.len() as u64, task);
        let has_not = |task: TaskId| task != own && takes_part(task) && !service.newest_is_known_by(task);
        let waits = || server.live().iter().any(|(task, _)| has_not(*task));
        while waits() && Instant::now() < until && server.job().failure().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

impl<M: Module> Drop for OnServers<M> {
    fn drop(&mut self) {
        let server = self.server().clone();
        self.companion = None;
        let mut ended = Ok(());
        if std::thread::panicking() {
            server.abandon();
        } else if server.task().role == Role::Ps && !server.has_left() {
            ended = server.join();
        } else if let Some(session) = self.session.take().filter(|own| !own.is_coordinated() && !server.has_left()) {
            // The other trainers may still be at work.
            ended = self.supervisor.stop_with_workers(session);
        } else {
            // The values were saved at the end of the last call.
            // Nothing, if it has left because of an error.
            server.leave(None);
        }
        let heartbeat = self.heartbeat.take().map_or(Ok(()), |heartbeat| heartbeat.end(ended.as_ref().err()));
        for error in [ended.err(), heartbeat.err()].into_iter().flatten() {
            server.in_scope(|| tracing::error!(code = %error.code(), "{error}"));
        }
    }
}

/// Splits an outcome into the committed steps at the end of its call and the value.
fn split(outcome: &[u8]) -> Result<(u64, &[u8])> {
    let malformed = || Error::new(Code::BadMessage, "the outcome of a call is malformed");
    let (steps, value) = outcome.split_first_chunk::<8>().ok_or_else(malformed)?;
    Ok((u64::from_le_bytes(*steps), value))
}

fn gone() -> Error {
    Error::new(Code::Internal, "the model is gone")
}
