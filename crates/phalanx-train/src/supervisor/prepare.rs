//! From a module to a session: the chief initialises the model on the servers, or finds it there; the others wait for it.

use super::Supervisor;
use crate::Session;
use crate::checkpoint::{CheckpointManager, Recovered, Saver, lost_for_good};
use crate::services::Services;
use crate::session::{LocalModel, wire_values};
use crate::summary::{SummarySchedule, SummaryWriter};
use phalanx_base::{Code, Error, Result};
use phalanx_nn::ParameterRegistry;
use phalanx_nn::Parameters;
use phalanx_optim::Sgd;
use phalanx_ps::client::RemoteModel;
use phalanx_ps::{Client, Layout, Partitioner, VariableSpec};
use std::sync::Arc;
use std::time::{Duration, Instant};

impl Supervisor {
    /// Waits for the job to form; then the chief restores the model or initialises it from `module`'s values, and the others
    /// wait for that. A chief that was started again finds the model on the servers and continues with it.
    ///
    /// # Errors
    /// When the job does not form, the model is not what the servers hold, or a deadline passes.
    pub fn prepare_or_wait_for_session<M: Parameters>(&self, module: M) -> Result<Session<M>> {
        self.prepare_with(module, || self.server.client())
    }

    /// Prepares a session over the connections that `connect` opens for this task.
    pub(crate) fn prepare_with<M: Parameters>(
        &self,
        module: M,
        connect: impl FnOnce() -> Result<Client>,
    ) -> Result<Session<M>> {
        let no_overlap = self.sync.is_some().then_some("it trains synchronously");
        let no_overlap = no_overlap.or(self.bounded.is_some().then_some("a fast trainer waits for the slowest"));
        let mut session = self.wait_and_prepare(module, no_overlap, self.sync.is_some(), connect)?;
        self.server.record_failure(self.let_drive(&mut session))?;
        Ok(session)
    }

    /// Lets a session step by itself, without a coordinator.
    pub(crate) fn let_drive<M: Parameters>(&self, session: &mut Session<M>) -> Result<()> {
        match (self.sync, self.bounded) {
            (Some(sync), _) => {
                let trainers = self.server.config().trainers().len() as u32;
                session.join_rounds(sync.replicas_to_aggregate.unwrap_or(trainers))
            }
            (None, Some(bound)) => session.join_clocks(bound),
            (None, None) if self.overlap => session.overlap_steps(),
            (None, None) => {
                session.step_directly();
                Ok(())
            }
        }
    }

    /// Prepares a session of a job with a coordinator, which collects gradients into `rounds` or does not.
    pub(crate) fn prepare_coordinated<M: Parameters>(&self, module: M, rounds: bool) -> Result<Session<M>> {
        let no_overlap = Some("a coordinator hands out its steps");
        Ok(self.wait_and_prepare(module, no_overlap, rounds, || self.server.client())?.coordinated())
    }

    fn wait_and_prepare<M: Parameters>(
        &self,
        module: M,
        no_overlap: Option<&str>,
        rounds: bool,
        connect: impl FnOnce() -> Result<Client>,
    ) -> Result<Session<M>> {
        self.server.wait_until_formed()?;
        if rounds {
            self.server.progress().set_in_sync();
        }
        let conflict = no_overlap.filter(|_| self.overlap).map_or(Ok(()), |why| Err(cannot_overlap(why)));
        let session = conflict.and_then(|()| connect()).and_then(|client| self.prepare(module, client, rounds));
        self.server.record_failure(session)
    }

    fn prepare<M: Parameters>(&self, module: M, client: Client, rounds: bool) -> Result<Session<M>> {
        let registry = if self.tables.is_empty() {
            ParameterRegistry::of(&module)?
        } else {
            ParameterRegistry::beside_tables(&module)?
        };
        let layout = self.layout(&registry, client.servers())?;
        let (remote, services) = if self.server.is_chief() {
            let mut saver = self.checkpoints.saver(&self.server, rounds)?;
            if let Some(warning) = saver.as_ref().and_then(|saver| saver.checkpoints().warning()) {
                self.server.in_scope(|| tracing::warn!("{warning}"));
            }
            let (remote, uncounted) = self.initialize(&client, &layout, &registry, &module, saver.as_mut())?;
            self.server.record_placement(&layout);
            let services = match saver.filter(|_| !self.checkpoints.restores_only) {
                Some(saver) => self.services(&client, &remote, saver, uncounted)?,
                None => Services::none(),
            };
            (remote, services)
        } else {
            self.wait_for_model(&client)?;
            (RemoteModel::find(&client, layout)?, Services::none())
        };
        let local = LocalModel::new(registry, module, self.moving_averages);
        Session::new(self.server.clone(), client, remote, local, self.non_finite, services)
    }

    fn layout(&self, registry: &ParameterRegistry, servers: usize) -> Result<Layout> {
        let variable = |parameter: &phalanx_nn::Parameter| VariableSpec {
            name: parameter.name.clone(),
            shape: parameter.shape.clone(),
            optimizer: self.optimizers.get(&parameter.name).copied().unwrap_or(self.optimizer),
            partitioner: self.partitioner,
        };
        // Their gradients are the changes themselves.
        let state = |parameter: &phalanx_nn::Parameter| VariableSpec {
            optimizer: Sgd::new(1.0).into(),
            partitioner: Partitioner::default(),
            ..variable(parameter)
        };
        let states = if self.moving_averages { registry.states() } else { &[] };
        let variables = registry.parameters().iter().map(variable).chain(states.iter().map(state)).collect();
        let mut layout = Layout::new(variables, self.tables.clone(), servers, self.placement.clone())?;
        let own_rates = self.optimizers.keys().chain(states.iter().map(|state| &state.name));
        own_rates.for_each(|variable| layout.keep_rate_of(variable));
        let as_variables = self.tables.iter().filter(|_| self.tables_as_variables);
        as_variables.for_each(|table| layout.update_as_variable(&table.name));
        Ok(layout)
    }

    /// Initialises the model on the servers that have none: from the newest checkpoint, or else from `module`'s values. If a
    /// server is restarted meanwhile, waits for it and starts over. Also returns the servers whose loss is not known.
    fn initialize<M: Parameters>(
        &self,
        client: &Client,
        layout: &Layout,
        registry: &ParameterRegistry,
        module: &M,
        mut saver: Option<&mut Saver>,
    ) -> Result<(RemoteModel, Vec<usize>)> {
        if let Some(chief) = self.server.chief().filter(|_| saver.is_some()) {
            // From now on there is a checkpoint to restore a lost server from.
            chief.wait_for_servers();
        }
        let until = Instant::now() + self.server.options().server_grace;
        loop {
            let initialized = self.try_to_initialize(client, layout, registry, module, saver.as_deref_mut());
            match initialized {
                Err(error)
                    if error.code() == Code::ServerRestarted && Instant::now() < until && !self.should_stop() =>
                {
                    self.server.in_scope(|| tracing::warn!(code = %error.code(), "beginning again: {error}"));
                }
                Ok(initialized) => {
                    self.wait_for_logs(client, saver.is_some())?;
                    return Ok(initialized);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for lost servers where there is no checkpoint, but each of them continues from its log.
    fn wait_for_logs(&self, client: &Client, has_checkpoints: bool) -> Result<()> {
        let Some(chief) = self.server.chief().filter(|_| !has_checkpoints) else { return Ok(()) };
        for server in 0..client.servers() {
            if !client.describe(server)?.logs {
                return Ok(());
            }
        }
        chief.wait_for_servers();
        Ok(())
    }

    fn try_to_initialize<M: Parameters>(
        &self,
        client: &Client,
        layout: &Layout,
        registry: &ParameterRegistry,
        module: &M,
        mut saver: Option<&mut Saver>,
    ) -> Result<(RemoteModel, Vec<usize>)> {
        let mut empty = Vec::new();
        for server in 0..client.servers() {
            if !client.describe(server)?.ready {
                empty.push(server);
            }
        }
        if let Some(chief) = self.server.chief().filter(|_| empty.len() < client.servers()) {
            // The trainers that were lost while there was no chief, this task's former incarnation among them.
            chief.take_over(client.task_incarnations()?);
        }
        if empty.is_empty() {
            let step = client.global_step()?;
            self.server
                .in_scope(|| tracing::info!(step, "the servers hold the model at step {step}; continuing with it"));
            return Ok((RemoteModel::find(client, layout.clone())?, Vec::new()));
        }
        let mut remote = RemoteModel::announce(client, layout.clone())?;
        if empty.len() < client.servers() {
            // The others hold a trained model; initial values beside it would be wrong.
            let nowhere = || lost_for_good(empty[0], "the job has no run directory, and the other servers go on");
            let uncounted = self.recover(client, &mut remote, saver.ok_or_else(nowhere)?, &empty)?;
            return Ok((remote, uncounted));
        }
        let restored = match &mut saver {
            Some(saver) => saver.restoring(&self.server, client, |restorer| restorer.restore_job(&remote))?,
            None => None,
        };
        let mut uncounted = Vec::new();
        match restored {
            Some((name, loss)) => {
                let step = loss.saved;
                self.server.in_scope(|| {
                    tracing::info!(checkpoint = name, step, "restored {name}: continuing at step {step}");
                    if !loss.counted.is_empty() {
                        tracing::warn!("trainers had gone on after step {step}: {loss} are lost");
                    }
                });
                if !loss.counted.is_empty() {
                    uncounted = empty;
                }
            }
            None if self.checkpoints.restores_only => {
                return Err(Error::new(Code::CheckpointMissing, "there is no checkpoint to begin with")
                    .at(self.checkpoints.dir.as_ref().map_or_else(String::new, phalanx_storage::Dir::location))
                    .because("the chief saves the first one there, and this task does not see it")
                    .help("give every task the same model_dir, in a file system that all of them share"));
            }
            None => {
                let values = wire_values(registry, module, self.moving_averages)?;
                remote = RemoteModel::create(client, layout.clone(), &values)?;
                for (table, rows) in &self.first_rows {
                    let count = (rows.len() / layout.tables()[*table].dim) as i64;
                    client.assign_rows(&mut remote, *table, 0..count, rows)?;
                }
                self.save_first(client, saver)?;
            }
        }
        client.set_ready(&remote)?;
        Ok((remote, uncounted))
    }

    /// Saves the initial values. A directory that cannot be written, such as on a full disk, does not keep the job from
    /// training: the checkpoint manager tries again soon.
    fn save_first(&self, client: &Client, saver: Option<&mut Saver>) -> Result<()> {
        match saver.map_or(Ok(None), |saver| saver.save_first(client)) {
            Ok(saved) => saved.into_iter().for_each(|saved| self.server.in_scope(|| saved.log())),
            Err(error) if error.code() == Code::StorageWrite => self.server.in_scope(|| {
                tracing::warn!(code = %error.code(), "training begins, but no checkpoint was saved: {error}");
            }),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Restores the servers that lost their part. Server 0 comes last, because the others ask it for the step.
    fn recover(
        &self,
        client: &Client,
        remote: &mut RemoteModel,
        saver: &mut Saver,
        empty: &[usize],
    ) -> Result<Vec<usize>> {
        let mut uncounted = Vec::new();
        for &server in empty.iter().rev() {
            let recovered = saver.restoring(&self.server, client, |restorer| restorer.recover(remote, server, 0))?;
            if let Recovered::Restored { loss, .. } = recovered {
                uncounted.extend(loss.at_most.is_none().then_some(server));
            }
        }
        Ok(uncounted)
    }

    /// Starts what the chief does beside training.
    fn services(&self, client: &Client, remote: &RemoteModel, saver: Saver, uncounted: Vec<usize>) -> Result<Services> {
        let summaries = Arc::new(self.server.in_scope(|| SummaryWriter::open(saver.checkpoints().dir()))?);
        let step = client.global_step()?;
        summaries.started(step);
        let first = saver.checkpoints().name(step);
        let saved = (saver.checkpoints().newest_first().first() == Some(&first)).then_some(step);
        if saved.is_some() {
            summaries.saved(step, &first);
        }
        let own = RemoteModel::find(client, remote.layout().clone())?;
        let (when, written) = ((self.checkpoints.save, saved), Arc::clone(&summaries));
        let checkpoints = CheckpointManager::start(&self.server, own, saver, when, written, uncounted)?;
        let schedule = SummarySchedule::new(self.checkpoints.summaries);
        Ok(Services::new(checkpoints, summaries, schedule, self.checkpoints.histograms))
    }

    fn wait_for_model(&self, client: &Client) -> Result<()> {
        let started = Instant::now();
        let mut logged = false;
        while !client.describe(0)?.ready {
            if !logged && started.elapsed() > Duration::from_secs(2) {
                self.server.in_scope(|| tracing::info!("waiting for the chief to initialise the model"));
                logged = true;
            }
            if self.should_stop() {
                self.server.job().wait_for(phalanx_cluster::Phase::Ending)?;
                return Err(Error::new(Code::JobFailed, "the job ended before the model was initialised").relayed());
            }
            if started.elapsed() > self.ready_deadline {
                return Err(Error::new(
                    Code::NotInitialized,
                    "the chief has not initialised the model before the deadline",
                )
                .because(format!("{} s passed", self.ready_deadline.as_secs()))
                .help("see the chief's log"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

fn cannot_overlap(why: &str) -> Error {
    Error::new(Code::BadSetting, "the steps of this job cannot overlap")
        .because(why)
        .help("leave overlap out, or let workers drive themselves and train asynchronously")
}
