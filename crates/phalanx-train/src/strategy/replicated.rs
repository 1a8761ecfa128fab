//! A model whose variables a strategy keeps.

use super::gradient_buckets::bucketed;
use super::metrics::{ModelMetrics, ReplicaMetrics};
use super::replica::add;
use super::update::OptimizerState;
use super::{Gradient, PerReplica, Replica, ReplicaUpdate, Strategy};
use crate::coordinator::{OnServers, ProgramModel};
use crate::session::NormRequest;
use crate::tables::{ModelTables, RecordedRows, RowGradient, ServerRows};
use crate::{StepGradients, TableId};
use phalanx_base::{Code, Error, Result, Shape};
use phalanx_collective::{Group, Reduce};
use phalanx_nn::{HostBuffer, Network, ParameterRegistry};
use phalanx_optim::{Optimizer, OptimizerChoice};
use std::cell::Cell;
use std::sync::Arc;

/// A model under a strategy, made by [`Strategy::scope`].
pub struct Replicated<M: Network> {
    pub(crate) strategy: Strategy,
    /// `None` only during an update, or after one that failed.
    module: Option<M>,
    pub(crate) registry: ParameterRegistry,
    pub(crate) update: Option<OptimizerState>,
    /// Set where the variables are on parameter servers, once there is an optimizer.
    pub(crate) on_servers: Option<OnServers<M>>,
    /// Whether the program has replaced values that the servers hold.
    pub(crate) changed: bool,
    /// The tables whose rows are on parameter servers.
    pub(crate) tables: ModelTables,
    pub(super) metrics: ModelMetrics,
}

impl<M: Network> Replicated<M> {
    pub(super) fn new(strategy: Strategy, module: M) -> Result<Self> {
        let (update, on_servers, changed, metrics) = (None, None, false, ModelMetrics::default());
        if strategy.servers().is_some() && !module.tables().is_empty() {
            // Their tables are not created in this process. Whether they stay away depends on the optimizer.
            let registry = ParameterRegistry::beside_tables(&module.clone().with_rows(None))?;
            let (module, tables) = (Some(module), ModelTables::default());
            return Ok(Self { strategy, module, registry, update, on_servers, changed, tables, metrics });
        }
        let module = module.fork(strategy.home());
        let registry = ParameterRegistry::of(&module)?;
        let (module, tables) = (Some(module), ModelTables::default());
        let mut model = Self { strategy, module, registry, update, on_servers, changed, tables, metrics };
        model.align()?;
        Ok(model)
    }

    /// Leaves the tables to parameter servers, unless the optimizer changes rows that have no gradient: then they are
    /// variables, of which every step needs all rows.
    fn leave_tables(&mut self, optimizer: &Optimizer) -> Result<()> {
        let module = self.module.take().ok_or_else(lost)?;
        if module.tables().is_empty() || !optimizer.leaves_rows_alone() {
            let module = module.fork(self.strategy.home());
            self.registry = ParameterRegistry::of(&module)?;
            self.module = Some(module);
            return Ok(());
        }
        self.tables = ModelTables::of(&module)?;
        let module = module.with_rows(None).fork(self.strategy.home());
        self.module = Some(module.with_rows(Some(self.tables.source())));
        Ok(())
    }

    /// Returns the model as it goes into a call or a step of the job.
    pub(crate) fn take_changes(&mut self) -> ProgramModel<M> {
        // Before the changes are taken: they are in this task's model, not in that of the session.
        let module = self.module().clone();
        let with_rows = |module: M, rows: Arc<ServerRows>| module.with_rows(Some(rows));
        let changed = std::mem::take(&mut self.changed);
        ProgramModel { module, tables: self.tables.clone(), with_rows, changed }
    }

    /// Takes the model that a call has left.
    pub(crate) fn take_result(&mut self, model: ProgramModel<M>) {
        (self.module, self.tables, self.changed) = (Some(model.module), model.tables, false);
    }

    /// Sets the values of a table.
    pub(crate) fn set_table(&mut self, table: usize, shape: &Shape, values: Vec<f32>) -> Result<()> {
        self.tables.set(table, shape, values)?;
        self.tables.give_held();
        let source = self.tables.source();
        self.change(|module| Ok(module.with_rows(Some(source))))
    }

    /// Sets the optimizer, as a value or by Keras' name.
    ///
    /// # Errors
    /// Fails if a setting is out of range or there is no such optimizer.
    pub fn optimizer(mut self, optimizer: impl Into<OptimizerChoice>) -> Result<Self> {
        let optimizer = optimizer.into().resolve()?;
        match self.strategy.servers() {
            Some(_) => {
                self.update = Some(OptimizerState::without_slots(optimizer)?);
                self.leave_tables(&optimizer)?;
                let tables = self.tables.on_servers(optimizer);
                let servers = self.strategy.servers().ok_or_else(lost)?;
                let mut supervisor = servers.supervisor(optimizer)?.tables_as_variables();
                tables.into_iter().try_for_each(|table| supervisor.table(table).map(drop))?;
                self.on_servers = Some(servers.connect(supervisor)?);
            }
            None => self.update = Some(OptimizerState::new(optimizer, &self.registry)?),
        }
        Ok(self)
    }

    /// Returns the model with its current values.
    #[must_use]
    pub fn module(&self) -> &M {
        let on_servers = self.on_servers.as_ref().filter(|_| !self.changed);
        if let Some(module) = on_servers.and_then(OnServers::model) {
            return module;
        }
        // Only a failed update leaves nothing, and its error ends the training.
        self.module.as_ref().expect("the last update succeeded")
    }

    /// Returns the strategy.
    #[must_use]
    pub fn strategy(&self) -> &Strategy {
        &self.strategy
    }

    /// Returns the number of updates.
    #[must_use]
    pub fn iterations(&self) -> u64 {
        if let Some(updates) = self.on_servers.as_ref().and_then(OnServers::global_step) {
            return updates;
        }
        self.update.as_ref().map_or(0, |update| update.iterations)
    }

    /// Sets the learning rate of the steps from now on. Every worker must set the same.
    ///
    /// # Errors
    /// Fails if it is out of range, or the learning rate follows a schedule.
    pub fn set_learning_rate(&mut self, rate: f32) -> Result<()> {
        self.update.as_mut().map_or(Ok(()), |update| update.set_learning_rate(rate))?;
        if let Some(on_servers) = &mut self.on_servers {
            on_servers.set_learning_rate(rate);
        }
        Ok(())
    }

    /// Returns the request for the norm of an update's gradients; `None` without an optimizer.
    pub(crate) fn norm_request(&mut self) -> Option<&mut NormRequest> {
        self.update.as_mut().map(|update| &mut update.norm)
    }

    /// Returns the values of the model's moving averages.
    pub(crate) fn state_values(&self) -> Result<Vec<Vec<f32>>> {
        Ok(floats(self.registry.state_values(self.module())?))
    }

    /// Averages the moving averages of all workers.
    pub(crate) fn average_states(&mut self) -> Result<()> {
        if self.registry.states().is_empty() || self.strategy.workers().is_none() {
            return Ok(());
        }
        let mut states = self.state_values()?;
        if let Some(workers) = self.strategy.workers() {
            let mut tensors: Vec<&mut [f32]> = states.iter_mut().map(Vec::as_mut_slice).collect();
            workers.patiently(|group| group.all_reduce_many(&mut tensors, Reduce::Mean))?;
        }
        let registry = self.registry.clone();
        self.change(|module| Ok(registry.load_states(module, states)))
    }

    /// Changes the model itself, for example to load weights. Every worker must make the same change; with parameter
    /// servers, the chief sends the new values before the next call.
    ///
    /// # Errors
    /// Returns the error of `change` and leaves the model as it was.
    pub fn change(&mut self, change: impl FnOnce(M) -> Result<M>) -> Result<()> {
        self.module = Some(change(self.module().clone())?);
        self.changed = true;
        Ok(())
    }

    /// Broadcasts the values of rank 0 to all workers.
    pub(crate) fn align(&mut self) -> Result<()> {
        let Some(workers) = self.strategy.workers() else { return Ok(()) };
        let module = self.module.as_ref().ok_or_else(lost)?;
        let mut values = floats(self.registry.values(module)?.into_iter().chain(self.registry.state_values(module)?));
        for value in &mut values {
            workers.group().broadcast(0, value)?;
        }
        let states = values.split_off(self.registry.parameters().len());
        let module = self.module.take().ok_or_else(lost)?;
        let module = self.registry.load(module, values.into_iter().map(Some).collect());
        self.module = Some(self.registry.load_states(module, states));
        Ok(())
    }

    /// Computes `step` on every replica that has an input, sums the submitted gradients, and applies them.
    pub(crate) fn step<I: Send, T: Send>(
        &mut self,
        inputs: PerReplica<I>,
        step: impl Fn(&mut Replica<'_, M>, I) -> Result<T> + Sync,
    ) -> Result<PerReplica<T>> {
        if self.on_servers.is_some() {
            return self.step_on_servers(inputs, step);
        }
        let (results, computed) = self.compute(inputs, |replica, input| {
            let result = step(replica, input)?;
            Ok((result, replica.metrics.take()))
        })?;
        let applied = computed.iter().flatten().count() as f32;
        let all_applied = match self.strategy.workers() {
            Some(workers) => {
                let mut applied = [applied];
                workers.group().all_reduce(&mut applied, Reduce::Sum)?;
                applied[0]
            }
            None => applied,
        };
        if all_applied > 0.0 {
            self.apply(computed.into_iter().flatten().collect(), &mut [], false, |_: &[f32; 0]| Some(1.0))?;
        }
        self.count(results.into_parts())
    }

    /// Computes a step of this trainer on the newest values of the servers, and hands its gradients over.
    fn step_on_servers<I: Send, T: Send>(
        &mut self,
        inputs: PerReplica<I>,
        step: impl Fn(&mut Replica<'_, M>, I) -> Result<T> + Sync,
    ) -> Result<PerReplica<T>> {
        let model = self.take_changes();
        let (strategy, iterations) = (self.strategy.clone(), self.iterations());
        let (id, replicas) = (strategy.first_replica(), strategy.num_replicas_in_sync());
        let own_metrics = &self.metrics;
        let on_servers = self.on_servers.as_mut().ok_or_else(lost)?;
        let done = on_servers.step(model, |module, registry, servers| {
            let device = strategy.home();
            let mut averages = registry.state_values(module)?;
            let mut results = Vec::new();
            let (mut loss, mut sum): (f32, Option<Gradient>) = (0.0, None);
            if inputs.is_empty() && replicas > 1 {
                // The others wait for this trainer's part of the round, which counts in its mean.
                let zeros = registry.parameters().iter().map(|of| Some(HostBuffer::zeros(of.shape.elements())));
                sum = Some(Gradient { dense: zeros.collect(), rows: Vec::new() });
            }
            for (place, input) in inputs.into_parts() {
                let mut module = module.clone().fork(device);
                let rows = servers.map(|servers| Arc::new(RecordedRows::new(Arc::clone(servers))));
                if let Some(rows) = &rows {
                    module = module.with_rows(Some(Arc::clone(rows) as _));
                }
                let mut replica = Replica {
                    module,
                    registry,
                    device,
                    id,
                    replicas,
                    step: iterations,
                    rows,
                    loss: Cell::new(0.0),
                    pending: None,
                    metrics: own_metrics.fresh(),
                };
                let result = step(&mut replica, input)?;
                results.push((place, (result, replica.metrics.take())));
                loss += replica.loss.get();
                let after = registry.state_values(&replica.module)?;
                averages.iter_mut().zip(after).for_each(|(before, after)| {
                    before.iter_mut().zip(&*after).for_each(|(before, after)| *before -= after);
                });
                match (&mut sum, replica.pending.take()) {
                    (Some(sum), Some(gradient)) => sum.add(gradient),
                    (sum, gradient) => *sum = gradient,
                }
            }
            // Servers take the mean of a round, and replicas divide by the rows of all of them.
            for gradient in sum.iter_mut().flat_map(Gradient::iter_mut) {
                gradient.iter_mut().for_each(|number| *number *= replicas as f32);
            }
            if let Some(sum) = sum.as_mut().filter(|_| !results.is_empty()) {
                // The changes of moving averages, of which the mean counts.
                sum.dense.extend(averages.into_iter().map(Some));
            }
            let gradients = |Gradient { dense, rows }| {
                let looked_up =
                    rows.into_iter().map(|of: RowGradient| (TableId(of.table), of.ids, of.numbers)).collect();
                StepGradients { loss: Some(loss), dense, looked_up, ..StepGradients::default() }
            };
            Ok((results, sum.map(gradients)))
        })?;
        if let Some(rows) = on_servers.rows() {
            self.tables.connect(rows);
        }
        self.count(done)
    }

    /// Adds what the replicas have added to the metrics in a step, and returns their results.
    fn count<T>(&mut self, done: Vec<(usize, (T, ReplicaMetrics))>) -> Result<PerReplica<T>> {
        let mut results = Vec::with_capacity(done.len());
        for (place, (result, metrics)) in done {
            self.metrics.merge(&metrics)?;
            results.push((place, result));
        }
        Ok(PerReplica::new(results))
    }

    /// Returns every replica's result and its part of the update, which is `None` if it submitted no gradients.
    pub(crate) fn compute<I: Send, T: Send>(
        &self,
        inputs: PerReplica<I>,
        step: impl Fn(&mut Replica<'_, M>, I) -> Result<T> + Sync,
    ) -> Result<(PerReplica<T>, Vec<Option<ReplicaUpdate>>)> {
        let (first, replicas) = (self.strategy.first_replica(), self.strategy.num_replicas_in_sync());
        let devices = self.strategy.devices();
        let (iterations, registry, metrics) = (self.iterations(), &self.registry, &self.metrics);
        // Forks share the values but have separate leaves, so that replicas do not wait for each other's graphs.
        let prepare = |(place, input): (usize, I)| (place, input, self.module().clone());
        let items: Vec<(usize, I, M)> = inputs.into_parts().into_iter().map(prepare).collect();
        let done = self.strategy.slots().run(items, |_, (place, input, module)| {
            let device = &devices[place];
            let mut replica = Replica {
                module: module.fork(device),
                registry,
                device,
                id: first + place,
                replicas,
                step: iterations,
                rows: None,
                loss: Cell::new(0.0),
                pending: None,
                metrics: metrics.fresh(),
            };
            let result = step(&mut replica, input)?;
            let Some(gradient) = replica.pending.take() else { return Ok((place, result, None)) };
            let states = floats(registry.state_values(&replica.module)?);
            let update = ReplicaUpdate { loss: replica.loss.get(), gradients: gradient.dense, states };
            Ok((place, result, Some(update)))
        });
        let mut results = Vec::with_capacity(done.len());
        let mut computed = Vec::with_capacity(done.len());
        for one in done {
            let (place, result, left) = one?;
            results.push((place, result));
            computed.push(left);
        }
        Ok((PerReplica::new(results), computed))
    }

    /// Sums the gradients over the replicas in their order, then over the workers, and applies them times `scale` of the
    /// summed `metadata`, unless that is `None`. The metadata and the loss, which is reported, are summed in the same
    /// all-reduce as the first gradients.
    /// A `patient` update waits longer for late workers.
    pub(crate) fn apply<const N: usize>(
        &mut self,
        computed: Vec<ReplicaUpdate>,
        metadata: &mut [f32; N],
        patient: bool,
        scale: impl FnOnce(&[f32; N]) -> Option<f32>,
    ) -> Result<()> {
        let replicas = computed.len();
        let mut loss = [computed.iter().map(|one| one.loss).sum::<f32>()];
        let mut gradients: Vec<Option<HostBuffer>> = self.registry.parameters().iter().map(|_| None).collect();
        let mut states: Vec<Vec<f32>> = Vec::new();
        for one in computed {
            add(&mut gradients, one.gradients);
            if states.is_empty() {
                states = one.states;
            } else {
                for (sum, state) in states.iter_mut().zip(one.states) {
                    sum.iter_mut().zip(state).for_each(|(sum, number)| *sum += number);
                }
            }
        }
        let mut buckets = Vec::new();
        if let Some(workers) = self.strategy.workers() {
            for (gradient, parameter) in gradients.iter_mut().zip(self.registry.parameters()) {
                gradient.get_or_insert_with(|| HostBuffer::zeros(parameter.shape.elements()));
            }
            buckets = bucketed(&gradients);
            let first = buckets.first().cloned().unwrap_or_default();
            let mut tensors: Vec<&mut [f32]> = vec![&mut metadata[..], &mut loss[..]];
            tensors.extend(gradients[first].iter_mut().flatten().map(|flat| &mut **flat));
            let mut reduce = |group: &mut Group| group.all_reduce_many(&mut tensors, Reduce::Sum);
            if patient { workers.patiently(reduce) } else { reduce(&mut workers.group()) }?;
        }
        let scale = scale(metadata);
        states.iter_mut().flatten().for_each(|sum| *sum /= replicas.max(1) as f32);
        let update = self.update.as_mut().ok_or_else(|| {
            Error::new(Code::BadSetting, "gradients were applied, but the model has no optimizer")
                .help("set one: strategy.scope(…)?.optimizer(Sgd::new(0.01))?")
        })?;
        let module = self.module.take().ok_or_else(lost)?;
        let strategy = &self.strategy;
        let module = update.apply(&self.registry, module, &mut gradients, scale, |number, gradients| {
            // A bucket is summed just before its parameters are updated, while it is in the cache.
            match (strategy.workers(), buckets.iter().skip(1).find(|bucket| bucket.start == number)) {
                (Some(workers), Some(bucket)) => {
                    let mut tensors: Vec<&mut [f32]> =
                        gradients[bucket.clone()].iter_mut().flatten().map(|flat| &mut **flat).collect();
                    workers.group().all_reduce_many(&mut tensors, Reduce::Sum)
                }
                _ => Ok(()),
            }
        })?;
        self.module = Some(self.registry.load_states(module, states));
        if let (Some(scale), Some(counters)) = (scale, self.strategy.counters()) {
            counters.stepped(self.iterations(), None, Some(loss[0] * scale));
        }
        Ok(())
    }
}

impl Strategy {
    /// Runs `step` in parallel for each replica of this process that has an input. Gradients submitted with
    /// [`Replica::apply_gradients`] are summed over all replicas of all workers and applied when all have returned: as in
    /// TensorFlow, divide the loss by the global batch size. All workers must call it equally often; one whose data has
    /// ended passes no inputs.
    ///
    /// With parameter servers every trainer takes steps of its own, the chief among them: it fetches the newest values,
    /// computes, and its gradients become an update, or in synchronous training a part of one. The next `fit`, `evaluate` or
    /// the end of the program waits for the other trainers.
    ///
    /// ```
    /// use phalanx_nn::model::{Dense, Mode, Sequential};
    /// use phalanx_nn::burn::tensor::Tensor;
    /// use phalanx_optim::Sgd;
    /// use phalanx_train::{Reduce, Strategy};
    /// let strategy = Strategy::mirrored(["cpu:0", "cpu:1"])?;
    /// let mut model = strategy.scope(|| Sequential::new().add(Dense::new(1)).build([1]))?.optimizer(Sgd::new(0.1))?;
    /// let inputs = strategy.values_from_function(|replica| Ok(replica as f32))?;
    /// let losses = strategy.run(&mut model, inputs, |replica, x| {
    ///     let x = Tensor::<2>::full([1, 1], x, replica.device());
    ///     let y: Tensor<2> = replica.model().forward(x, Mode::Training { seed: replica.seed() })?;
    ///     let loss = (y - 1.0).powi_scalar(2).mean();
    ///     replica.apply_gradients(replica.gradient(loss.clone())?);
    ///     phalanx_nn::scalar(loss)
    /// })?;
    /// assert!(strategy.reduce(Reduce::Mean, &losses)? > 0.0);
    /// assert_eq!(model.iterations(), 1);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails if `step` does, a worker is lost, gradients are applied to a model without an optimizer, the process is
    /// interrupted, or `TF_CONFIG` names a cluster that this strategy would ignore.
    pub fn run<M: Network, I: Send, T: Send>(
        &self,
        model: &mut Replicated<M>,
        inputs: PerReplica<I>,
        step: impl Fn(&mut Replica<'_, M>, I) -> Result<T> + Sync,
    ) -> Result<PerReplica<T>> {
        self.begin_training(&model.registry)?;
        let done = self.interrupted().map_or_else(|| model.step(inputs, step), Err);
        if let (Err(error), Some(workers)) = (&done, self.workers()) {
            workers.group().abort(error.clone());
        }
        done
    }
}

fn floats(values: impl IntoIterator<Item = HostBuffer>) -> Vec<Vec<f32>> {
    values.into_iter().map(Vec::from).collect()
}

fn lost() -> Error {
    Error::new(Code::Internal, "the model was lost in an update that failed")
}
