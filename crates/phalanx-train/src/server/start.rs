//! Starts a task: it binds its port, serves, and joins the job.

use super::{Inner, Server};
use crate::coordinator::CoordinatorService;
use crate::job::Job;
use crate::logging::LogScope;
use crate::membership::{Chief, Member, Membership, TaskIdentity};
use crate::status::{ProgressCounters, StatusWriter};
use crate::{ClusterResolver, ServerOptions, durability, identity};
use phalanx_base::{Code, Error, Result, Role, TaskId};
use phalanx_cluster::{ClusterSpec, TaskConfig};
use phalanx_ps::Store;
use phalanx_ps::server::Service;
use phalanx_wire::{Address, Endpoint, Listening};
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

    /// Starts the task that a resolver names.
    ///
    /// # Errors
    /// When it names none, and as [`Self::start_with`].
    pub fn resolved(resolver: &impl ClusterResolver, options: ServerOptions) -> Result<Self> {
        Self::start_with(resolver.resolve()?, options)
    }

    /// Starts the task that `config` names; without a cluster this process is the whole job.
    ///
    /// # Errors
    /// When the task's port cannot be used.
    pub fn start_with(config: TaskConfig, options: ServerOptions) -> Result<Self> {
        let Some(task) = config.task() else { return crate::local::start(&config, options) };
        if task.role == Role::Evaluator {
            return Err(Error::new(Code::ConfigEvaluator, "an evaluator has no server")
                .at(task.to_string())
                .because("it follows checkpoints and talks to nobody; chief, worker and ps have servers")
                .help("give this process another task"));
        }
        let address = config.address_of(task)?;
        options.check_protected(task, address)?;
        let listening =
            Listening::bind(address, options.threads).map_err(|error| error.at(format!("{task} at {address}")))?;
        Self::start_on(listening, config, options, None)
    }

    /// Starts a job of this process alone: it computes, and holds its own parameters. It reads nothing from the environment
    /// and handles no signals; `Server::start_with(TaskConfig::local(), ServerOptions::from_env()?)` does both.
    ///
    /// # Errors
    /// When the operating system gives us no port.
    pub fn local() -> Result<Self> {
        crate::local::start(&TaskConfig::local(), ServerOptions::default())
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
        let known_as = options.known_as.unwrap_or(task);
        let log = LogScope::of_task(known_as);
        let build = options.build.clone().map_or_else(identity::build_fingerprint, Ok)?;
        let incarnation = identity::new_incarnation()?;
        let identity = TaskIdentity { job: config.job_id(), task, incarnation, build, address: address.to_string() };
        let job = Arc::new(Job::new(options.interrupt.clone()));
        let membership = if task == chief {
            let others = config.tasks().into_iter().filter(|(other, _)| *other != task).collect();
            Membership::Chief(Arc::new(Chief::new(identity, others, Arc::clone(&job), options.clone(), log.clone())))
        } else {
            let chief = (chief, chief_address.clone());
            Membership::Member(Arc::new(Member::new(identity, chief, Arc::clone(&job), options.clone(), log.clone())))
        };
        let is_server = task.role == Role::Ps;
        // Replayed before it serves: nobody meets a server without what it has acknowledged.
        let store = is_server.then(|| durability::open_store(&config, task, &options, &log)).transpose()?;
        let digest = identity::digest(&config.job_id());
        let coordinator_service = (task == chief).then(|| Arc::new(CoordinatorService::new(digest)));
        let service = |store: &Arc<Store>| Arc::new(Service::new(Arc::clone(store), digest, task, incarnation));
        let service = store.as_ref().map(service);
        let bulk = service.clone().map(|service| service as _);
        let bulk = bulk.or_else(|| coordinator_service.clone().map(|service| service as _));
        let control = membership.handler();
        if options.token.is_none() && !address.is_loopback() {
            log.run(|| warn_of_strangers(&address));
        }
        if let Some(warning) = listening.serve(Endpoint { control, bulk, token: options.token.clone() })? {
            log.run(|| tracing::warn!(code = %warning.code(), "warning [{}]: {warning}", warning.code()));
        }
        membership.watch(listening.runtime())?;
        let progress = Arc::<ProgressCounters>::default();
        if options.known_as.is_some() {
            progress.set_in_sync();
        }
        let mut status = None;
        if let Some(dir) = &options.status_dir {
            let job = Arc::clone(&job);
            let held = store.clone().or_else(|| companion.as_ref().and_then(|beside| beside.store().cloned()));
            let writer = StatusWriter::new(dir, (known_as, incarnation), held, &progress);
            status = Some(writer.start(move || job.phase())?);
        }
        let listening = Mutex::new(Some(listening));
        let (gone, part, killed) = (Mutex::new(false), Mutex::default(), Arc::default());
        let inner = Inner {
            config,
            task,
            incarnation,
            address,
            options,
            log,
            job,
            membership,
            store,
            service,
            coordinator_service,
            listening,
            companion,
            gone,
            killed,
            progress,
            status,
            part,
        };
        Ok(Self { inner: Arc::new(inner) })
    }
}

/// Warns that this job has no token, although other hosts reach it.
pub(crate) fn warn_of_strangers(address: &Address) {
    tracing::warn!(
        "warning: whoever reaches port {} may take part in this job, and nothing is encrypted; set PHALANX_TOKEN on every task",
        address.port()
    );
}
