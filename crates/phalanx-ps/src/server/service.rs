//! The service that answers the frames of one job from a store.

use super::barrier::{Arrival, Hold};
use super::restoring::{self, Restoring};
use super::saving::{IntoFile, ToFetch};
use super::{Store, TaskIncarnation, lock};
use crate::Executor;
use crate::plan::ItemSpec;
use crate::proto::{self, Reply, reply, request};
use bytes::Bytes;
use phalanx_base::{Code, Context, Error, Incarnation, Result, TaskId};
use phalanx_storage::Dir;
use phalanx_wire::bulk::{Handler, Pending};
use phalanx_wire::{InFrame, OutFrame, task_from_wire, task_to_wire};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

/// The longest time a request waits before the reply is "ask again".
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Answers frames for one job.
pub struct Service {
    store: Arc<Store>,
    job: u64,
    task: TaskId,
    incarnation: Incarnation,
    /// Notified whenever the barrier or a clock may have released a worker.
    moved: Notify,
    /// The snapshots that are being written, by their ids.
    saving: Mutex<Option<(u64, Arc<IntoFile>)>>,
    fetching: Mutex<Option<(u64, Arc<ToFetch>)>>,
    /// The newest attempt to restore, by its id.
    restoring: Mutex<Option<(u64, Arc<Restoring>)>>,
}

impl Service {
    /// Serves `store` as this incarnation of `task` of the job with this digest.
    #[must_use]
    pub fn new(store: Arc<Store>, job: u64, task: TaskId, incarnation: Incarnation) -> Self {
        let (saving, fetching, restoring) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { store, job, task, incarnation, moved: Notify::new(), saving, fetching, restoring }
    }

    async fn answer(self: &Arc<Self>, mut frame: InFrame) -> Result<OutFrame> {
        let ask: proto::Request = frame.header()?;
        if ask.job != self.job {
            return Err(Error::new(Code::WrongJob, format!("{} belongs to another job", self.task))
                .help("see whether two jobs use the same address"));
        }
        if ask.server_incarnation.is_some_and(|incarnation| incarnation != self.incarnation.0) {
            return Err(Error::new(Code::ServerRestarted, format!("{} was restarted", self.task))
                .because("the request is for its former incarnation")
                .help("the task retries by itself"));
        }
        let op = ask.op.ok_or_else(|| Error::new(Code::BadMessage, "a request asks for nothing"))?;
        let from = task_from_wire(ask.client.as_ref());
        let store = &self.store;
        let (mut values, mut pulled) = (Bytes::new(), None);
        let result = match op {
            request::Op::Exchange(ask) => {
                let on_behalf_of = ask.on_behalf_of.as_ref();
                let from = on_behalf_of.map_or(from, |other| task_from_wire(Some(other)))?;
                let executor = if frame.is_in_process() { Executor::Parallel } else { Executor::Serial };
                // Cloned handles: the reply buffer is taken from the frame while its body is read.
                let body = frame.parts().to_vec();
                let (exchanged, out) = store.exchange(from, &ask, &body, executor, |len| frame.reply(len))?;
                pulled = Some(out);
                Some(reply::Result::Exchanged(exchanged))
            }
            request::Op::Create(ask) => Some(handles(store.create(&specs(&ask.specs)?)?)),
            request::Op::Find(ask) => Some(handles(store.find(&specs(&ask.specs)?)?)),
            request::Op::Assign(ask) => {
                if ask.replaces {
                    store.replace(from?, &ask, frame.parts())?;
                } else {
                    store.assign(&ask, frame.parts())?;
                }
                None
            }
            request::Op::SetReady(_) => {
                if ask.server_incarnation.is_none() {
                    return Err(Error::new(Code::BadMessage, "a server is declared ready without its incarnation")
                        .because("a server that was restarted meanwhile would be declared ready without a model"));
                }
                let store = Arc::clone(store);
                let ready = tokio::task::spawn_blocking(move || store.make_ready()).await;
                ready.context(Code::Internal, "a server could not be declared ready")??;
                None
            }
            request::Op::Describe(_) => Some(reply::Result::Description(self.describe())),
            request::Op::Fence(ask) => {
                let lost = task_from_wire(ask.lost.as_ref())?;
                // A server that holds nothing yet would report that the task has pushed nothing.
                if !store.applied.is_behind() {
                    store.check_ready()?;
                }
                let progress = store.fence(lost)?;
                self.moved.notify_waiters();
                let (step, complete) = (progress.step, progress.is_complete());
                Some(reply::Result::Fenced(proto::Fenced { step, complete }))
            }
            request::Op::Join(ask) => {
                let round = Some(store.join(from?, &ask)?);
                Some(reply::Result::Arrived(proto::Arrived { round }))
            }
            request::Op::Leave(_) => {
                store.leave(from?)?;
                self.moved.notify_waiters();
                None
            }
            request::Op::Arrive(ask) => Some(reply::Result::Arrived(self.arrive(from?, &ask).await?)),
            request::Op::Advance(ask) => Some(reply::Result::Arrived(self.advance(from?, &ask).await?)),
            request::Op::ClaimBlock(ask) => Some(reply::Result::BlockClaimed(store.claim_block(from?, ask)?)),
            request::Op::CloseRound(ask) => {
                let round = store.close_round(ask.round)?;
                Some(reply::Result::Arrived(proto::Arrived { round }))
            }
            request::Op::Hold(ask) => Some(reply::Result::Arrived(self.hold(ask.millis))),
            request::Op::TakeSnapshot(ask) => {
                let snapshot = store.take_snapshot(ask.id, ask.closed, ask.first)?;
                Some(reply::Result::SnapshotTaken(proto::SnapshotTaken {
                    pause_micros: snapshot.pause.as_micros() as u64,
                    table_rows: snapshot.table_rows(),
                    bytes: snapshot.bytes(),
                    global_step: snapshot.global_step,
                    changes: snapshot.changes,
                }))
            }
            request::Op::Save(ask) => Some(reply::Result::Saved(self.save(ask, &mut values).await?)),
            request::Op::Fetch(ask) => Some(reply::Result::Saved(self.fetch(ask, &mut values).await?)),
            request::Op::ReleaseSnapshot(ask) => {
                store.release_snapshot(ask.snapshot);
                let saved = lock(&self.saving).take_if(|(id, _)| *id == ask.snapshot);
                if let Some((_, saving)) = saved {
                    tokio::task::spawn_blocking(move || saving.clean_up());
                }
                lock(&self.fetching).take_if(|(id, _)| *id == ask.snapshot);
                None
            }
            request::Op::GetInputPositions(_) => {
                let position =
                    |(task, position): (TaskId, _)| proto::InputPosition { task: task.to_string(), position };
                let positions = store.input_positions.all().into_iter().map(position).collect();
                Some(reply::Result::InputPositions(proto::InputPositions { positions }))
            }
            request::Op::Restore(ask) => Some(reply::Result::Restored(self.restore(ask).await?)),
            request::Op::Probe(ask) => Some(reply::Result::Probed(probe(ask).await?)),
        };
        let (global_step, server_incarnation) = (store.global_step(), self.incarnation.0);
        let header = Reply { global_step, server_incarnation, result };
        if let Some(pulled) = pulled {
            return Ok(OutFrame::reply(&header, pulled));
        }
        let mut out = OutFrame::new(&header);
        if !values.is_empty() {
            out.push(values);
        }
        Ok(out)
    }

    /// Keeps the open round from closing for at most this time, since the client may die. With 0 it ends the current hold.
    fn hold(self: &Arc<Self>, millis: u32) -> proto::Arrived {
        if millis == 0 {
            return proto::Arrived { round: Some(self.end_hold(None)) };
        }
        let (hold, round) = self.store.hold();
        let (service, time) = (Arc::clone(self), Duration::from_millis(millis.into()));
        tokio::spawn(async move {
            tokio::time::sleep(time).await;
            service.end_hold(Some(hold));
        });
        proto::Arrived { round: Some(round) }
    }

    /// Ends this hold, or the current one, and returns the round that is then open.
    fn end_hold(&self, hold: Option<Hold>) -> u64 {
        let (ended, round) = self.store.end_hold(hold);
        if ended {
            self.moved.notify_waiters();
        }
        round
    }

    async fn save(&self, ask: proto::Save, index: &mut Bytes) -> Result<proto::Saved> {
        let wait = Duration::from_millis(ask.wait_ms.into()).min(LONGEST_WAIT);
        let start = || IntoFile::start(self.store.snapshot(ask.snapshot)?, ask.clone());
        let saving = get_or_start(&self.saving, ask.snapshot, start)?;
        let Some(outcome) = saving.wait(wait).await else { return Ok(proto::Saved::default()) };
        let written = outcome?;
        *index = written.index;
        Ok(proto::Saved { done: true, staged: written.staged, bytes: written.bytes })
    }

    async fn fetch(&self, ask: proto::Fetch, body: &mut Bytes) -> Result<proto::Saved> {
        let start = || ToFetch::start(self.store.snapshot(ask.snapshot)?, ask.part.clone().unwrap_or_default());
        let fetching = get_or_start(&self.fetching, ask.snapshot, start)?;
        let (done, bytes, size) = fetching.block(ask.block).await?;
        *body = bytes;
        Ok(proto::Saved { done, staged: String::new(), bytes: size })
    }

    async fn restore(&self, ask: proto::Restore) -> Result<proto::Restored> {
        let wait = Duration::from_millis(ask.wait_ms.into()).min(LONGEST_WAIT);
        let restoring = {
            let mut restoring = lock(&self.restoring);
            match restoring.as_ref() {
                Some((id, running)) if *id == ask.id => Arc::clone(running),
                // An attempt that is still running would continue to write into the same items.
                Some((_, other)) if other.outcome().is_none() => return Ok(proto::Restored::default()),
                _ => {
                    let started = restoring::start(Arc::clone(&self.store), ask.clone())?;
                    *restoring = Some((ask.id, Arc::clone(&started)));
                    started
                }
            }
        };
        let Some(outcome) = restoring.wait(wait).await else { return Ok(proto::Restored::default()) };
        Ok(proto::Restored { done: true, read: outcome? })
    }

    async fn arrive(&self, from: TaskIncarnation, ask: &proto::Arrive) -> Result<proto::Arrived> {
        let wait = Duration::from_millis(ask.wait_ms.into()).min(LONGEST_WAIT);
        self.store.check_ready()?;
        let waiting = async {
            let mut moved = std::pin::pin!(self.moved.notified());
            // Listen before looking, or a round that closes in between would be missed.
            moved.as_mut().enable();
            let mut arrival = self.store.arrive(from, ask)?;
            self.moved.notify_waiters();
            loop {
                if let Arrival::Go(round) = arrival {
                    return Ok(Some(round));
                }
                moved.as_mut().await;
                moved.set(self.moved.notified());
                moved.as_mut().enable();
                arrival = self.store.poll_round(from);
            }
        };
        let round = tokio::time::timeout(wait, waiting).await.unwrap_or(Ok(None))?;
        Ok(proto::Arrived { round })
    }

    /// Sets a client's clock and waits until it is not too far ahead of the slowest one.
    async fn advance(&self, from: TaskIncarnation, ask: &proto::Advance) -> Result<proto::Arrived> {
        let wait = Duration::from_millis(ask.wait_ms.into()).min(LONGEST_WAIT);
        self.store.check_ready()?;
        if let Some(slowest) = self.store.advance(from, ask)? {
            return Ok(proto::Arrived { round: Some(slowest) });
        }
        self.moved.notify_waiters();
        let waiting = async {
            loop {
                let mut moved = std::pin::pin!(self.moved.notified());
                // Listen before looking, or a clock that advances in between would be missed.
                moved.as_mut().enable();
                let slowest = self.store.poll_clocks(from, ask.most_ahead);
                if slowest.is_some() {
                    return slowest;
                }
                moved.await;
            }
        };
        Ok(proto::Arrived { round: tokio::time::timeout(wait, waiting).await.unwrap_or(None) })
    }

    fn describe(&self) -> proto::Description {
        let (variables, tables) = self.store.counts();
        let (stale, members) = self.store.rounds_of();
        let tasks = self.store.task_incarnations();
        let (newest_clock, widest_lag) = self.store.staleness.clocks();
        proto::Description {
            ready: self.store.is_ready(),
            stale: self.store.stale().max(stale),
            repeats: self.store.repeats(),
            variables: variables as u64,
            tables: tables as u64,
            tasks: tasks.into_iter().map(|(task, incarnation)| task_to_wire(task, incarnation)).collect(),
            staleness: self.store.staleness.counts(),
            newest_clock,
            widest_lag,
            progress: self.store.applied.all().iter().map(progress_to_wire).collect(),
            restored: self.store.applied.is_behind(),
            closed: self.store.closed(),
            missed: self.store.missed(),
            members,
            replayed: self.store.replayed().is_some(),
            logs: self.store.has_log(),
        }
    }
}

impl Handler for Service {
    fn call(self: Arc<Self>, frame: InFrame) -> Pending<'static, Result<OutFrame>> {
        Box::pin(async move {
            self.answer(frame).await.map_err(|error| match error.place() {
                Some(_) => error,
                None => error.at(self.task.to_string()),
            })
        })
    }
}

/// Returns the work with this id, or starts it in place of any other.
fn get_or_start<T>(
    slot: &Mutex<Option<(u64, Arc<T>)>>,
    id: u64,
    start: impl FnOnce() -> Result<Arc<T>>,
) -> Result<Arc<T>> {
    let mut slot = lock(slot);
    if let Some((_, running)) = slot.as_ref().filter(|(known, _)| *known == id) {
        return Ok(Arc::clone(running));
    }
    let started = start()?;
    *slot = Some((id, Arc::clone(&started)));
    Ok(started)
}

pub(super) fn progress_to_wire(
    &((task, incarnation), progress): &(TaskIncarnation, super::TaskProgress),
) -> proto::TaskProgress {
    proto::TaskProgress {
        task: Some(task_to_wire(task, incarnation)),
        step: progress.step,
        parts_applied: progress.parts_applied,
        parts: progress.parts,
        fenced: progress.fenced,
        behind: progress.behind,
        counted: progress.counted,
        lacking: progress.lacking,
    }
}

pub(super) fn specs(specs: &[proto::Spec]) -> Result<Vec<ItemSpec>> {
    specs.iter().map(ItemSpec::from_wire).collect()
}

fn handles(handles: Vec<u32>) -> reply::Result {
    reply::Result::Handles(proto::Handles { handles })
}

/// Whether this task sees the file. Any error means that it does not.
async fn probe(ask: proto::Probe) -> Result<proto::Probed> {
    let look = move || {
        let found = Dir::open(&ask.location).and_then(|dir| dir.read(&ask.file, 1 << 10));
        proto::Probed { sees: found.is_ok_and(|content| content == ask.content.as_bytes()) }
    };
    tokio::task::spawn_blocking(look).await.context(Code::Internal, "a probe for a file panicked")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{Client, ClientOptions};
    use phalanx_base::Role;

    #[test]
    fn a_server_that_holds_nothing_yet_does_not_report_the_progress_of_a_lost_task() {
        let store = Arc::<Store>::default();
        let service = Service::new(Arc::clone(&store), 1, TaskId::new(Role::Ps, 0), Incarnation(7));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let server = phalanx_wire::bulk::in_process(Arc::new(service), runtime.handle().clone(), "ps/0".into());
        let mut options = ClientOptions::new(1, TaskId::new(Role::Chief, 0), Incarnation(2));
        options.patience = Duration::ZERO;
        let client = Client::inside(server, options).unwrap();
        let fence = || client.fence(TaskId::new(Role::Worker, 0), Incarnation(1));
        assert_eq!(fence().unwrap_err().code(), Code::NotInitialized);
        store.set_ready();
        assert_eq!(fence().unwrap(), [(0, true)]);
    }
}
