//! From a module to a session: the chief makes the model on the servers, or finds it there; the others wait for it.

use super::Supervisor;
use crate::Session;
use crate::checkpoint::{Keeper, Recovered, Restorer, Saver, lost_for_good};
use crate::services::Services;
use crate::session::{Parts, to_wire};
use crate::summary::SummaryWriter;
use phalanx_base::{Code, Error, Result};
use phalanx_nn::Book;
use phalanx_nn::burn::module::Module;
use phalanx_ps::client::Remote;
use phalanx_ps::{Client, Layout, VariableSpec};
use std::sync::Arc;
use std::time::{Duration, Instant};

impl Supervisor {
    /// Waits for the job to form; then the chief restores the model or starts it from `module`'s values, and the others
    /// wait for that. A chief that was started again finds the model on the servers and goes on with it.
    ///
    /// # Errors
    /// When the job does not form, the model is not what the servers hold, or a deadline passes.
    pub fn prepare_or_wait_for_session<M: Module>(&self, module: M) -> Result<Session<M>> {
        self.server.wait_until_formed()?;
        let session = self.server.client().and_then(|client| self.prepare_with_client(module, client));
        self.server.note(session)
    }

    /// The same for a job with a coordinator, which collects gradients into `rounds` or does not.
    pub(crate) fn prepare_coordinated<M: Module>(&self, module: M, rounds: bool) -> Result<Session<M>> {
        self.server.wait_until_formed()?;
        if self.overlap {
            return self.server.note(Err(cannot_overlap("a coordinator hands out its steps")));
        }
        let session = self.server.client().and_then(|client| self.prepare(module, client, rounds));
        self.server.note(session)
    }

    /// The same over connections of one's own; `client` speaks for this task.
    pub(crate) fn prepare_with_client<M: Module>(&self, module: M, client: Client) -> Result<Session<M>> {
        self.server.wait_until_formed()?;
        if self.overlap && self.sync.is_some() {
            return Err(cannot_overlap("it trains synchronously"));
        }
        self.prepare(module, client, self.sync.is_some())
    }

    fn prepare<M: Module>(&self, module: M, client: Client, rounds: bool) -> Result<Session<M>> {
        let book = Book::of(&module)?;
        let layout = self.layout(&book, client.servers())?;
        let (remote, services) = if self.server.is_chief() {
            let mut saver = self.run_dir.saver(&self.server, rounds)?;
            if let Some(remark) = saver.as_ref().and_then(|saver| saver.catalog().remark()) {
                self.server.say(remark);
            }
            let (remote, uncounted) = self.initialize(&client, &layout, &book, &module, saver.as_mut())?;
            let services =
                saver.map_or_else(|| Ok(Services::none()), |saver| self.services(&client, &remote, saver, uncounted));
            (remote, services?)
        } else {
            self.wait_for_model(&client)?;
            (Remote::find(&client, layout)?, Services::none())
        };
        let trainers = self.server.config().trainers().len() as u32;
        let sync = self.sync.map(|sync| sync.replicas_to_aggregate.unwrap_or(trainers));
        let (server, non_finite, overlap) = (self.server.clone(), self.non_finite, self.overlap);
        Session::new(Parts { server, client, remote, book, module, non_finite, sync, overlap, services })
    }

    fn layout(&self, book: &Book, servers: usize) -> Result<Layout> {
        let variable = |parameter: &phalanx_nn::Parameter| VariableSpec {
            name: parameter.name.clone(),
            shape: parameter.shape.clone(),
            optimizer: self.optimizers.get(&parameter.name).copied().unwrap_or(self.optimizer),
            partitioner: self.partitioner,
        };
        let variables = book.parameters().iter().map(variable).collect();
        let mut layout = Layout::new(variables, self.tables.clone(), servers, self.placement)?;
        self.optimizers.keys().for_each(|variable| layout.keep_rate_of(variable));
        Ok(layout)
    }

    /// Makes the model on the servers that have none: from the newest checkpoint, or else from `module`'s values. A server
    /// that is restarted meanwhile is waited for, and everything begins again. Answers also which servers have lost nobody
    /// knows how much.
    fn initialize<M: Module>(
        &self,
        client: &Client,
        layout: &Layout,
        book: &Book,
        module: &M,
        mut saver: Option<&mut Saver>,
    ) -> Result<(Remote, Vec<usize>)> {
        if saver.is_some() {
            // Whatever a lost server held, there is something to make it from again.
            self.server.wait_for_servers();
        }
        let until = Instant::now() + self.server.options().server_grace;
        loop {
            let initialized = self.try_to_initialize(client, layout, book, module, saver.as_deref_mut());
            match initialized {
                Err(error)
                    if error.code() == Code::ServerRestarted && Instant::now() < until && !self.should_stop() =>
                {
                    self.server.say(&format!("beginning again: {error}"));
                }
                initialized => return initialized,
            }
        }
    }

    fn try_to_initialize<M: Module>(
        &self,
        client: &Client,
        layout: &Layout,
        book: &Book,
        module: &M,
        mut saver: Option<&mut Saver>,
    ) -> Result<(Remote, Vec<usize>)> {
        let mut empty = Vec::new();
        for server in 0..client.servers() {
            if !client.describe(server)?.ready {
                empty.push(server);
            }
        }
        if empty.len() < client.servers() {
            // Whoever trained while there was no chief and is gone, this task's former life among them.
            self.server.take_over(client.lives()?);
        }
        if empty.is_empty() {
            self.server.say(&format!("the servers hold the model at step {}; going on with it", client.global_step()?));
            return Ok((Remote::find(client, layout.clone())?, Vec::new()));
        }
        let mut remote = Remote::announce(client, layout.clone())?;
        if empty.len() < client.servers() {
            // The others hold a model that has been trained on: initial values beside it would be a wrong model.
            let nowhere = || lost_for_good(empty[0], "the job has no run directory, and the other servers go on");
            let uncounted = self.recover(client, &mut remote, saver.ok_or_else(nowhere)?, &empty)?;
            return Ok((remote, uncounted));
        }
        let mut restored = None;
        if let Some(saver) = &mut saver {
            let restorer = Restorer::new(&self.server, client, saver);
            restored = restorer.restore_job(&remote)?;
            let damaged = restorer.into_damaged();
            saver.forget(&damaged);
        }
        let mut uncounted = Vec::new();
        match restored {
            Some((name, loss)) => {
                self.server.say(&format!("restored {name}: going on at step {}", loss.saved));
                if !loss.counted.is_empty() {
                    self.server.say(&format!("trainers had gone on after step {}: {loss} are lost", loss.saved));
                    uncounted = empty;
                }
            }
            None => {
                remote = Remote::create(client, layout.clone(), &to_wire(book.values(module)?))?;
                if let Some(saved) = saver.map_or(Ok(None), |saver| saver.save_first(client))? {
                    self.server.say(&saved.to_string());
                }
            }
        }
        client.set_ready(&remote)?;
        Ok((remote, uncounted))
    }

    /// Restores the servers that lost their part; those last that count steps, because others ask that one.
    fn recover(&self, client: &Client, remote: &mut Remote, saver: &mut Saver, empty: &[usize]) -> Result<Vec<usize>> {
        let restorer = Restorer::new(&self.server, client, saver);
        let mut uncounted = Vec::new();
        for &server in empty.iter().rev() {
            if let Recovered::Restored { name, loss } = restorer.recover(remote, server, 0)? {
                restorer.report(server, &name, &loss);
                uncounted.extend(loss.at_most.is_none().then_some(server));
            }
        }
        let damaged = restorer.into_damaged();
        saver.forget(&damaged);
        Ok(uncounted)
    }

    /// What the chief does beside training.
    fn services(&self, client: &Client, remote: &Remote, saver: Saver, uncounted: Vec<usize>) -> Result<Services> {
        let summaries = SummaryWriter::open_with(saver.catalog().dir(), Arc::clone(&self.server.options().say))?;
        let summaries = Arc::new(summaries);
        let step = client.global_step()?;
        summaries.started(step);
        let first = saver.catalog().name(step);
        if saver.catalog().newest_first().first() == Some(&first) {
            summaries.saved(step, &first);
        }
        let own = Remote::find(client, remote.layout().clone())?;
        let (pace, written) = (self.run_dir.save_pace(), Arc::clone(&summaries));
        let keeper = Keeper::start(&self.server, own, saver, pace, written, uncounted)?;
        Ok(Services::new(keeper, summaries, self.run_dir.summary_pace()))
    }

    fn wait_for_model(&self, client: &Client) -> Result<()> {
        let started = Instant::now();
        let mut told = false;
        while !client.describe(0)?.ready {
            if !told && started.elapsed() > Duration::from_secs(2) {
                self.server.say("waiting for the chief to initialise the model");
                told = true;
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
