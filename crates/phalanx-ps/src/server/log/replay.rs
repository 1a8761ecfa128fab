//! A server that continues where its former incarnation was killed.

use super::base::{self, CHECKPOINT};
use super::record::{self, Logged};
use super::{LogPlan, LogSlot, RECORD_WORK, UpdateLog};
use crate::Executor;
use crate::checkpoint::{Checkpoint, restore_part};
use crate::plan::ItemSpec;
use crate::proto::{Exchanged, LogState, request};
use crate::server::barrier::Barrier;
use crate::server::block_claims::BlockClaims;
use crate::server::clocks::Clocks;
use crate::server::{Store, TaskIncarnation, TaskProgress, assign, lock, restoring, service};
use bytes::Bytes;
use phalanx_base::{Code, Error, Result};
use phalanx_storage::Dir;
use phalanx_wal::{Found, Wal, WalOptions};
use phalanx_wire::{task_from_wire, task_to_wire};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What a replay did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// How many records were applied to the snapshot.
    pub records: u64,
    /// How many records were not complete: nobody had been told of them.
    pub torn: u64,
    /// The committed steps that the server continues at, where it counts them.
    pub global_step: u64,
    /// How long it took.
    pub time: Duration,
}

impl Store {
    /// Returns the store of a former incarnation of this server, with everything that it had acknowledged, and ready; an
    /// empty store if there was none.
    ///
    /// # Errors
    /// When the log or its snapshot is damaged.
    pub fn recover(plan: LogPlan) -> Result<Arc<Self>> {
        let started = Instant::now();
        let Some((path, state)) = base::newest(plan.folder.path())? else { return Ok(Arc::new(Self::with_log(plan))) };
        let plan = Arc::new(plan);
        let store = Self::over(LogSlot { plan: Some(Arc::clone(&plan)), ..LogSlot::default() });
        store.resume(&path, &state).map_err(damaged)?;
        let (mut records, mut torn, mut open_rounds) = (0, 0, BTreeMap::new());
        let options = WalOptions { log: state.log, most_segments: plan.most_segments };
        let wal = Wal::recover(plan.space(), options, state.replay_from, |found| {
            let Found::Record { position, kind, body } = found else {
                torn += 1;
                return Ok(());
            };
            records += 1;
            let logged = record::read(kind, body)?;
            if let Logged::Exchange(_, ask, _) = &logged
                && let Some(round) = ask.round.filter(|&round| round >= state.closed)
            {
                open_rounds.entry(round).or_insert(position);
            }
            let replayed = store.replay(logged, position < state.position, state.closed);
            replayed.map_err(|error| damaged(error).at(format!("byte {position}")))
        })?;
        let log = UpdateLog::new(store.log.planned(&plan), wal, state.position, open_rounds);
        log.next_snapshot(0, 0);
        log.work.store(records * RECORD_WORK + log.wal.held(), Ordering::Relaxed);
        let store = Arc::new(store);
        store.start_snapshots(&log)?;
        // From now on, what it does is in the log again.
        let _first = store.log.active.set(log);
        let replayed = Replayed { records, torn, global_step: store.global_step(), time: started.elapsed() };
        let _first = store.log.replayed.set(replayed);
        store.set_ready();
        Ok(store)
    }

    /// Returns the state that a checkpoint of this server does not have.
    pub(super) fn log_state(&self, log: u64, (position, replay_from): (u64, u64), closed: u64) -> LogState {
        let replaced = *lock(&self.replaced);
        LogState {
            log,
            position,
            replay_from,
            closed,
            specs: self.items().list().iter().map(|item| item.spec().to_wire()).collect(),
            progress: self.applied.all().iter().map(service::progress_to_wire).collect(),
            restored: self.applied.is_behind(),
            global_step: self.global_step(),
            changes: self.changes.load(Ordering::Acquire),
            stale: self.stale(),
            repeats: self.repeats(),
            missed: self.missed(),
            replaced_by: replaced.map(|((task, incarnation), _)| task_to_wire(task, incarnation)),
            replaced: replaced.map_or(0, |(_, number)| number),
            rounds: Some(lock(&self.participants.barrier).state()),
            clocks: lock(&self.participants.clocks).state(),
            claims: Some(lock(&self.participants.block_claims).state()),
        }
    }

    /// Takes over a snapshot.
    fn resume(&self, folder: &Path, state: &LogState) -> Result<()> {
        let specs = state.specs.iter().map(ItemSpec::from_wire).collect::<Result<Vec<_>>>()?;
        self.create(&specs)?;
        let checkpoint = Checkpoint::open(&Dir::local(folder), CHECKPOINT)?;
        let mut plan = restoring::plan(self, 0, 1);
        // All rows in the snapshot are this server's.
        plan.tables.iter_mut().for_each(|table| table.pinned = None);
        restore_part(&checkpoint, &plan, &|assign, body| self.assign(&assign, &body))?;
        let progress = state.progress.iter().map(|progress| {
            let (task, known) = assign::read(progress)?;
            Ok((task, TaskProgress { behind: progress.behind, ..known }))
        });
        self.applied.resume(progress.collect::<Result<Vec<_>>>()?, state.restored);
        for (counter, value) in [
            (&self.global_step, state.global_step),
            (&self.changes, state.changes),
            (&self.stale, state.stale),
            (&self.repeats, state.repeats),
            (&self.missed, state.missed),
        ] {
            counter.store(value, Ordering::Release);
        }
        if let Some(by) = &state.replaced_by {
            *lock(&self.replaced) = Some((task_from_wire(Some(by))?, state.replaced));
        }
        *lock(&self.participants.barrier) = Barrier::resume(state.rounds.clone().unwrap_or_default())?;
        *lock(&self.participants.clocks) = Clocks::resume(state.clocks.clone())?;
        *lock(&self.participants.block_claims) = BlockClaims::resume(state.claims.clone().unwrap_or_default())?;
        self.reach_step(lock(&self.participants.barrier).round());
        Ok(())
    }

    /// Applies a record. The snapshot has what was recorded before it, except the gradients of rounds from `closed` on.
    fn replay(&self, logged: Logged, is_in_snapshot: bool, closed: u64) -> Result<()> {
        match logged {
            Logged::Exchange(from, ask, gradients) => {
                let body = [gradients];
                let (push, rest) = self.read_push(&ask, &body)?;
                rest.end()?;
                let update = ask.update.ok_or_else(|| Error::new(Code::LogDamaged, "an update without its id"))?;
                if !is_in_snapshot {
                    return self.push(from, (&ask, update), push, Executor::Parallel, &mut Exchanged::default());
                }
                if ask.round.is_some_and(|round| round >= closed) {
                    Self::apply(&ask, update.part == 0, push, Executor::Parallel)?;
                }
                Ok(())
            }
            Logged::Operation(..) if is_in_snapshot => Ok(()),
            Logged::Operation(from, op, body) => self.replay_operation(from, *op, &[body]),
        }
    }

    fn replay_operation(&self, from: Option<TaskIncarnation>, op: request::Op, body: &[Bytes]) -> Result<()> {
        let nobody = || Error::new(Code::LogDamaged, "a record does not name its task");
        let from = from.ok_or_else(nobody);
        match op {
            request::Op::Create(ask) => self.create(&service::specs(&ask.specs)?).map(drop),
            request::Op::Assign(ask) => self.replace_now(from?, &ask, body),
            request::Op::Fence(ask) => self.fence(task_from_wire(ask.lost.as_ref())?).map(drop),
            request::Op::Join(ask) => self.join(from?, &ask).map(drop),
            request::Op::Leave(_) => self.leave(from?),
            request::Op::Arrive(ask) => self.arrive(from?, &ask).map(drop),
            request::Op::Advance(ask) => self.advance(from?, &ask).map(drop),
            request::Op::ClaimBlock(ask) => self.claim_block(from?, ask).map(drop),
            request::Op::CloseRound(ask) => self.close_round(ask.round).map(drop),
            _ => Err(Error::new(Code::LogDamaged, "a record of an operation that changes nothing")),
        }
    }
}

fn damaged(error: Error) -> Error {
    Error::new(Code::LogDamaged, "the write-ahead log cannot be replayed")
        .because(error)
        .help("the server begins with the newest checkpoint instead")
}
