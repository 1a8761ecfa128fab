//! A model on parameter servers: this task's part of every call that the program makes with it.

use super::codec::{decode, encode_outcome, steps_of_outcome};
use super::other_tasks::{wait_for_confirmations, wait_for_trainers};
use super::outcomes::{confirm, wait_for_outcome};
use super::{Call, Coordinator, StepFunctions, worker};
use crate::heartbeat::Heartbeat;
use crate::tables::{ModelTables, RowReader, ServerRows};
use crate::{Server, Session, StepGradients, Supervisor, TableId};
use bytes::Bytes;
use phalanx_base::{Code, Error, Result, Role};
use phalanx_cluster::schedule::{Consistency, SchedulerOptions};
use phalanx_nn::ParameterRegistry;
use phalanx_nn::burn::module::Module;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Instant;

/// The model of this task's program as it goes into a call.
pub(crate) struct ProgramModel<M> {
    /// Without its tables.
    pub(crate) module: M,
    pub(crate) tables: ModelTables,
    /// Lets a model with tables look their rows up on the servers.
    pub(crate) with_rows: fn(M, Arc<ServerRows>) -> M,
    /// Whether its values are to replace those on the servers.
    pub(crate) changed: bool,
}

impl<M: Module> ProgramModel<M> {
    /// A model that the program has not changed, and whose tables, if any, are the supervisor's.
    pub(crate) fn of(module: M) -> Self {
        Self { module, tables: ModelTables::default(), with_rows: |module, _| module, changed: false }
    }

    fn unchanged(&self) -> Self {
        Self { module: self.module.clone(), tables: self.tables.clone(), with_rows: self.with_rows, changed: false }
    }
}

/// This task's part of a job whose variables are on parameter servers.
///
/// Every task makes the same calls. The chief carries a call out and the workers compute its steps; parameter servers only
/// wait. All return the same outcome. Dropping it ends the task's part: the chief ends the job, and a parameter server
/// serves until then.
pub(crate) struct OnServers<M: Module> {
    supervisor: Supervisor,
    options: SchedulerOptions,
    /// Whether the chief saves at the end of every call.
    saves_calls: bool,
    session: Option<Session<M>>,
    /// The outcomes of the calls before.
    outcomes: Vec<Bytes>,
    heartbeat: Heartbeat,
    /// The worker of a job that is this process alone.
    companion: Option<Box<Self>>,
    /// How many trainers take steps of their own.
    trainers: usize,
    /// Where models look up rows, once there is a session of a model with tables.
    rows: Option<Arc<ServerRows>>,
    /// The learning rate that the program has set.
    rate: Option<f32>,
}

impl<M: Module> OnServers<M> {
    pub(crate) fn new(supervisor: Supervisor, options: SchedulerOptions) -> Self {
        if let Some(chief) = supervisor.server().chief() {
            chief.take_any_workers();
        }
        let trainers = supervisor.server().config().trainers().len();
        let (session, outcomes, heartbeat, companion) = (None, Vec::new(), Heartbeat::default(), None);
        let saves_calls = true;
        Self {
            supervisor,
            options,
            saves_calls,
            session,
            outcomes,
            heartbeat,
            companion,
            trainers,
            rows: None,
            rate: None,
        }
    }

    /// Lets `worker` compute the steps beside this task, in a job of one process.
    pub(crate) fn with_companion(mut self, worker: Self) -> Self {
        (self.companion, self.trainers) = (Some(Box::new(worker)), 1);
        self
    }

    /// Leaves it to the program when the chief saves.
    pub(crate) fn without_saves(mut self) -> Self {
        self.saves_calls = false;
        self
    }

    pub(crate) fn server(&self) -> &Server {
        self.supervisor.server()
    }

    /// Takes a step of this trainer's own: fetches the newest values, computes, and hands over the gradients. In synchronous
    /// training it waits until the update is made. `compute` returns its value, and the gradients if it has any. An error ends
    /// this task's part, unless the job is ending: then dropping this ends it.
    pub(crate) fn step<T>(
        &mut self,
        model: ProgramModel<M>,
        compute: impl FnOnce(&M, &ParameterRegistry, Option<&Arc<ServerRows>>) -> Result<(T, Option<StepGradients>)>,
    ) -> Result<T> {
        let stepped = self.try_step(model, compute);
        if let Err(error) = &stepped
            && !self.server().should_stop()
        {
            self.fail(error);
        }
        stepped
    }

    fn try_step<T>(
        &mut self,
        model: ProgramModel<M>,
        compute: impl FnOnce(&M, &ParameterRegistry, Option<&Arc<ServerRows>>) -> Result<(T, Option<StepGradients>)>,
    ) -> Result<T> {
        self.prepare(model)?;
        let session = self.session.as_mut().ok_or_else(gone)?;
        if session.is_coordinated() {
            self.supervisor.let_drive(session)?;
            session.wait_for_trainers(self.trainers, self.supervisor.server().options().formation_deadline)?;
        }
        let rows = self.rows.as_ref();
        if let Some(rate) = self.rate {
            session.set_learning_rate(rate);
        }
        let (mut value, mut pushes) = (None, false);
        let step = session.step_with_gradients(&[], |module, registry, _| {
            let (computed, gradients) = compute(module, registry, rows)?;
            (value, pushes) = (Some(computed), gradients.is_some());
            Ok(gradients.unwrap_or_default())
        })?;
        if !pushes {
            session.forget_last_step();
        }
        if session.is_synchronous() {
            session.commit()?;
        }
        value.filter(|_| step.is_some()).ok_or_else(|| {
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
        self.rate = Some(rate);
    }

    /// Returns whether this is the only trainer that takes steps of its own.
    pub(crate) fn is_alone(&self) -> bool {
        self.trainers < 2
    }

    /// Returns the number of updates, as this task knows it.
    pub(crate) fn global_step(&self) -> Option<u64> {
        self.session.as_ref().map(Session::global_step)
    }

    /// Makes a call. Every task gives the same `steps`; only the chief runs `coordinate`, unless a former incarnation of it
    /// has completed the call. Also returns this task's model with the values at the end of the call. `None` if the chief was
    /// asked to stop before there was an outcome.
    pub(crate) fn call<T: Serialize + DeserializeOwned>(
        &mut self,
        model: ProgramModel<M>,
        steps: StepFunctions<M>,
        coordinate: impl FnOnce(&mut Coordinator<M>) -> Result<T>,
    ) -> Result<Option<(T, ProgramModel<M>)>> {
        let server = self.server().clone();
        let (tables, with_rows) = (model.tables.clone(), model.with_rows);
        let done = match self.take_part(&server, model, steps, coordinate) {
            Ok(Some(outcome)) => self.newest_model(tables).and_then(|(module, tables)| {
                let (_, value): (u64, T) = decode("the outcome of this call", &outcome)?;
                Ok((value, ProgramModel { module, tables, with_rows, changed: false }))
            }),
            // If the chief cannot save, the job has failed after all.
            Ok(None) => return server.wait_as_done().map(|()| None),
            Err(error) => Err(error),
        };
        let done = done.and_then(|done| self.confirmed(&server).map(|()| done));
        if let Err(error) = &done {
            self.fail(error);
        }
        done.map(Some)
    }

    /// Ends this task's part with an error, which every other task gets. A training that was asked to stop has not failed.
    fn fail(&mut self, error: &Error) {
        if !is_stop(error) {
            self.heartbeat.fail(error);
        }
        self.server().leave(Some(error));
    }

    fn take_part<T: Serialize>(
        &mut self,
        server: &Server,
        model: ProgramModel<M>,
        steps: StepFunctions<M>,
        coordinate: impl FnOnce(&mut Coordinator<M>) -> Result<T>,
    ) -> Result<Option<Bytes>> {
        let call = self.outcomes.len() as u64 + 1;
        if server.task().role == Role::Ps {
            let Some(outcome) = wait_for_outcome(server, call)? else { return Ok(None) };
            // The model is there now: what the program does with it afterwards needs its values.
            self.prepare(model.unchanged())?;
            self.outcomes.push(outcome.clone());
            return Ok(Some(outcome));
        }
        if !server.is_chief() {
            return self.serve(server, model.unchanged(), &steps);
        }
        let outcome = self.lead(server, call, model, steps, coordinate)?;
        self.outcomes.push(outcome.clone());
        Ok(Some(outcome))
    }

    /// A worker's part: it computes steps until the call is over.
    fn serve(&mut self, server: &Server, model: ProgramModel<M>, steps: &StepFunctions<M>) -> Result<Option<Bytes>> {
        let call = self.outcomes.len() as u64 + 1;
        self.prepare(model)?;
        let session = self.session.as_mut().ok_or_else(gone)?;
        session.follow_coordinator()?;
        server.record_failure(worker::serve(server, session, steps, call, &self.outcomes))?;
        let outcome = wait_for_outcome(server, call)?;
        self.outcomes.extend(outcome.clone());
        Ok(outcome)
    }

    /// Connects to the model on the servers, once. A model that was changed since then replaces theirs.
    fn prepare(&mut self, ProgramModel { module, tables, with_rows, changed }: ProgramModel<M>) -> Result<()> {
        let chief = self.server().is_chief();
        if let Some(rows) = &self.rows {
            // From now on the servers have newer ones than this task.
            rows.give(None);
        }
        match &mut self.session {
            Some(session) if changed && chief => {
                session.replace(&module)?;
                tables.held().try_for_each(|(table, rows)| session.replace_rows(TableId(table), rows))
            }
            Some(_) => Ok(()),
            None => {
                let rounds = chief && matches!(self.options.consistency, Consistency::Rounds { .. });
                self.supervisor.set_first_rows(tables.held().map(|(table, rows)| (table, Arc::clone(rows))).collect());
                let mut session = self.supervisor.prepare_coordinated(module, rounds)?;
                self.supervisor.set_first_rows(Vec::new());
                if !tables.is_empty() {
                    let rows = session.rows()?;
                    self.rows = Some(Arc::clone(&rows));
                    session.change_model(|module| with_rows(module, rows));
                }
                self.session = Some(session);
                Ok(())
            }
        }
    }

    fn lead<T: Serialize>(
        &mut self,
        server: &Server,
        call: u64,
        model: ProgramModel<M>,
        steps: StepFunctions<M>,
        coordinate: impl FnOnce(&mut Coordinator<M>) -> Result<T>,
    ) -> Result<Bytes> {
        if self.companion.is_none() && server.config().trainers().len() < 2 {
            return Err(Error::new(Code::BadSetting, "a job with parameter servers needs workers")
                .because("the cluster has a chief and no worker")
                .help("add a worker job to the cluster"));
        }
        let Some(mut companion) = self.companion.take() else {
            return self.coordinate(server, call, model, steps, coordinate);
        };
        let (led, companion) = std::thread::scope(|scope| {
            let (model_there, steps_there) = (model.unchanged(), steps.clone());
            let beside = scope.spawn(move || {
                let server = companion.server().clone();
                let served = companion.serve(&server, model_there, &steps_there);
                if let Err(error) = served.and_then(|_| companion.confirmed(&server)) {
                    // Ends the job, whose error the chief returns.
                    server.leave(Some(&error));
                }
                companion
            });
            let led = self.coordinate(server, call, model, steps, coordinate);
            if let Err(error) = &led {
                server.leave(Some(error));
            }
            (led, beside.join())
        });
        self.companion = companion.ok();
        led
    }

    fn coordinate<T: Serialize>(
        &mut self,
        server: &Server,
        call: u64,
        model: ProgramModel<M>,
        steps: StepFunctions<M>,
        coordinate: impl FnOnce(&mut Coordinator<M>) -> Result<T>,
    ) -> Result<Bytes> {
        self.prepare(model)?;
        if let Some(dir) = self.supervisor.kept_in() {
            // For evaluators, which only follow the checkpoints.
            self.heartbeat.start(dir)?;
        }
        if let Some(session) = self.session.as_mut().filter(|session| !session.is_coordinated()) {
            // From now on nobody waits for this trainer.
            session.finish()?;
            self.wait_for_trainers(server, call)?;
        }
        let mut session = self.session.take().ok_or_else(gone)?;
        session.follow_coordinator()?;
        let steps_before = self.outcomes.last().map_or(Ok(0), |outcome| steps_of_outcome(outcome))?;
        let this = Call { number: call, steps_before };
        let mut coordinator = server.record_failure(Coordinator::start(server, session, steps, self.options, this))?;
        // A former incarnation of the chief may have completed it.
        let known = server.coordinator_service()?.outcome(call);
        let done = match known {
            Some(outcome) => Ok(outcome),
            None => coordinate(&mut coordinator).and_then(|done| encode_outcome(coordinator.global_step()?, &done)),
        };
        let mut session = coordinator.finish()?;
        // A program that was asked to stop saves; after a mistake nothing is worth saving.
        let saved = match &done {
            Ok(_) if self.saves_calls => session.save(),
            Ok(_) => Ok(()),
            Err(error) if is_stop(error) => session.save_last(),
            Err(_) => Ok(()),
        };
        self.session = Some(session);
        let outcome = done.and_then(|done| saved.map(|()| done))?;
        server.coordinator_service()?.complete(call, outcome.clone());
        Ok(outcome)
    }

    /// Waits for the trainers' own steps. A trainer that has not joined the job is waited for until the formation deadline.
    fn wait_for_trainers(&mut self, server: &Server, call: u64) -> Result<()> {
        if self.companion.is_some() {
            return Ok(());
        }
        let until = Instant::now() + server.options().formation_deadline;
        let is_lost = |task| server.job().ever_lost().iter().any(|(lost, _)| *lost == task);
        let may_join = |task| Instant::now() < until && !is_lost(task);
        wait_for_trainers(server, call, may_join, || self.session.as_mut().map_or(Ok(()), Session::finish_lost_updates))
    }

    /// Returns the model with the newest values, and its tables.
    fn newest_model(&mut self, mut tables: ModelTables) -> Result<(M, ModelTables)> {
        let session = self.session.as_mut().ok_or_else(gone)?;
        session.refresh()?;
        if let Some(rows) = &self.rows {
            tables.connect(rows);
            tables.take_small()?;
            tables.give_held();
        }
        Ok((session.model()?.clone(), tables))
    }

    /// Returns where models look up rows, if the model has tables and is on the servers.
    pub(crate) fn rows(&self) -> Option<&Arc<ServerRows>> {
        self.rows.as_ref()
    }

    /// Returns a reader of rows for this task's program.
    pub(crate) fn row_reader(&mut self) -> Result<RowReader> {
        Ok(RowReader::new(self.session.as_mut().ok_or_else(gone)?.rows()?))
    }

    /// Tells the chief that this task has what the call left. The chief waits for that, so that no server ends before.
    fn confirmed(&self, server: &Server) -> Result<()> {
        let call = self.outcomes.len() as u64;
        if server.is_chief() { wait_for_confirmations(server, call) } else { confirm(server, call) }
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
            // The values were saved at the end of the last call. A task that failed has left already.
            let session = self.session.as_ref().filter(|_| !server.has_left());
            session.into_iter().for_each(Session::end_summaries);
            server.leave(None);
        }
        if let Err(error) = ended {
            self.heartbeat.fail(&error);
            server.in_scope(|| tracing::error!(code = %error.code(), "{error}"));
        }
    }
}

/// Returns whether a process ended because it was asked to.
fn is_stop(error: &Error) -> bool {
    matches!(error.code(), Code::Interrupted | Code::Terminated)
}

fn gone() -> Error {
    Error::new(Code::Internal, "the model is gone")
}
