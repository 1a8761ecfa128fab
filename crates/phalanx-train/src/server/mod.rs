//! A task of the job: it listens, finds the others, and ends when the job ends.

mod connect;
mod start;

use crate::ServerOptions;
use crate::coordinator::Desk;
use crate::job::Job;
use crate::membership::Membership;
use crate::status::Pulse;
use phalanx_base::{Code, Error, Incarnation, Result, TaskId};
use phalanx_cluster::{Phase, TaskConfig};
use phalanx_data::{Dataset, InputContext};
use phalanx_ps::Store;
use phalanx_ps::server::Service;
use phalanx_wire::{Address, Listening};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// One task, running. Cheap to clone; the last clone to go says goodbye to the job.
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
    job: Arc<Job>,
    membership: Membership,
    store: Option<Arc<Store>>,
    /// What answers for the store.
    service: Option<Arc<Service>>,
    /// Where workers ask the chief for steps.
    desk: Option<Arc<Desk>>,
    listening: Mutex<Option<Listening>>,
    /// The parameter server of a job that is this process alone.
    companion: Option<Server>,
    gone: Mutex<bool>,
    pulse: Arc<Pulse>,
    /// What went wrong in this task's own part, for who leaves without a word.
    failure: Mutex<Option<Error>>,
}

impl Server {
    /// Who this task is.
    #[must_use]
    pub fn task(&self) -> TaskId {
        self.inner.task
    }

    /// Whether this task looks after the job.
    #[must_use]
    pub fn is_chief(&self) -> bool {
        self.inner.membership.is_chief()
    }

    /// The cluster, and this task's place in it.
    #[must_use]
    pub fn config(&self) -> &TaskConfig {
        &self.inner.config
    }

    /// Where this task serves, in TensorFlow's form.
    #[must_use]
    pub fn target(&self) -> String {
        format!("grpc://{}", self.inner.address)
    }

    /// This trainer's share of the input: one pipeline for each trainer, the chief's first.
    ///
    /// # Errors
    /// When this task is no trainer.
    pub fn input_context(&self) -> Result<InputContext> {
        let trainers = self.inner.config.trainers().len();
        let index = self.inner.config.trainer_index();
        let index = index.ok_or_else(|| Error::new(Code::BadSetting, format!("{} reads no input", self.task())))?;
        Ok(InputContext { num_input_pipelines: trainers, input_pipeline_id: index, num_replicas_in_sync: trainers })
    }

    /// This trainer's share of `data`: every element goes to exactly one trainer. How the input is shared is said.
    ///
    /// # Errors
    /// When it cannot be shared.
    pub fn share(&self, data: &Dataset) -> Result<Dataset> {
        let (own, sharding) = data.clone().shard_for(&self.input_context()?)?;
        self.say(&sharding.to_string());
        Ok(own)
    }

    /// Waits until every task of the job has come. Who is missing is said by name meanwhile.
    ///
    /// # Errors
    /// When the job does not form before its deadline, or somebody asks this process to stop.
    pub fn wait_until_formed(&self) -> Result<()> {
        self.inner.job.wait_for(Phase::Running).map(drop)
    }

    /// Waits until the job is over.
    ///
    /// # Errors
    /// When the job failed, the chief is lost, or somebody asks this process to stop.
    pub fn join(&self) -> Result<()> {
        let ended = self.inner.job.wait_for(Phase::Over).map(drop);
        if let Err(error) = &ended {
            self.inner.hold_on(error);
        }
        self.inner.leave(ended.as_ref().err());
        ended
    }

    /// Whether trainers should stop.
    #[must_use]
    pub fn should_stop(&self) -> bool {
        self.inner.job.should_stop()
    }

    /// Ends this task's part: the chief ends the job with it, well or badly.
    pub fn leave(&self, failure: Option<&Error>) {
        self.inner.leave(failure);
    }

    /// Leaves, if this task has not left yet, as dropping the last clone does: the program is done with it.
    pub(crate) fn abandon(&self) {
        self.inner.abandon();
    }

    /// Says something to whoever watches this task.
    pub fn say(&self, line: &str) {
        (self.inner.options.say)(&format!("{}: {line}", self.inner.task));
    }

    /// What this task holds, if it is a parameter server.
    #[must_use]
    pub fn store(&self) -> Option<&Arc<Store>> {
        self.inner.store.as_ref()
    }

    /// Remembers an error of this task's own part: should the program drop everything and go, this is what the job
    /// hears.
    pub(crate) fn note<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            let mut failure = self.inner.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert_with(|| error.clone());
        }
        result
    }

    /// The chief: whether other trainers are at work.
    pub(crate) fn has_trainers(&self) -> bool {
        self.inner.membership.has_trainers()
    }

    /// A trainer that has done its part waits until the job is over: should the chief fail to save the last checkpoint, the
    /// job has not succeeded, and neither has this task.
    ///
    /// # Errors
    /// When the job failed, or somebody asked this process to stop.
    pub(crate) fn wait_as_done(&self) -> Result<()> {
        self.inner.membership.done();
        self.inner.job.wait_for(Phase::Over).map(drop)
    }

    /// The chief: tells the other trainers to stop; servers stay.
    pub(crate) fn stop_trainers(&self) {
        self.inner.membership.stop_trainers();
    }

    /// The chief: the incarnations of the tasks that are here, its own among them.
    pub(crate) fn live(&self) -> BTreeSet<(TaskId, Incarnation)> {
        self.inner.membership.live()
    }

    /// The chief: a lost server may come back from now on.
    pub(crate) fn wait_for_servers(&self) {
        self.inner.membership.wait_for_servers();
    }

    /// The chief: workers may come and go as they like.
    pub(crate) fn take_any_workers(&self) {
        self.inner.membership.take_any_workers();
    }

    /// The chief: ends the job badly, for everybody.
    pub(crate) fn fail_job(&self, error: Error) {
        self.inner.membership.fail(error);
    }

    /// The chief: where workers ask for steps.
    pub(crate) fn desk(&self) -> Result<&Arc<Desk>> {
        self.inner.desk.as_ref().ok_or_else(|| Error::new(Code::Internal, "only the chief coordinates"))
    }

    pub(crate) fn options(&self) -> &ServerOptions {
        &self.inner.options
    }

    /// The chief: takes note of lives that the servers know and that are nobody's now.
    pub(crate) fn take_over(&self, known: BTreeSet<(TaskId, Incarnation)>) {
        self.inner.membership.take_over(known);
    }

    /// Says at which global step this job is to end, for whoever watches it.
    pub fn expect_steps(&self, last: u64) {
        self.inner.pulse.expect(last);
    }

    pub(crate) fn pulse(&self) -> &Pulse {
        &self.inner.pulse
    }

    pub(crate) fn job(&self) -> &Job {
        &self.inner.job
    }
}

impl Inner {
    /// A server that was asked to stop stays a little: the chief, which was asked too, wants to save.
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
            crate::status::failed(dir, self.task, error);
        }
        self.membership.leave(&self.job, failure);
        if let Some(companion) = &self.companion {
            companion.leave(None);
        }
        let listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(listening) = listening {
            listening.stop();
        }
    }

    /// A task that goes without a word would be waited for: this tells the job that it went, and why.
    fn abandon(&self) {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        let unplanned = || {
            Error::new(Code::JobFailed, format!("{} stopped without finishing its part", self.task))
                .help("end a trainer's part with Supervisor::stop, and a parameter server's with Server::join")
        };
        self.leave(Some(&failure.unwrap_or_else(unplanned)));
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.abandon();
    }
}
