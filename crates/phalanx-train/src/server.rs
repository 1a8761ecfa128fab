//! A task of the job: it listens, finds the others, and ends when the job ends.

use crate::coordinator::Desk;
use crate::job::Job;
use crate::membership::{Membership, Who};
use crate::status::{Pulse, Reporter};
use crate::{ClusterResolver, ServerOptions, identity};
use phalanx_base::{Code, Error, Incarnation, Result, Role, TaskId};
use phalanx_cluster::{ClusterSpec, Phase, TaskConfig};
use phalanx_data::{Dataset, InputContext};
use phalanx_ps::client::Options as ClientOptions;
use phalanx_ps::server::Service;
use phalanx_ps::{Client, Store};
use phalanx_wire::bulk::{self, Transport};
use phalanx_wire::{Address, Endpoint, Listening};
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
    /// Starts task `index` of `job`, with the token of the environment.
    ///
    /// # Errors
    /// When the cluster does not list the task, or its port cannot be used.
    pub fn start(cluster: &ClusterSpec, job: &str, index: u32) -> Result<Self> {
        let config = TaskConfig::from_cluster(cluster.clone(), TaskId::new(job.parse()?, index))?;
        Self::start_with(config, ServerOptions::from_env()?)
    }

    /// The task that a resolver names.
    ///
    /// # Errors
    /// When it names none, or as [`Self::start_with`].
    pub fn resolved(resolver: &impl ClusterResolver, options: ServerOptions) -> Result<Self> {
        Self::start_with(resolver.resolve()?, options)
    }

    /// Starts the task that `config` names; without a cluster this process is the whole job.
    ///
    /// # Errors
    /// When the task's port cannot be used.
    pub fn start_with(config: TaskConfig, options: ServerOptions) -> Result<Self> {
        let Some(task) = config.task() else { return crate::local::start(options) };
        if task.role == Role::Evaluator {
            return Err(Error::new(Code::ConfigEvaluator, "an evaluator has no server")
                .at(task.to_string())
                .because("it follows checkpoints and talks to nobody; chief, worker and ps have servers")
                .help("give this process another task"));
        }
        let address: Address = config.address_of(task)?.parse()?;
        let listening =
            Listening::bind(&address, options.threads).map_err(|error| error.at(format!("{task} at {address}")))?;
        Self::start_on(listening, config, options, None)
    }

    /// A job that is this process alone: it computes, and holds its own parameters.
    ///
    /// # Errors
    /// When the operating system gives us no port.
    pub fn local() -> Result<Self> {
        crate::local::start(ServerOptions::default())
    }

    pub(crate) fn start_on(
        mut listening: Listening,
        config: TaskConfig,
        options: ServerOptions,
        companion: Option<Self>,
    ) -> Result<Self> {
        let (Some(task), Some((chief, chief_address))) = (config.task(), config.chief()) else {
            return Err(Error::new(Code::Internal, "a server needs a cluster"));
        };
        let address: Address = config.address_of(task)?.parse()?;
        let build = options.build.clone().map_or_else(identity::build, Ok)?;
        let incarnation = identity::new_incarnation();
        let who = Who { job: config.job_id(), task, incarnation, build, address: address.to_string() };
        let job = Arc::new(Job::new(options.interrupt.clone()));
        let membership = if task == chief {
            let others = addresses(config.tasks().into_iter().filter(|(other, _)| *other != task))?;
            Membership::chief(who, others, Arc::clone(&job), options.clone())
        } else {
            let chief = (chief, chief_address.parse()?);
            Membership::member(who, chief, Arc::clone(&job), options.clone())
        };
        let store = (task.role == Role::Ps).then(Arc::<Store>::default);
        let digest = identity::digest(&config.job_id());
        let desk = (task == chief).then(|| Arc::new(Desk::new(digest)));
        let service = |store: &Arc<Store>| Arc::new(Service::new(Arc::clone(store), digest, task, incarnation));
        let service = store.as_ref().map(service);
        let answers = service.clone().map(|service| service as _).or_else(|| desk.clone().map(|desk| desk as _));
        let control = membership.handler();
        if options.token.is_none() && !address.is_loopback() {
            (options.say)(&format!(
                "{task}: warning: whoever reaches port {} may take part in this job; set PHALANX_TOKEN on every task",
                address.port()
            ));
        }
        listening.serve(Endpoint { control, bulk: answers, token: options.token.clone() })?;
        membership.watch()?;
        let pulse = Arc::<Pulse>::default();
        if let Some(dir) = &options.status_dir {
            let job = Arc::clone(&job);
            Reporter::new(dir, task, store.clone(), &pulse).start(move || job.phase())?;
        }
        let listening = Mutex::new(Some(listening));
        let (gone, failure) = (Mutex::new(false), Mutex::new(None));
        let inner = Inner {
            config,
            task,
            incarnation,
            address,
            options,
            job,
            membership,
            store,
            service,
            desk,
            listening,
            companion,
            gone,
            pulse,
            failure,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

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

    /// Says something to whoever watches this task.
    pub fn say(&self, line: &str) {
        (self.inner.options.say)(&format!("{}: {line}", self.inner.task));
    }

    /// What this task holds, if it is a parameter server.
    #[must_use]
    pub fn store(&self) -> Option<&Arc<Store>> {
        self.inner.store.as_ref()
    }

    /// Connections to the parameter servers.
    ///
    /// # Errors
    /// When the cluster has none.
    pub fn client(&self) -> Result<Client> {
        self.client_with(self.client_options())
    }

    /// Connections that hold until `stop` says otherwise, also when somebody asks this process to stop: for the last save.
    pub(crate) fn client_until(&self, stop: impl Fn(&Job) -> bool + Send + Sync + 'static) -> Result<Client> {
        let mut options = self.client_options();
        let job = Arc::clone(&self.inner.job);
        options.stop = Arc::new(move || stop(&job));
        self.client_with(options)
    }

    fn client_with(&self, options: ClientOptions) -> Result<Client> {
        match self.inner.companion.as_ref().and_then(Self::way_inside) {
            Some(server) => Client::inside(server, options),
            None => Client::connect(&self.servers()?, options),
        }
    }

    /// How this same process reaches its server.
    fn way_inside(&self) -> Option<Box<dyn Transport>> {
        let listening = self.inner.listening.lock().unwrap_or_else(PoisonError::into_inner);
        let (service, runtime) = (self.inner.service.clone()?, listening.as_ref()?.runtime().clone());
        Some(bulk::inside(service, runtime, format!("{} at {}", self.inner.task, self.inner.address)))
    }

    /// Who this task is to parameter servers, and how patient it is.
    #[must_use]
    pub fn client_options(&self) -> ClientOptions {
        let inner = &self.inner;
        let mut options = ClientOptions::new(identity::digest(&inner.config.job_id()), inner.task, inner.incarnation);
        options.token = inner.options.token.clone();
        // Longer than the chief waits for a lost server: it is the chief who gives up.
        options.patience = inner.options.server_grace + inner.options.lease + Duration::from_secs(10);
        let job = Arc::clone(&inner.job);
        options.stop = Arc::new(move || job.phase() == Phase::Over || job.interrupted().is_some());
        options
    }

    /// The parameter servers and where they are.
    ///
    /// # Errors
    /// When the cluster has none, or an address is malformed.
    pub fn servers(&self) -> Result<Vec<(TaskId, Address)>> {
        let servers = addresses(self.inner.config.ps_addresses().into_iter())?;
        if servers.is_empty() {
            return Err(Error::new(Code::BadSetting, "the cluster has no parameter server")
                .at("the cluster")
                .help("add a ps job to the cluster, or unset TF_CONFIG to train in one process"));
        }
        Ok(servers)
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

fn addresses(tasks: impl Iterator<Item = (TaskId, String)>) -> Result<Vec<(TaskId, Address)>> {
    tasks.map(|(task, address)| Ok((task, address.parse()?))).collect()
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
        self.membership.leave(&self.job, failure);
        if let Some(companion) = &self.companion {
            companion.leave(None);
        }
        let listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(listening) = listening {
            listening.stop();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // A task that goes without a word would be waited for: say that it went, and why.
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        let unplanned = || Error::new(Code::JobFailed, format!("{} stopped without finishing its part", self.task));
        self.leave(Some(&failure.unwrap_or_else(unplanned)));
    }
}
