//! A task of a job: it listens, joins the other tasks, and ends with the job.

mod connect;
mod mortal;
mod part;
mod start;

use mortal::MortalTransport;
use part::Part;
pub(crate) use part::{catch_panic, panic_text};
pub(crate) use start::warn_of_strangers;

use crate::coordinator::CoordinatorService;
use crate::job::Job;
use crate::logging::LogScope;
use crate::membership::{Chief, Membership};
use crate::status::{ProgressCounters, SharedWriter};
use crate::{ServerOptions, placement};
use phalanx_base::{Code, Error, Fault, Incarnation, Result, Role, TaskId};
use phalanx_cluster::{Phase, TaskConfig};
use phalanx_data::{Dataset, InputContext};
use phalanx_ps::server::Service;
use phalanx_ps::{Layout, Store};
use phalanx_run::StatusDir;
use phalanx_wire::{Address, Listening};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A running task. Cheap to clone; when the last clone is dropped, the task leaves the job.
///
/// ```no_run
/// use phalanx_cluster::ClusterSpec;
/// use phalanx_train::Server;
/// let cluster = ClusterSpec::new().job("worker", ["localhost:2223"]).job("ps", ["localhost:2221"]);
/// let server = Server::start(&cluster, "ps", 0)?;
/// server.join()?; // returns when the job is over
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone)]
pub struct Server {
    inner: Arc<Inner>,
}

struct Inner {
    config: TaskConfig,
    task: TaskId,
    incarnation: Incarnation,
    address: Address,
    options: ServerOptions,
    log: LogScope,
    job: Arc<Job>,
    membership: Membership,
    store: Option<Arc<Store>>,
    /// The service of the store.
    service: Option<Arc<Service>>,
    /// Where workers poll the chief for steps.
    coordinator_service: Option<Arc<CoordinatorService>>,
    listening: Mutex<Option<Listening>>,
    /// The parameter server of a job that is this process alone.
    companion: Option<Server>,
    gone: Mutex<bool>,
    /// Set when a test kills the task.
    killed: Arc<AtomicBool>,
    progress: Arc<ProgressCounters>,
    status: Option<SharedWriter>,
    /// How far this task's own part is, for a program that drops the task without a reason.
    part: Mutex<Part>,
}

impl Server {
    /// Returns the id of this task.
    #[must_use]
    pub fn task(&self) -> TaskId {
        self.inner.task
    }

    /// Returns the task that logs and errors name; see [`ServerOptions::known_as`].
    pub(crate) fn known_as(&self) -> TaskId {
        self.inner.options.known_as.unwrap_or(self.inner.task)
    }

    /// Returns whether this task is the chief.
    #[must_use]
    pub fn is_chief(&self) -> bool {
        self.chief().is_some()
    }

    /// Returns the cluster, and which task of it this is.
    #[must_use]
    pub fn config(&self) -> &TaskConfig {
        &self.inner.config
    }

    /// Returns the address of this task, in TensorFlow's form.
    #[must_use]
    pub fn target(&self) -> String {
        format!("grpc://{}", self.inner.address)
    }

    /// Returns this trainer's share of the input: one pipeline for each trainer, the chief's first.
    ///
    /// # Errors
    /// When this task is not a trainer.
    pub fn input_context(&self) -> Result<InputContext> {
        let trainers = self.inner.config.trainers().len();
        let index = self.inner.config.trainer_index();
        let index = index.ok_or_else(|| Error::new(Code::BadSetting, format!("{} reads no input", self.task())))?;
        Ok(InputContext { num_input_pipelines: trainers, input_pipeline_id: index, num_replicas_in_sync: trainers })
    }

    /// Returns this trainer's share of `data`: every element goes to exactly one trainer. Logs how the input is shared.
    ///
    /// # Errors
    /// When the data cannot be shared.
    pub fn share(&self, data: &Dataset) -> Result<Dataset> {
        let (own, sharding) = data.clone().shard_for(&self.input_context()?)?;
        self.in_scope(|| tracing::info!("{sharding}"));
        Ok(own)
    }

    /// Waits until every task of the job has joined. Logs the missing tasks meanwhile.
    ///
    /// # Errors
    /// When the job does not form before its deadline, or this process is asked to stop.
    pub fn wait_until_formed(&self) -> Result<()> {
        self.inner.job.wait_for(Phase::Running).map(drop)
    }

    /// Waits until the job is over.
    ///
    /// # Errors
    /// When the job failed, the chief is lost, or this process is asked to stop.
    pub fn join(&self) -> Result<()> {
        let ended = self.inner.job.wait_for(Phase::Over).map(drop);
        if let Err(error) = &ended {
            self.inner.hold_on(error);
        }
        self.inner.leave(ended.as_ref().err());
        ended
    }

    /// Returns whether trainers should stop.
    #[must_use]
    pub fn should_stop(&self) -> bool {
        self.inner.job.should_stop()
    }

    /// Leaves the job. The chief ends the job with it, successfully or with `failure`.
    pub fn leave(&self, failure: Option<&Error>) {
        self.inner.leave(failure);
    }

    /// Leaves, if this task has not left yet, as dropping the last clone does.
    pub(crate) fn abandon(&self) {
        // The other tasks get the error.
        let _ = self.inner.end_part();
    }

    /// Returns whether this task has left its job.
    pub(crate) fn has_left(&self) -> bool {
        *self.inner.gone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the task as a killed process ends: its heartbeats stop, its connections die, and it tells nobody. What its
    /// thread does meanwhile reaches no other task.
    pub(crate) fn kill(&self) {
        self.inner.kill();
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.inner.killed.load(Ordering::Acquire)
    }

    /// Returns the switch that cuts this task's connections.
    pub(crate) fn kill_switch(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.inner.killed)
    }

    /// Runs `f` in the task's log scope: the events that it emits carry the task.
    pub fn in_scope<T>(&self, f: impl FnOnce() -> T) -> T {
        self.inner.log.run(f)
    }

    pub(crate) fn log(&self) -> &LogScope {
        &self.inner.log
    }

    /// Returns the values that this task holds, if it is a parameter server.
    #[must_use]
    pub fn store(&self) -> Option<&Arc<Store>> {
        self.inner.store.as_ref()
    }

    /// Records an error of this task's own part: if the program drops the task without a reason, the job gets this one.
    /// Where the job has failed, that is the reason, not a connection that was lost with it.
    pub(crate) fn record_failure<T>(&self, result: Result<T>) -> Result<T> {
        let result = result.map_err(|error| match self.inner.job.failure() {
            Some(failure) if error.code().fault() == Fault::Infrastructure => failure,
            _ => error,
        });
        if let Err(error) = &result {
            self.inner.part.lock().unwrap_or_else(PoisonError::into_inner).fail(error);
        }
        result
    }

    /// Returns the roster and its operations, where this task is the chief.
    pub(crate) fn chief(&self) -> Option<&Chief> {
        self.inner.membership.as_chief()
    }

    /// The chief: returns whether other trainers are at work.
    pub(crate) fn has_trainers(&self) -> bool {
        self.chief().is_some_and(Chief::has_trainers)
    }

    /// Waits, as a trainer that has done its part, until the job is over: if the chief fails to save the last checkpoint, the
    /// job has failed, and so has this task.
    ///
    /// # Errors
    /// When the job failed, or this process was asked to stop.
    pub(crate) fn wait_as_done(&self) -> Result<()> {
        self.set_done();
        self.inner.job.wait_for(Phase::Over).map(drop)
    }

    /// Tells the chief that this trainer has done its part, so that the job need not wait for it.
    pub(crate) fn set_done(&self) {
        self.inner.membership.done();
    }

    /// The chief: returns the incarnations of the present tasks, its own among them.
    pub(crate) fn live(&self) -> BTreeSet<(TaskId, Incarnation)> {
        self.chief().map_or_else(BTreeSet::new, Chief::live)
    }

    /// The chief: returns the service that workers poll for steps.
    pub(crate) fn coordinator_service(&self) -> Result<&Arc<CoordinatorService>> {
        self.inner.coordinator_service.as_ref().ok_or_else(|| Error::new(Code::Internal, "only the chief coordinates"))
    }

    pub(crate) fn incarnation(&self) -> Incarnation {
        self.inner.incarnation
    }

    pub(crate) fn options(&self) -> &ServerOptions {
        &self.inner.options
    }

    /// Sets the global step at which this job is to end, for its status.
    pub fn expect_steps(&self, last: u64) {
        self.inner.progress.expect(last);
    }

    /// Records where the shards of the model lie, for `phalanx status` and the dashboard. Errors are ignored: training continues
    /// without that file.
    pub(crate) fn record_placement(&self, layout: &Layout) {
        let Some(dir) = &self.inner.options.status_dir else { return };
        // A job of one process holds its model itself.
        let alone = self.inner.companion.as_ref().map(|_| self.known_as());
        let holder = |server: usize| alone.unwrap_or_else(|| TaskId::new(Role::Ps, server as u32));
        let _ = StatusDir::at(dir).write_placement(self.known_as(), &placement::of_layout(layout, holder));
    }

    pub(crate) fn progress(&self) -> &ProgressCounters {
        &self.inner.progress
    }

    pub(crate) fn job(&self) -> &Job {
        &self.inner.job
    }
}

impl Inner {
    /// A parameter server that was asked to stop stays a little: the chief was asked, too, and wants to save.
    fn hold_on(&self, why: &Error) {
        let longest = match why.code() {
            Code::Interrupted => Duration::from_secs(5),
            Code::Terminated => Duration::from_secs(25),
            _ => return,
        };
        if self.store.as_ref().is_some_and(|store| store.is_ready()) {
            self.job.wait_until_over(longest);
        }
    }

    fn leave(&self, failure: Option<&Error>) {
        let mut gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut *gone, true) {
            return;
        }
        if let (Some(error), Some(dir)) = (failure, &self.options.status_dir) {
            crate::status::failed(dir, self.options.known_as.unwrap_or(self.task), error);
        }
        self.membership.leave(&self.job, failure);
        // The counts of updates at the end, which readers compare.
        if let Some(status) = &self.status {
            status.write(self.job.phase());
        }
        if let Some(companion) = &self.companion {
            companion.leave(None);
        }
        let listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(listening) = listening {
            listening.stop();
        }
        // After a failure of machines or networks the job is started again, and continues from the log.
        let is_over = self.job.phase() == Phase::Over;
        let again = self.job.failure().is_some_and(|error| error.code().fault() == Fault::Infrastructure);
        if let Some(store) = self.store.as_ref().filter(|_| is_over && !again) {
            store.remove_log();
        }
    }

    fn kill(&self) {
        let mut gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        self.killed.store(true, Ordering::Release);
        if std::mem::replace(&mut *gone, true) {
            return;
        }
        let listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(listening) = listening {
            listening.stop();
        }
        // Ends this task's own threads.
        self.job.kill(Error::new(Code::JobFailed, format!("{} was killed", self.task)));
    }

    /// Leaves without an error if this task's part is done, and otherwise with one: the job would wait for a task that is gone
    /// without a reason.
    fn end_part(&self) -> Result<()> {
        if *self.gone.lock().unwrap_or_else(PoisonError::into_inner) {
            return Ok(());
        }
        let ended = self.part.lock().unwrap_or_else(PoisonError::into_inner).end(self.task);
        self.leave(ended.as_ref().err());
        ended
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Nobody is left to take the error.
        let _ = self.end_part();
    }
}
