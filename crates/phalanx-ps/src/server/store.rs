//! Everything one server holds.

use super::body::Body;
use super::dense::Dense;
use super::input_positions::InputPositions;
use super::items::{Item, Items};
use super::load::Counters;
use super::log::LogSlot;
use super::participants::Participants;
use super::snapshot::Snapshots;
use super::staleness::Staleness;
use super::table::Table;
use super::{AppliedUpdates, StoreSnapshot, TaskIncarnation, TaskProgress, UpdateOutcome, UpdatePart};
use crate::Executor;
use crate::plan::ItemSpec;
use crate::proto::{self, Exchange, Exchanged, request};
use bytes::Bytes;
use phalanx_base::{Code, Error, F32Block, Result};
use phalanx_optim::Optimizer;
use phalanx_wire::limits;
use std::ops::DerefMut;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Instant;

/// The gradient of a range of a variable.
struct RangeGradient<'a> {
    shard: Arc<Dense>,
    gradient: &'a [u8],
    elements: std::ops::Range<usize>,
    /// The learning rate, where it differs from that of the variable's optimizer.
    rate: Option<f32>,
}

/// The gradients of a message, checked but not applied.
pub(super) struct Push<'a> {
    /// The message, and how many bytes of it are gradients.
    body: &'a [Bytes],
    bytes: usize,
    dense: Vec<RangeGradient<'a>>,
    rows: Vec<RowsGradient<'a>>,
    /// The tables that are updated as variables are.
    as_variables: Vec<Arc<Table>>,
}

/// The gradients of rows of a table.
struct RowsGradient<'a> {
    table: Arc<Table>,
    ids: Vec<i64>,
    gradients: &'a [u8],
    /// An earlier message of the same step had gradients of this table.
    continues: bool,
}

/// The request of a message, checked: ranges with the version that the client holds, and rows.
struct Pull {
    dense: Vec<(Arc<Dense>, std::ops::Range<usize>, u64)>,
    rows: Vec<(Arc<Table>, Vec<i64>)>,
}

/// One parameter server's state. Every method may be called from any thread; none waits for the network.
pub struct Store {
    items: RwLock<Items>,
    pub(super) applied: AppliedUpdates,
    pub(super) participants: Participants,
    pub(super) global_step: AtomicU64,
    /// How many messages have changed values; gradients of rounds do so when their round is closed, and do not count.
    pub(super) changes: AtomicU64,
    /// Every exchange is an update to it.
    pub(super) snapshots: Snapshots<StoreSnapshot>,
    pub(super) input_positions: InputPositions,
    ready: AtomicBool,
    pub(super) stale: AtomicU64,
    pub(super) repeats: AtomicU64,
    /// Steps that a restored server has missed, counted when a task pushes again.
    pub(super) missed: AtomicU64,
    pub(super) staleness: Staleness,
    pub(super) counters: Counters,
    /// The sender and the number of the message that replaced values last.
    pub(super) replaced: Mutex<Option<(TaskIncarnation, u64)>>,
    pub(super) log: LogSlot,
}

impl Default for Store {
    fn default() -> Self {
        let snapshots = Snapshots::<StoreSnapshot>::default();
        Self {
            items: RwLock::new(Items::new(Arc::clone(snapshots.clock()))),
            applied: AppliedUpdates::default(),
            participants: Participants::default(),
            global_step: AtomicU64::default(),
            changes: AtomicU64::default(),
            snapshots,
            input_positions: InputPositions::default(),
            ready: AtomicBool::default(),
            stale: AtomicU64::default(),
            repeats: AtomicU64::default(),
            missed: AtomicU64::default(),
            staleness: Staleness::default(),
            counters: Counters::default(),
            replaced: Mutex::default(),
            log: LogSlot::default(),
        }
    }
}

impl Store {
    pub(super) fn over(log: LogSlot) -> Self {
        Self { log, ..Self::default() }
    }

    /// Creates the items that do not exist, starting at zero, and returns all handles.
    ///
    /// # Errors
    /// When a name is taken by something else.
    pub fn create(&self, specs: &[ItemSpec]) -> Result<Vec<u32>> {
        let _update = self.snapshots.update();
        let mut items = self.items.write().unwrap_or_else(PoisonError::into_inner);
        let op = || request::Op::Create(proto::Create { specs: specs.iter().map(ItemSpec::to_wire).collect() });
        self.record(None, op, &[])?;
        items.add(specs)
    }

    /// Returns the handles of items that exist.
    ///
    /// # Errors
    /// When an item does not exist or differs from its spec.
    pub fn find(&self, specs: &[ItemSpec]) -> Result<Vec<u32>> {
        self.check_ready()?;
        self.items().find(specs)
    }

    /// Applies the gradients of a step once and returns the values it pulls, in a buffer that `reply_buffer` allocates.
    /// The parts of `body` are as in [`InFrame::parts`](phalanx_wire::InFrame::parts).
    ///
    /// # Errors
    /// When the message does not fit what is held here, or its sender may not push.
    pub fn exchange<S: DerefMut<Target = [u8]>>(
        &self,
        from: TaskIncarnation,
        ask: &Exchange,
        body: &[Bytes],
        executor: Executor,
        reply_buffer: impl FnOnce(usize) -> S,
    ) -> Result<(Exchanged, S)> {
        let (started, bytes_in) = (Instant::now(), body.iter().map(Bytes::len).sum());
        let mut answer = Exchanged::default();
        let _update = self.snapshots.update();
        // Everything is checked before anything is changed: an update is applied completely or not at all.
        InputPositions::check(&ask.input_position)?;
        let (push, mut body) = self.read_push(ask, body)?;
        let pull = self.read_pull(ask, &mut body)?;
        body.end()?;
        if let Some(update) = ask.update {
            self.push(from, (ask, update), push, executor, &mut answer)?;
        }
        let values = Self::pull(ask, pull, executor, &mut answer, reply_buffer)?;
        self.counters.count(ask.update.is_some(), bytes_in, values.len(), started.elapsed());
        Ok((answer, values))
    }

    /// Checks the gradients of a message; returns them, and the rest of the message.
    pub(super) fn read_push<'a>(&self, ask: &Exchange, message: &'a [Bytes]) -> Result<(Push<'a>, Body<'a>)> {
        let mut body = Body::new(message);
        let all = body.left();
        let mut dense = Vec::with_capacity(ask.dense_push.len().min(1024));
        for (number, range) in ask.dense_push.iter().enumerate() {
            let shard = self.dense(range.handle)?;
            let elements = shard.check(range.start, range.count)?;
            ask.round.map_or(Ok(()), |_| shard.check_contribution(&elements))?;
            let keeps_rate = ask.keeps_rate.get(number).copied().unwrap_or(false);
            let rate = ask.learning_rate.filter(|_| !keeps_rate);
            check_rate(&shard.optimizer, rate)?;
            let rate = rate.or_else(|| scheduled_rate(&shard.optimizer, ask));
            dense.push(RangeGradient { gradient: body.numbers(elements.len())?, shard, elements, rate });
        }
        let mut rows = Vec::with_capacity(ask.row_push.len().min(1024));
        for push in &ask.row_push {
            let table = self.table(push.handle)?;
            let ids = body.ids(push.count as usize)?;
            let gradients = body.numbers(ids.len() * table.dim)?;
            rows.push(RowsGradient { table, ids, gradients, continues: push.continues });
        }
        let as_variables = ask.as_variables.iter().map(|&handle| self.table(handle)).collect::<Result<Vec<_>>>()?;
        as_variables.iter().try_for_each(|table| check_rate(&table.optimizer, ask.learning_rate))?;
        Ok((Push { body: message, bytes: all - body.left(), dense, rows, as_variables }, body))
    }

    fn read_pull(&self, ask: &Exchange, body: &mut Body<'_>) -> Result<Pull> {
        let mut dense = Vec::with_capacity(ask.dense_pull.len().min(1024));
        let mut numbers = 0;
        for range in &ask.dense_pull {
            let shard = self.dense(range.handle)?;
            let elements = shard.check(range.start, range.count)?;
            numbers += elements.len();
            dense.push((shard, elements, range.held));
        }
        let mut rows = Vec::with_capacity(ask.row_pull.len().min(1024));
        for pull in &ask.row_pull {
            let table = self.table(pull.handle)?;
            let ids = body.ids(pull.count as usize)?;
            numbers += ids.len() * table.dim;
            rows.push((table, ids));
        }
        if 4 * numbers > limits::FRAME_BYTES - limits::HEADER_BYTES {
            return Err(Error::new(Code::BadMessage, format!("{numbers} numbers do not fit into one answer"))
                .help("pull in several parts"));
        }
        Ok(Pull { dense, rows })
    }

    pub(super) fn push(
        &self,
        from: TaskIncarnation,
        (ask, proto::UpdatePart { step, part, parts }): (&Exchange, proto::UpdatePart),
        push: Push<'_>,
        executor: Executor,
        answer: &mut Exchanged,
    ) -> Result<()> {
        let update = UpdatePart { step, part, parts, by_another: ask.on_behalf_of.is_some() };
        let counts = ask.counts && ask.round.is_none() && update.is_last();
        let outcome = self.applied.once(from, update, |outcome, progress| {
            // If this fails, nothing has changed, and the sender tries again.
            self.record_exchange(from, ask, push.body, push.bytes)?;
            if outcome == UpdateOutcome::Fresh {
                answer.stale = !Self::apply(ask, part == 0, push, executor)?;
                self.changes.fetch_add(ask.round.is_none().into(), Ordering::AcqRel);
                if progress.behind {
                    self.missed.fetch_add(progress.missed(step), Ordering::Relaxed);
                }
                self.input_positions.keep(from.0, &ask.input_position);
            }
            let steps = if counts { progress.count(step) } else { 0 };
            let committed = self.global_step.fetch_add(steps, Ordering::AcqRel);
            if outcome == UpdateOutcome::Fresh && counts {
                self.staleness.record(ask, committed);
            }
            Ok(())
        })?;
        answer.repeated = outcome != UpdateOutcome::Fresh;
        self.repeats.fetch_add(answer.repeated.into(), Ordering::Relaxed);
        self.stale.fetch_add(answer.stale.into(), Ordering::Relaxed);
        Ok(())
    }

    /// Applies gradients, or adds them to their round; returns false if that round is closed already.
    pub(super) fn apply(
        ask: &Exchange,
        is_first_part: bool,
        Push { dense, rows, as_variables, .. }: Push<'_>,
        executor: Executor,
    ) -> Result<bool> {
        let mut block = F32Block::default();
        let mut taken = true;
        for RangeGradient { shard, gradient, elements, rate } in dense {
            match ask.round {
                None => shard.push(elements, gradient, rate, executor)?,
                Some(round) => taken &= shard.contribute(round, elements, gradient, rate, &mut block)?,
            }
        }
        if let Some(round) = ask.round {
            for table in &as_variables {
                table.count_in_round(round, ask.learning_rate, is_first_part)?;
            }
        }
        for RowsGradient { table, ids, gradients, continues } in rows {
            match ask.round {
                None => {
                    let takes_rate = as_variables.iter().any(|other| Arc::ptr_eq(other, &table));
                    let rate = ask.learning_rate.filter(|_| takes_rate);
                    let rate = rate.or_else(|| scheduled_rate(&table.optimizer, ask));
                    table.push(&table.rule(rate, continues), &ids, gradients, executor)?;
                }
                // A round is a global step: the schedule needs nothing else.
                Some(round) => taken &= table.contribute(round, &ids, gradients)?,
            }
        }
        Ok(taken)
    }

    fn pull<S: DerefMut<Target = [u8]>>(
        ask: &Exchange,
        Pull { mut dense, rows }: Pull,
        executor: Executor,
        answer: &mut Exchanged,
        reply_buffer: impl FnOnce(usize) -> S,
    ) -> Result<S> {
        dense.retain(|(shard, _, held)| {
            shard.close(ask.closed);
            let version = shard.version();
            let changed = version != *held;
            answer.versions.push(if changed { version } else { 0 });
            changed
        });
        let numbers = dense.iter().map(|(_, elements, _)| elements.len()).sum::<usize>();
        let numbers = numbers + rows.iter().map(|(table, ids)| ids.len() * table.dim).sum::<usize>();
        let mut values = reply_buffer(4 * numbers);
        let mut rest = &mut values[..];
        for (shard, elements, _) in dense {
            let out = rest.split_off_mut(..4 * elements.len()).unwrap_or_default();
            shard.pull(elements, out, executor)?;
        }
        for (table, ids) in rows {
            table.close(ask.closed);
            let out = rest.split_off_mut(..4 * ids.len() * table.dim).unwrap_or_default();
            table.pull(&ids, out, executor)?;
        }
        Ok(values)
    }

    /// Declares the model initialised, without a log; see [`Self::make_ready`].
    pub fn set_ready(&self) {
        self.ready.store(true, Ordering::Release);
    }

    /// Whether the model is initialised.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    pub(super) fn check_ready(&self) -> Result<()> {
        if self.is_ready() {
            return Ok(());
        }
        Err(Error::new(Code::NotInitialized, "the server has no model yet")
            .because("the chief has not created it, or is restoring it")
            .help("wait for the chief"))
    }

    /// Returns which updates of each task incarnation are in the values.
    pub fn applied(&self) -> Vec<(TaskIncarnation, TaskProgress)> {
        self.applied.all()
    }

    /// Returns the number of committed steps, where this server counts them.
    pub fn global_step(&self) -> u64 {
        self.global_step.load(Ordering::Acquire)
    }

    /// Raises the count of committed steps to `step`: a synchronous round was closed.
    pub(crate) fn reach_step(&self, step: u64) {
        self.global_step.fetch_max(step, Ordering::AcqRel);
    }

    /// Returns the number of gradients dropped because their round was closed.
    pub fn stale(&self) -> u64 {
        self.stale.load(Ordering::Relaxed)
    }

    /// Returns the number of updates dropped because they had been applied.
    pub fn repeats(&self) -> u64 {
        self.repeats.load(Ordering::Relaxed)
    }

    /// Returns the number of steps that a restored server has missed, counted when a task pushes again.
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// Returns the number of shards and the number of tables.
    pub fn counts(&self) -> (usize, usize) {
        self.items().counts()
    }

    /// Replaces every item by an empty one with the same handle.
    pub(super) fn clear_items(&self) {
        self.items.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Synchronous mode: rounds below this one are closed, as far as this server knows.
    pub(crate) fn closed(&self) -> u64 {
        let closed = |item: &Item| match item {
            Item::Dense(shard) => shard.close(0),
            Item::Table(table) => table.close(0),
        };
        self.items().list().iter().map(closed).max().unwrap_or(0)
    }

    pub(crate) fn items(&self) -> RwLockReadGuard<'_, Items> {
        self.items.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn dense(&self, handle: u32) -> Result<Arc<Dense>> {
        match self.items().get(handle)? {
            Item::Dense(shard) => Ok(Arc::clone(shard)),
            Item::Table(table) => Err(Error::new(Code::ShapeMismatch, format!("{:?} is a table", table.name))),
        }
    }

    pub(super) fn table(&self, handle: u32) -> Result<Arc<Table>> {
        match self.items().get(handle)? {
            Item::Table(table) => Ok(Arc::clone(table)),
            Item::Dense(shard) => Err(Error::new(Code::ShapeMismatch, format!("{:?} is not a table", shard.name))),
        }
    }
}

/// Returns the rate of a schedule at the global step that an update was computed at. It is the same on every server,
/// whereas their counts of updates differ: a server that holds no row of a step does not count it for the table.
fn scheduled_rate(optimizer: &Optimizer, ask: &Exchange) -> Option<f32> {
    let (schedule, step) = optimizer.schedule().zip(ask.round.or(ask.base_version))?;
    Some(schedule.at(step))
}

/// Refuses a learning rate that the optimizer does not accept.
fn check_rate(optimizer: &Optimizer, rate: Option<f32>) -> Result<()> {
    rate.map_or(Ok(()), |rate| optimizer.with_learning_rate(rate).validate())
}
