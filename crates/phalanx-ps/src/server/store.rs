//! Everything one server holds.

use super::applied::{Applied, Update, Verdict};
use super::barrier::Barrier;
use super::body::Body;
use super::cut::{Cut, not_ready};
use super::dense::Dense;
use super::items::{Item, Items};
use super::load::Counters;
use super::lock;
use super::notes::Notes;
use super::snapshot::Snapshots;
use super::staleness::Staleness;
use super::table::Table;
use crate::Crew;
use bytes::Bytes;
use phalanx_base::{Code, Error, F32Block, Incarnation, Result, TaskId};
use phalanx_optim::Optimizer;
use phalanx_wire::limits;
use phalanx_wire::proto::params::{Exchange, Exchanged, Fenced, Spec};
use std::collections::BTreeSet;
use std::ops::DerefMut;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Instant;

/// The gradient of a range of a variable.
struct RangeGradient<'a> {
    shard: Arc<Dense>,
    gradient: &'a [u8],
    elements: std::ops::Range<usize>,
    /// The learning rate, where it is not that of the variable's optimizer.
    rate: Option<f32>,
}

/// What a message pushes, checked but not applied.
struct Push<'a> {
    dense: Vec<RangeGradient<'a>>,
    rows: Vec<(Arc<Table>, Vec<i64>, &'a [u8])>,
}

/// What a message asks for, checked: ranges with the version held, and rows.
struct Pull {
    dense: Vec<(Arc<Dense>, std::ops::Range<usize>, u64)>,
    rows: Vec<(Arc<Table>, Vec<i64>)>,
}

/// One parameter server's state. All methods may be called from any thread; none waits for the network.
pub struct Store {
    items: RwLock<Items>,
    pub(super) applied: Applied,
    pub(crate) barrier: Mutex<Barrier>,
    pub(super) global_step: AtomicU64,
    /// Every exchange is an update to it.
    pub(super) snapshots: Snapshots<Cut>,
    pub(super) notes: Notes,
    ready: AtomicBool,
    stale: AtomicU64,
    repeats: AtomicU64,
    /// Steps that a restored server has missed, as far as tasks have pushed again since.
    pub(super) missed: AtomicU64,
    pub(super) staleness: Staleness,
    pub(super) counters: Counters,
    /// Whose message replaced values last, and its number.
    pub(super) replaced: Mutex<Option<((TaskId, Incarnation), u64)>>,
}

impl Default for Store {
    fn default() -> Self {
        let snapshots = Snapshots::<Cut>::default();
        Self {
            items: RwLock::new(Items::new(Arc::clone(snapshots.clock()))),
            applied: Applied::default(),
            barrier: Mutex::default(),
            global_step: AtomicU64::default(),
            snapshots,
            notes: Notes::default(),
            ready: AtomicBool::default(),
            stale: AtomicU64::default(),
            repeats: AtomicU64::default(),
            missed: AtomicU64::default(),
            staleness: Staleness::default(),
            counters: Counters::default(),
            replaced: Mutex::default(),
        }
    }
}

impl Store {
    /// Makes what is not there, starting at zero, and answers the handles; asking again for the same changes nothing.
    ///
    /// # Errors
    /// When a name is taken by something else.
    pub fn create(&self, specs: &[Spec]) -> Result<Vec<u32>> {
        self.items.write().unwrap_or_else(PoisonError::into_inner).add(specs)
    }

    /// The handles of what was made before.
    ///
    /// # Errors
    /// When something is not there, or is not what the caller takes it for.
    pub fn find(&self, specs: &[Spec]) -> Result<Vec<u32>> {
        if !self.is_ready() {
            return Err(not_ready());
        }
        self.items().find(specs)
    }

    /// Applies what a step pushes, once, and answers what it pulls, into the room that `space` gives for so many bytes.
    /// The parts of `body` are as in [`InFrame::parts`](phalanx_wire::InFrame::parts).
    ///
    /// # Errors
    /// When the message does not fit what is held here, or its sender may not push.
    pub fn exchange<S: DerefMut<Target = [u8]>>(
        &self,
        from: (TaskId, Incarnation),
        ask: &Exchange,
        body: &[Bytes],
        crew: Crew,
        space: impl FnOnce(usize) -> S,
    ) -> Result<(Exchanged, S)> {
        let (started, bytes_in) = (Instant::now(), body.iter().map(Bytes::len).sum());
        let mut body = Body::new(body);
        let mut answer = Exchanged::default();
        let _update = self.snapshots.update();
        // Everything is checked before anything is changed: an update is applied whole or not at all.
        Notes::check(&ask.note)?;
        let push = self.read_push(ask, &mut body)?;
        let pull = self.read_pull(ask, &mut body)?;
        body.end()?;
        if ask.step > 0 {
            self.push(from, ask, push, crew, &mut answer)?;
        }
        let values = Self::pull(ask, pull, crew, &mut answer, space)?;
        self.counters.count(ask.step > 0, bytes_in, values.len(), started.elapsed());
        Ok((answer, values))
    }

    fn read_push<'a>(&self, ask: &Exchange, body: &mut Body<'a>) -> Result<Push<'a>> {
        let mut dense = Vec::with_capacity(ask.dense_push.len().min(1024));
        for (number, range) in ask.dense_push.iter().enumerate() {
            let shard = self.dense(range.handle)?;
            let elements = shard.check(range.start, range.count)?;
            let keeps_rate = ask.keeps_rate.get(number).copied().unwrap_or(false);
            let rate = ask.learning_rate.filter(|_| !keeps_rate);
            check_rate(&shard.optimizer, rate)?;
            dense.push(RangeGradient { gradient: body.numbers(elements.len())?, shard, elements, rate });
        }
        let mut rows = Vec::with_capacity(ask.row_push.len().min(1024));
        for push in &ask.row_push {
            let table = self.table(push.handle)?;
            let ids = body.ids(push.count as usize)?;
            let gradients = body.numbers(ids.len() * table.dim)?;
            rows.push((table, ids, gradients));
        }
        Ok(Push { dense, rows })
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

    fn push(
        &self,
        from: (TaskId, Incarnation),
        ask: &Exchange,
        push: Push<'_>,
        crew: Crew,
        answer: &mut Exchanged,
    ) -> Result<()> {
        let by_another = ask.on_behalf_of.is_some();
        let update = Update { step: ask.step, part: ask.part, parts: ask.parts, by_another };
        let counts = ask.counts && ask.round == 0 && update.is_last();
        let verdict = self.applied.once(from, update, |verdict, progress| {
            if verdict == Verdict::Fresh {
                answer.stale = !Self::apply(ask, push, crew)?;
                if progress.behind {
                    self.missed.fetch_add(progress.missed(ask.step), Ordering::Relaxed);
                }
                self.notes.keep(from.0, &ask.note);
            }
            let steps = if counts { progress.count(ask.step) } else { 0 };
            let committed = self.global_step.fetch_add(steps, Ordering::AcqRel);
            if verdict == Verdict::Fresh && counts {
                self.staleness.note(ask, committed);
            }
            Ok(())
        })?;
        answer.repeated = verdict != Verdict::Fresh;
        self.repeats.fetch_add(answer.repeated.into(), Ordering::Relaxed);
        self.stale.fetch_add(answer.stale.into(), Ordering::Relaxed);
        Ok(())
    }

    /// Applies gradients, or adds them to their round; false if that round is closed already.
    fn apply(ask: &Exchange, Push { dense, rows }: Push<'_>, crew: Crew) -> Result<bool> {
        let mut block = F32Block::default();
        let mut taken = true;
        for RangeGradient { shard, gradient, elements, rate } in dense {
            match ask.round.checked_sub(1) {
                None => shard.push(elements, gradient, rate, crew)?,
                Some(round) => taken &= shard.contribute(round, elements, gradient, rate, &mut block)?,
            }
        }
        for (table, ids, gradients) in rows {
            match ask.round.checked_sub(1) {
                None => table.push(&ids, gradients, crew)?,
                Some(round) => taken &= table.contribute(round, &ids, gradients)?,
            }
        }
        Ok(taken)
    }

    fn pull<S: DerefMut<Target = [u8]>>(
        ask: &Exchange,
        Pull { mut dense, rows }: Pull,
        crew: Crew,
        answer: &mut Exchanged,
        space: impl FnOnce(usize) -> S,
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
        let mut values = space(4 * numbers);
        let mut rest = &mut values[..];
        for (shard, elements, _) in dense {
            let out = rest.split_off_mut(..4 * elements.len()).unwrap_or_default();
            shard.pull(elements, out, crew)?;
        }
        for (table, ids) in rows {
            table.close(ask.closed);
            let out = rest.split_off_mut(..4 * ids.len() * table.dim).unwrap_or_default();
            table.pull(&ids, out, crew)?;
        }
        Ok(values)
    }

    /// Lets a task to the barrier, unless it was shut out: a late message must not bring it back in.
    pub(crate) fn at_barrier<T>(&self, from: (TaskId, Incarnation), act: impl FnOnce(&mut Barrier) -> T) -> Result<T> {
        self.applied.admitted(from, || act(&mut lock(&self.barrier)))
    }

    /// Shuts a lost task's life out, and says how far it came.
    pub fn fence(&self, task: TaskId, incarnation: Incarnation) -> Fenced {
        let progress = self.applied.fence((task, incarnation));
        lock(&self.barrier).leave((task, incarnation));
        Fenced { step: progress.step, complete: progress.parts_applied == progress.parts }
    }

    /// Task lives that have pushed or joined the rounds here and are not fenced.
    pub fn lives(&self) -> BTreeSet<(TaskId, Incarnation)> {
        let mut lives: BTreeSet<_> = self.applied.lives().into_iter().collect();
        lives.extend(lock(&self.barrier).members());
        lives
    }

    /// Says that the model is initialised.
    pub fn set_ready(&self) {
        self.ready.store(true, Ordering::Release);
    }

    /// Whether the model is initialised.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// How many steps were committed, where this server counts them.
    pub fn global_step(&self) -> u64 {
        self.global_step.load(Ordering::Acquire)
    }

    /// Takes note that a synchronous round was closed.
    pub(crate) fn reach_step(&self, step: u64) {
        self.global_step.fetch_max(step, Ordering::AcqRel);
    }

    /// Contributions dropped because their round was closed.
    pub fn stale(&self) -> u64 {
        self.stale.load(Ordering::Relaxed)
    }

    /// Updates dropped because they had been applied.
    pub fn repeats(&self) -> u64 {
        self.repeats.load(Ordering::Relaxed)
    }

    /// Steps that a restored server has missed, as far as tasks have pushed again since.
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// How many shards of variables and how many tables are held.
    pub fn counts(&self) -> (usize, usize) {
        self.items().counts()
    }

    /// Replaces every shard and table by an empty one under the same handle.
    pub(super) fn clear_items(&self) {
        self.items.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Synchronous mode: rounds below this are closed, as far as anybody has said here.
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

/// A learning rate that came from outside must be one that the optimizer takes.
fn check_rate(optimizer: &Optimizer, rate: Option<f32>) -> Result<()> {
    rate.map_or(Ok(()), |rate| optimizer.with_learning_rate(rate).validate())
}
