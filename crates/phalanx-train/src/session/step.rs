//! One step: what it pulls, what is computed on it, and what it leaves to be pushed.

use super::{NonFinite, Overlap, Pace, RowValues, Session, Step};
use crate::TableId;
use bytes::Bytes;
use phalanx_base::{Code, Error, Result};
use phalanx_nn::burn::module::Module;
use phalanx_nn::burn::tensor::{Gradients, Tensor};
use phalanx_nn::{HostBuffer, ParameterRegistry, all_finite, scalar};
use phalanx_ps::client::{Pulled, PulledValues, Push, RowGradients, RowSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

/// What a step computed: buffers, whichever library computed them.
#[derive(Debug)]
pub struct StepGradients {
    /// The loss.
    pub loss: f32,
    /// The gradient of each variable, in the order of the model's parameters and then of its moving averages; `None` where
    /// there is none.
    pub dense: Vec<Option<HostBuffer>>,
    /// The gradients of the unique rows of each table used, in the order of the ids; `None` where there are none.
    pub rows: Vec<Option<HostBuffer>>,
}

impl StepGradients {
    /// Computes a loss and its gradients; `forward` also returns the function that takes those of the rows. The changes of
    /// moving averages count as gradients, too.
    ///
    /// # Errors
    /// Fails if a gradient is not made of 32-bit floats, or `forward` fails.
    pub fn compute<M: Module, G>(
        registry: &ParameterRegistry,
        module: &M,
        forward: impl FnOnce(&M) -> Result<(Tensor<1>, G)>,
    ) -> Result<Self>
    where
        G: FnOnce(&mut Gradients) -> Result<Vec<Option<HostBuffer>>>,
    {
        let before = registry.state_values(module)?;
        let (loss, of_rows) = forward(module)?;
        let mut gradients = loss.backward();
        let mut dense = registry.gradients(module, &mut gradients)?;
        let rows = of_rows(&mut gradients)?;
        for (mut change, after) in before.into_iter().zip(registry.state_values(module)?) {
            change.iter_mut().zip(&*after).for_each(|(before, after)| *before -= after);
            dense.push(change.iter().any(|number| *number != 0.0).then_some(change));
        }
        Ok(Self { loss: scalar(loss)?, dense, rows })
    }
}

impl<M: Module> Session<M> {
    pub(super) fn compute(
        &mut self,
        ids: &[(TableId, &[i64])],
        compute: impl FnOnce(&M, &ParameterRegistry, Vec<RowValues>) -> Result<StepGradients>,
    ) -> Result<Option<Step>> {
        if self.server.should_stop() {
            return Ok(None);
        }
        let (sets, pulled) = match self.fetch(ids) {
            Ok(Some(fetched)) => fetched,
            Ok(None) => return Ok(None),
            // The servers may go before a slow trainer hears that the job is over.
            Err(_) if self.server.should_stop() => return Ok(None),
            Err(error) => return Err(error),
        };
        let reached = pulled.global_step + self.overlap.as_ref().map_or(0, Overlap::steps_in_flight);
        let lag = reached.saturating_sub(self.global_step + 1);
        self.global_step = self.global_step.max(reached);
        self.base_version = pulled.global_step;
        let mut module = self.load(pulled.dense)?;
        if self.has_reached_last_step() {
            self.module = Some(module);
            return Ok(None);
        }
        let rows = self.row_values(&sets, pulled.rows);
        let states = self.registry.state_values(&module)?;
        // The model survives a panic of the caller's function.
        let computed = match catch_unwind(AssertUnwindSafe(|| compute(&module, &self.registry, rows))) {
            Ok(computed) => computed,
            Err(panic) => {
                self.module = Some(module);
                resume_unwind(panic)
            }
        };
        if self.moving_averages {
            // The step changes them when it is applied, as it does variables.
            module = self.registry.load_states(module, states.into_iter().map(Vec::from).collect());
        }
        self.module = Some(module);
        let StepGradients { loss: value, mut dense, rows: of_rows } = computed?;
        dense.truncate(self.remote.layout().variables().len());
        let rows = sets.into_iter().zip(of_rows).filter_map(|(set, gradients)| Some((set, gradients?))).collect();
        self.keep(value, dense, rows)?;
        self.services.stepped(self.global_step, value);
        self.server.progress().stepped(self.global_step, lag, value);
        Ok(Some(Step { loss: value, global_step: self.global_step }))
    }

    pub(super) fn row_sets(&self, ids: &[(TableId, &[i64])]) -> Result<Vec<RowSet>> {
        let tables = self.remote.layout().tables().len();
        let mut sets: Vec<RowSet> = Vec::with_capacity(ids.len());
        for (at, &(TableId(table), own)) in ids.iter().enumerate() {
            if table >= tables {
                return Err(Error::new(Code::NoSuchVariable, "a step asks for a table that the model does not have")
                    .because(format!("it is table {} of another supervisor; the model has {tables}", table + 1))
                    .help("use what the table method of this job's supervisor returned"));
            }
            let known = ids[..at].iter().position(|&(_, others)| others == own);
            sets.push(match known {
                Some(known) => sets[known].for_table(table),
                None => RowSet::new(table, own, self.client.servers()),
            });
        }
        Ok(sets)
    }

    pub(super) fn row_values(&self, sets: &[RowSet], rows: Vec<Vec<f32>>) -> Vec<RowValues> {
        let of = |(set, values): (&RowSet, Vec<f32>)| {
            let dim = self.remote.layout().tables()[set.table()].dim;
            RowValues { values, dim, positions: set.positions().to_vec() }
        };
        sets.iter().zip(rows).map(of).collect()
    }

    /// Sends the pending gradients, and fetches new values and the rows of these ids. `None` when the job is over.
    fn fetch(&mut self, ids: &[(TableId, &[i64])]) -> Result<Option<(Vec<RowSet>, Pulled)>> {
        if self.overlap.is_some() {
            return self.fetch_overlapped(ids).map(Some);
        }
        let sets = self.row_sets(ids)?;
        Ok(self.exchange(&sets)?.map(|pulled| (sets, pulled)))
    }

    fn exchange(&mut self, sets: &[RowSet]) -> Result<Option<Pulled>> {
        self.finish_lost_updates()?;
        // Stays pending if this fails: sent again under the same name, it counts once.
        let pending = self.pending.mark_sent();
        let pulled = match &mut self.pace {
            Pace::Free => Some(self.client.exchange(&mut self.remote, pending, sets, self.directive.mode())?),
            Pace::Rounds(rounds) => {
                rounds.exchange(&self.server, &self.client, &mut self.remote, pending, sets, &mut self.unfinished)?
            }
            Pace::Bounded(lead) => {
                lead.exchange(&self.server, &self.client, &mut self.remote, pending, sets, &mut self.unfinished)?
            }
        };
        self.acknowledged();
        Ok(pulled)
    }

    /// Sends the pending gradients now instead of with the next step, and fetches the newest values. In synchronous training
    /// it waits until the round of the gradients is closed, or until they are needed in another one.
    ///
    /// # Errors
    /// When a server does not answer.
    pub fn commit(&mut self) -> Result<()> {
        self.settle()?;
        if let Some(pulled) = self.exchange(&[])? {
            self.global_step = self.global_step.max(pulled.global_step);
            self.module = Some(self.load(pulled.dense)?);
        }
        Ok(())
    }

    /// Synchronous training: waits until all trainers of the cluster take part in the rounds, for at most `longest`, so that
    /// the first rounds have a gradient of each. Nobody waits for a trainer that comes later.
    ///
    /// # Errors
    /// When the server that counts does not answer.
    pub fn wait_for_trainers(&self, longest: Duration) -> Result<()> {
        let trainers = self.server.config().trainers().len();
        let until = Instant::now() + longest;
        while self.is_synchronous() && !self.server.should_stop() && Instant::now() < until {
            if self.client.describe(0)?.tasks.len() >= trainers {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    pub(super) fn load(&mut self, values: Vec<Option<PulledValues>>) -> Result<M> {
        let values = values.into_iter().map(|values| values.map(HostBuffer::from_owner).transpose());
        let mut values: Vec<Option<HostBuffer>> = values.collect::<Result<_>>()?;
        let module = self.module.take().ok_or_else(|| {
            Error::new(Code::Internal, "the model is gone").because("an earlier step of this session did not end")
        })?;
        let states = values.split_off(self.registry.parameters().len().min(values.len()));
        let module = self.registry.load(module, values);
        if states.iter().all(Option::is_none) {
            return Ok(module);
        }
        let present = self.registry.state_values(&module)?;
        let states = states.into_iter().zip(present).map(|(new, old)| new.unwrap_or(old).into()).collect();
        Ok(self.registry.load_states(module, states))
    }

    /// Gives this step's gradients their id and keeps them for the next message.
    fn keep(
        &mut self,
        loss: f32,
        mut dense: Vec<Option<HostBuffer>>,
        mut rows: Vec<(RowSet, HostBuffer)>,
    ) -> Result<()> {
        if let Some(what) = self.not_finite(loss, &dense, &rows) {
            let place = format!("{}, step {}", self.server.known_as(), self.global_step + 1);
            if self.non_finite == NonFinite::Stop {
                return Err(Error::new(Code::NotFinite, what)
                    .at(place)
                    .because("it contains NaN or an infinity")
                    .help("lower the learning rate, look for bad values in the input, or skip such steps (non_finite_steps = \"skip\" in [train], NonFinite::Skip in a program)"));
            }
            self.skipped += 1;
            let step = self.global_step + 1;
            self.server.in_scope(|| tracing::warn!(step, "step skipped: {what} ({place})"));
            return Ok(());
        }
        self.clipper.apply(self.remote.layout(), &mut dense, &mut rows);
        let (name, note) = match self.directive.on_behalf_of.take() {
            // The position in the input is this task's, not that of the lost one.
            Some(name) => (name, Bytes::new()),
            None => (self.pending.own_name(), std::mem::take(&mut self.position)),
        };
        let dense = dense.into_iter().map(|gradient| gradient.map(Bytes::from_owner)).collect();
        let of = |(set, gradients)| RowGradients { set, gradients: Bytes::from_owner(gradients) };
        let rows = rows.into_iter().map(of).collect();
        let (base_version, clock, learning_rate) = (Some(self.base_version), self.directive.clock, self.learning_rate);
        self.pending.keep(Push { id: name, dense, rows, input_position: note, base_version, clock, learning_rate });
        Ok(())
    }

    fn not_finite(&self, loss: f32, dense: &[Option<HostBuffer>], rows: &[(RowSet, HostBuffer)]) -> Option<String> {
        let parameters = self.registry.parameters().iter().map(|parameter| &parameter.name);
        let bad = |gradient: &Option<HostBuffer>| gradient.as_ref().is_some_and(|numbers| !all_finite(numbers));
        if let Some((name, _)) = parameters.zip(dense).find(|(_, gradient)| bad(gradient)) {
            return Some(format!("the gradient of {name:?} is not finite"));
        }
        if let Some((set, _)) = rows.iter().find(|(_, numbers)| !all_finite(numbers)) {
            let name = &self.remote.layout().tables()[set.table()].name;
            return Some(format!("the gradient of table {name:?} is not finite"));
        }
        (!loss.is_finite()).then(|| "the loss is not finite".to_owned())
    }
}
