//! The store behind the bulk lane.

use super::barrier::Arrival;
use super::{Store, lock};
use crate::client::to_wire;
use bytes::Bytes;
use phalanx_base::{Code, Error, Incarnation, Result, Role, TaskId};
use phalanx_wire::bulk::{Handler, Pending};
use phalanx_wire::proto::params::{self, Reply, reply, request};
use phalanx_wire::{InFrame, OutFrame};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// The longest a request for the barrier is kept waiting before it is answered "ask again".
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Answers frames for one job.
pub struct Service {
    store: Arc<Store>,
    job: u64,
    task: TaskId,
    /// Rung whenever the barrier may have let somebody go.
    moved: Notify,
}

impl Service {
    /// Serves `store` as `task` of the job with this digest.
    #[must_use]
    pub fn new(store: Arc<Store>, job: u64, task: TaskId) -> Self {
        Self { store, job, task, moved: Notify::new() }
    }

    async fn answer(&self, frame: InFrame) -> Result<OutFrame> {
        let ask: params::Request = frame.header()?;
        if ask.job != self.job {
            return Err(Error::new(Code::WrongJob, format!("{} belongs to another job", self.task))
                .help("see whether two jobs use the same address"));
        }
        let op = ask.op.ok_or_else(|| Error::new(Code::BadMessage, "a request asks for nothing"))?;
        let from = identity(ask.client.as_ref());
        let store = &self.store;
        let mut values = Vec::new();
        let result = match op {
            request::Op::Exchange(ask) => {
                let on_behalf_of = ask.on_behalf_of.as_ref();
                let from = on_behalf_of.map_or(from, |other| identity(Some(other)))?;
                let (exchanged, out) = store.exchange(from, &ask, frame.body())?;
                values = out;
                Some(reply::Result::Exchanged(exchanged))
            }
            request::Op::Create(ask) => Some(handles(store.create(&ask.specs)?)),
            request::Op::Find(ask) => Some(handles(store.find(&ask.specs)?)),
            request::Op::Assign(ask) => {
                store.assign(&ask, frame.body())?;
                None
            }
            request::Op::SetReady(_) => {
                store.set_ready();
                None
            }
            request::Op::Describe(_) => Some(reply::Result::Description(self.describe())),
            request::Op::Fence(ask) => {
                let (task, incarnation) = identity(ask.lost.as_ref())?;
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
        };
        let mut out = OutFrame::new(&Reply { global_step: store.global_step(), result });
        if !values.is_empty() {
            out.push(Bytes::from(values));
        }
        Ok(out)
    }

    async fn arrive(&self, who: (TaskId, Incarnation), ask: &params::Arrive) -> Result<params::Arrived> {
        let wait = Duration::from_millis(ask.wait_ms.into()).min(LONGEST_WAIT);
        let waiting = async {
            let mut moved = std::pin::pin!(self.moved.notified());
            // Listen before looking, or a round that closes in between would be missed.
            moved.as_mut().enable();
            let (mut arrival, round) = self.store.at_barrier(who, |barrier| {
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
        params::Description {
            ready: self.store.is_ready(),
            stale: self.store.stale().max(stale),
            repeats: self.store.repeats(),
            variables: variables as u64,
            tables: tables as u64,
            lives: lives.into_iter().map(|(task, incarnation)| to_wire(task, incarnation)).collect(),
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

fn handles(handles: Vec<u32>) -> reply::Result {
    reply::Result::Handles(params::Handles { handles })
}

fn identity(client: Option<&params::Client>) -> Result<(TaskId, Incarnation)> {
    let client = client.ok_or_else(|| Error::new(Code::BadMessage, "a request does not say whose it is"))?;
    let role = Role::ALL.get(client.role as usize).copied();
    let role = role.ok_or_else(|| Error::new(Code::BadMessage, format!("{} is not a role", client.role)))?;
    Ok((TaskId::new(role, client.index), Incarnation(client.incarnation)))
}
