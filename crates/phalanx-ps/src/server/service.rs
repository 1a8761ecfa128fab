//! The store behind the bulk lane.

use super::barrier::{Arrival, Hold};
use super::restoring::{self, Restoring};
use super::saving::{IntoFile, ToFetch};
use super::{Store, lock};
use crate::Crew;
use crate::client::to_wire;
use bytes::Bytes;
use phalanx_base::{Code, Context, Error, Incarnation, Result, Role, TaskId};
use phalanx_storage::Dir;
use phalanx_wire::bulk::{Handler, Pending};
use phalanx_wire::proto::params::{self, Reply, reply, request};
use phalanx_wire::{InFrame, OutFrame};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

/// The longest a request for the barrier is kept waiting before it is answered "ask again".
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Answers frames for one job.
pub struct Service {
    store: Arc<Store>,
    job: u64,
    task: TaskId,
    life: Incarnation,
    /// Rung whenever the barrier may have let somebody go.
    moved: Notify,
    /// The instants that are being written down, by their ids.
    saving: Mutex<Option<(u64, Arc<IntoFile>)>>,
    fetching: Mutex<Option<(u64, Arc<ToFetch>)>>,
    /// The newest attempt to restore, by its id.
    restoring: Mutex<Option<(u64, Arc<Restoring>)>>,
}

impl Service {
    /// Serves `store` as this life of `task` of the job with this digest.
    #[must_use]
    pub fn new(store: Arc<Store>, job: u64, task: TaskId, life: Incarnation) -> Self {
        let (saving, fetching, restoring) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { store, job, task, life, moved: Notify::new(), saving, fetching, restoring }
    }

    async fn answer(self: &Arc<Self>, mut frame: InFrame) -> Result<OutFrame> {
        let ask: params::Request = frame.header()?;
        if ask.job != self.job {
            return Err(Error::new(Code::WrongJob, format!("{} belongs to another job", self.task))
                .help("see whether two jobs use the same address"));
        }
        if ask.server_life != 0 && ask.server_life != self.life.0 {
            return Err(Error::new(Code::ServerRestarted, format!("{} was started anew", self.task))
                .because("the request is for its former life")
                .help("the task asks again by itself"));
        }
        let named_life = ask.server_life != 0;
        let op = ask.op.ok_or_else(|| Error::new(Code::BadMessage, "a request asks for nothing"))?;
        let from = identity(ask.client.as_ref());
        let store = &self.store;
        let (mut values, mut pulled) = (Bytes::new(), None);
        let result = match op {
            request::Op::Exchange(ask) => {
                let on_behalf_of = ask.on_behalf_of.as_ref();
                let from = on_behalf_of.map_or(from, |other| identity(Some(other)))?;
                let crew = if frame.is_inside() { Crew::Compute } else { Crew::Alone };
                // Handles of our own: the buffer for the answer is taken from the frame while its body is read.
                let body = frame.parts().to_vec();
                let (exchanged, out) = store.exchange(from, &ask, &body, crew, |len| frame.reply(len))?;
                pulled = Some(out);
                Some(reply::Result::Exchanged(exchanged))
            }
            request::Op::Create(ask) => Some(handles(store.create(&ask.specs)?)),
            request::Op::Find(ask) => Some(handles(store.find(&ask.specs)?)),
            request::Op::Assign(ask) => {
                if ask.replaces {
                    store.replace(from?, &ask, frame.parts())?;
                } else {
                    store.assign(&ask, frame.parts())?;
                }
                None
            }
            request::Op::SetReady(_) => {
                if !named_life {
                    return Err(Error::new(Code::BadMessage, "a server is declared ready without its incarnation")
                        .because("a server that was restarted meanwhile would be declared ready without a model"));
                }
                store.set_ready();
                None
            }
            request::Op::Describe(_) => Some(reply::Result::Description(self.describe())),
            request::Op::Fence(ask) => {
                let (task, incarnation) = identity(ask.lost.as_ref())?;
                // One that holds nothing yet would say that the task has pushed nothing here.
                if !store.is_ready() && !store.applied.is_behind() {
                    return Err(super::cut::not_ready());
                }
                let fenced = store.fence(task, incarnation);
                self.moved.notify_waiters();
                Some(reply::Result::Fenced(fenced))
            }
            request::Op::Join(ask) => {
                let (from, step) = (from?, store.global_step());
                let round = store.at_barrier(from, |barrier| barrier.join(from, ask.replicas_to_aggregate, step))?;
                Some(reply::Result::Arrived(params::Arrived { round: Some(round) }))
            }
            request::Op::Leave(_) => {
                lock(&store.barrier).leave(from?);
                self.moved.notify_waiters();
                None
            }
            request::Op::Arrive(ask) => Some(reply::Result::Arrived(self.arrive(from?, &ask).await?)),
            request::Op::CloseRound(ask) => Some(reply::Result::Arrived(self.close_round(ask.round))),
            request::Op::Hold(ask) => Some(reply::Result::Arrived(self.hold(ask.millis))),
            request::Op::Cut(ask) => {
                let cut = store.cut(ask.id, ask.closed, ask.first)?;
                let pause_micros = cut.pause.as_micros() as u64;
                let (table_rows, bytes, global_step) = (cut.table_rows(), cut.bytes(), cut.global_step);
                Some(reply::Result::CutMade(params::CutMade { pause_micros, table_rows, bytes, global_step }))
            }
            request::Op::Save(ask) => Some(reply::Result::Saved(self.save(ask, &mut values).await?)),
            request::Op::Fetch(ask) => Some(reply::Result::Saved(self.fetch(ask, &mut values).await?)),
            request::Op::Release(ask) => {
                store.release(ask.cut);
                let saved = lock(&self.saving).take_if(|(cut, _)| *cut == ask.cut);
                if let Some((_, saving)) = saved {
                    tokio::task::spawn_blocking(move || saving.clean_up());
                }
                lock(&self.fetching).take_if(|(cut, _)| *cut == ask.cut);
                None
            }
            request::Op::Recall(_) => {
                let notes = store.notes.all().into_iter();
                let notes = notes.map(|(task, note)| params::Note { task: task.to_string(), note }).collect();
                Some(reply::Result::Notes(params::Notes { notes }))
            }
            request::Op::Restore(ask) => Some(reply::Result::Restored(self.restore(ask).await?)),
            request::Op::Probe(ask) => Some(reply::Result::Probed(probe(ask).await?)),
        };
        let (global_step, server_life) = (store.global_step(), self.life.0);
        let header = Reply { global_step, server_life, result };
        if let Some(pulled) = pulled {
            return Ok(OutFrame::reply(&header, pulled));
        }
        let mut out = OutFrame::new(&header);
        if !values.is_empty() {
            out.push(values);
        }
        Ok(out)
    }

    /// Closes a round that a coordinator says is complete.
    fn close_round(&self, round: u64) -> params::Arrived {
        let open = lock(&self.store.barrier).close(round);
        if let Some(open) = open {
            self.store.reach_step(open);
        }
        params::Arrived { round: open }
    }

    /// Keeps the open round from closing for so many milliseconds at most, since the task that asked may die. With 0 it ends
    /// the hold there is.
    fn hold(self: &Arc<Self>, millis: u32) -> params::Arrived {
        if millis == 0 {
            return params::Arrived { round: Some(self.end_hold(None)) };
        }
        let (hold, round) = {
            let mut barrier = lock(&self.store.barrier);
            (barrier.hold(), barrier.round())
        };
        let (service, time) = (Arc::clone(self), Duration::from_millis(millis.into()));
        tokio::spawn(async move {
            tokio::time::sleep(time).await;
            service.end_hold(Some(hold));
        });
        params::Arrived { round: Some(round) }
    }

    /// Ends this hold, or whichever there is, and returns the round that is open then.
    fn end_hold(&self, hold: Option<Hold>) -> u64 {
        let (ended, round) = {
            let mut barrier = lock(&self.store.barrier);
            (barrier.end_hold(hold), barrier.round())
        };
        if ended {
            self.store.reach_step(round);
            self.moved.notify_waiters();
        }
        round
    }

    async fn save(&self, ask: params::Save, index: &mut Bytes) -> Result<params::Saved> {
        let wait = Duration::from_millis(ask.wait_ms.into()).min(LONGEST_WAIT);
        let saving = {
            let mut saving = lock(&self.saving);
            match saving.as_ref().filter(|(cut, _)| *cut == ask.cut) {
                Some((_, saving)) => Arc::clone(saving),
                None => {
                    let started = IntoFile::start(self.store.cut_with(ask.cut)?, ask.clone())?;
                    *saving = Some((ask.cut, Arc::clone(&started)));
                    started
                }
            }
        };
        let Some(outcome) = saving.wait(wait).await else { return Ok(params::Saved::default()) };
        let written = outcome?;
        *index = written.index;
        Ok(params::Saved { done: true, staged: written.staged, bytes: written.bytes })
    }

    async fn fetch(&self, ask: params::Fetch, body: &mut Bytes) -> Result<params::Saved> {
        let fetching = {
            let mut fetching = lock(&self.fetching);
            match fetching.as_ref().filter(|(cut, _)| *cut == ask.cut) {
                Some((_, fetching)) => Arc::clone(fetching),
                None => {
                    let part = ask.part.clone().unwrap_or_default();
                    let started = ToFetch::start(self.store.cut_with(ask.cut)?, part)?;
                    *fetching = Some((ask.cut, Arc::clone(&started)));
                    started
                }
            }
        };
        let (done, bytes, size) = fetching.block(ask.block).await?;
        *body = bytes;
        Ok(params::Saved { done, staged: String::new(), bytes: size })
    }

    async fn restore(&self, ask: params::Restore) -> Result<params::Restored> {
        let wait = Duration::from_millis(ask.wait_ms.into()).min(LONGEST_WAIT);
        let restoring = {
            let mut restoring = lock(&self.restoring);
            match restoring.as_ref() {
                Some((id, running)) if *id == ask.id => Arc::clone(running),
                // One that is still at work would go on to write into the same items.
                Some((_, other)) if other.outcome().is_none() => return Ok(params::Restored::default()),
                _ => {
                    let started = restoring::start(Arc::clone(&self.store), ask.clone())?;
                    *restoring = Some((ask.id, Arc::clone(&started)));
                    started
                }
            }
        };
        let Some(outcome) = restoring.wait(wait).await else { return Ok(params::Restored::default()) };
        Ok(params::Restored { done: true, read: outcome? })
    }

    async fn arrive(&self, who: (TaskId, Incarnation), ask: &params::Arrive) -> Result<params::Arrived> {
        let wait = Duration::from_millis(ask.wait_ms.into()).min(LONGEST_WAIT);
        if !self.store.is_ready() {
            return Err(super::cut::not_ready());
        }
        let waiting = async {
            let mut moved = std::pin::pin!(self.moved.notified());
            // Listen before looking, or a round that closes in between would be missed.
            moved.as_mut().enable();
            let (mut arrival, round) = self.store.at_barrier(who, |barrier| {
                barrier.remember(ask.replicas_to_aggregate);
                let before = barrier.round();
                let arrival = barrier.arrive(who, ask.step, ask.round);
                (arrival, (barrier.round() != before).then(|| barrier.round()))
            })?;
            if let Some(round) = round {
                self.store.reach_step(round);
            }
            self.moved.notify_waiters();
            loop {
                if let Arrival::Go(round) = arrival {
                    return Ok(Some(round));
                }
                moved.as_mut().await;
                moved.set(self.moved.notified());
                moved.as_mut().enable();
                arrival = lock(&self.store.barrier).poll(who);
            }
        };
        let round = tokio::time::timeout(wait, waiting).await.unwrap_or(Ok(None))?;
        Ok(params::Arrived { round })
    }

    fn describe(&self) -> params::Description {
        let (variables, tables) = self.store.counts();
        // In statements of their own: two guards in one expression would wait for each other.
        let stale = lock(&self.store.barrier).stale();
        let lives = self.store.lives();
        let (newest_clock, widest_lag) = self.store.staleness.clocks();
        params::Description {
            ready: self.store.is_ready(),
            stale: self.store.stale().max(stale),
            repeats: self.store.repeats(),
            variables: variables as u64,
            tables: tables as u64,
            lives: lives.into_iter().map(|(task, incarnation)| to_wire(task, incarnation)).collect(),
            staleness: self.store.staleness.counts(),
            newest_clock,
            widest_lag,
            applied: self.store.applied.all().iter().map(applied).collect(),
            restored: self.store.applied.is_behind(),
            closed: self.store.closed(),
            missed: self.store.missed(),
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

/// A task's progress here as messages have it.
fn applied(&((task, incarnation), progress): &((TaskId, Incarnation), super::Progress)) -> params::Applied {
    params::Applied {
        life: Some(to_wire(task, incarnation)),
        step: progress.step,
        parts_applied: progress.parts_applied,
        parts: progress.parts,
        fenced: progress.fenced,
        behind: progress.behind,
        counted: progress.counted,
    }
}

fn handles(handles: Vec<u32>) -> reply::Result {
    reply::Result::Handles(params::Handles { handles })
}

/// Whether this task sees the file. Whatever keeps it from doing so: it does not.
async fn probe(ask: params::Probe) -> Result<params::Probed> {
    let look = move || {
        let found = Dir::open(&ask.location).and_then(|dir| dir.read(&ask.file, 1 << 10));
        params::Probed { sees: found.is_ok_and(|content| content == ask.content.as_bytes()) }
    };
    tokio::task::spawn_blocking(look).await.context(Code::Internal, "the look for a file did not end")
}

/// The task's life that a message names.
///
/// # Errors
/// When it names none.
pub fn identity(client: Option<&params::Client>) -> Result<(TaskId, Incarnation)> {
    let client = client.ok_or_else(|| Error::new(Code::BadMessage, "a request does not say whose it is"))?;
    let role = Role::ALL.get(client.role as usize).copied();
    let role = role.ok_or_else(|| Error::new(Code::BadMessage, format!("{} is not a role", client.role)))?;
    Ok((TaskId::new(role, client.index), Incarnation(client.incarnation)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{Client, Options};

    #[test]
    fn a_server_that_holds_nothing_yet_does_not_say_how_far_a_lost_task_came() {
        let store = Arc::<Store>::default();
        let service = Service::new(Arc::clone(&store), 1, TaskId::new(Role::Ps, 0), Incarnation(7));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let server = phalanx_wire::bulk::inside(Arc::new(service), runtime.handle().clone(), "ps/0".into());
        let mut options = Options::new(1, TaskId::new(Role::Chief, 0), Incarnation(2));
        options.patience = Duration::ZERO;
        let client = Client::inside(server, options).unwrap();
        let fence = || client.fence(TaskId::new(Role::Worker, 0), Incarnation(1));
        assert_eq!(fence().unwrap_err().code(), Code::NotInitialized);
        store.set_ready();
        assert_eq!(fence().unwrap(), [(0, true)]);
    }
}
