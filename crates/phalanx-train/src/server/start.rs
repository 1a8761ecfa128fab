//! From a place in a cluster to a task that listens and has said hello.

use super::{Inner, Server};
use crate::coordinator::Desk;
use crate::job::Job;
use crate::membership::{Membership, Who};
use crate::status::{Pulse, Reporter};
use crate::{ClusterResolver, ServerOptions, identity};
use phalanx_base::{Code, Error, Result, Role, TaskId};
use phalanx_cluster::{ClusterSpec, TaskConfig};
use phalanx_ps::Store;
use phalanx_ps::server::Service;
use phalanx_wire::{Endpoint, Listening};
use std::sync::{Arc, Mutex};

impl Server {
    /// Starts task `index` of `job` with [`ServerOptions::from_env`].
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
        let address = config.address_of(task)?;
        let listening =
            Listening::bind(address, options.threads).map_err(|error| error.at(format!("{task} at {address}")))?;
        Self::start_on(listening, config, options, None)
    }

    /// A job that is this process alone: it computes, and holds its own parameters. It takes nothing from the environment
    /// and listens for no signals; `Server::start_with(TaskConfig::local(), ServerOptions::from_env()?)` does both.
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
        let address = config.address_of(task)?.clone();
        let build = options.build.clone().map_or_else(identity::build, Ok)?;
        let incarnation = identity::new_incarnation()?;
        let who = Who { job: config.job_id(), task, incarnation, build, address: address.to_string() };
        let job = Arc::new(Job::new(options.interrupt.clone()));
        let membership = if task == chief {
            let others = config.tasks().into_iter().filter(|(other, _)| *other != task).collect();
            Membership::chief(who, others, Arc::clone(&job), options.clone())
        } else {
            let chief = (chief, chief_address.clone());
            Membership::member(who, chief, Arc::clone(&job), options.clone())
        };
        let store = (task.role == Role::Ps).then(Arc::<Store>::default);
        let digest = identity::digest(&config.job_id());
        let desk = (task == chief).then(|| Arc::new(Desk::new(digest)));
        let service = |store: &Arc<Store>| Arc::new(Service::new(Arc::clone(store), digest, task, incarnation));
        let service = store.as_ref().map(service);
        let bulk = service.clone().map(|service| service as _).or_else(|| desk.clone().map(|desk| desk as _));
        let control = membership.handler();
        if options.token.is_none() && !address.is_loopback() {
            (options.say)(&format!(
                "{task}: warning: whoever reaches port {} may take part in this job; set PHALANX_TOKEN on every task",
                address.port()
            ));
        }
        if let Some(warning) = listening.serve(Endpoint { control, bulk, token: options.token.clone() })? {
            (options.say)(&format!("{task}: warning [{}]: {warning}", warning.code()));
        }
        membership.watch(listening.runtime())?;
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
}
