//! Asking servers what they hold and have done.

use super::calls::{Client, unexpected};
use crate::proto::{self, Reply, reply, request};
use crate::recovery::{Record, Survey};
use crate::{TaskIncarnation, client::ClientOptions};
use futures_util::future::join_all;
use phalanx_base::{Code, Error, Incarnation, Result};
use phalanx_wire::task_from_wire;
use std::collections::BTreeSet;
use std::time::Duration;

const DESCRIBE: request::Op = request::Op::Describe(proto::Describe {});

/// What a server reports of itself.
#[derive(Clone, Debug)]
pub struct ServerDescription {
    /// The incarnation of the server that answered.
    pub incarnation: Incarnation,
    /// Whether it holds its part of the model.
    pub ready: bool,
    /// The number of committed steps, where this server counts them.
    pub global_step: u64,
    /// The number of variable shards.
    pub variables: u64,
    /// The number of tables.
    pub tables: u64,
    /// Gradients that were dropped because their round was closed.
    pub stale: u64,
    /// Updates that were dropped because they had been applied.
    pub repeats: u64,
    /// Steps that the server lacks because it was restored, counted when a task pushes again.
    pub missed: u64,
    /// It was started again, and has everything that it had acknowledged before.
    pub replayed: bool,
    /// What it acknowledges is in a write-ahead log first.
    pub logs: bool,
    /// Entry n counts the applied updates that were n steps old; the last entry counts all older ones.
    pub staleness: Vec<u64>,
    /// The highest worker clock that an update came with.
    pub newest_clock: u64,
    /// The largest lag of an update behind that clock.
    pub widest_lag: u64,
    /// Synchronous mode: how many tasks take part in rounds.
    pub members: u64,
    /// The task incarnations that have pushed or joined and are not fenced.
    pub tasks: Vec<TaskIncarnation>,
    /// The updates in what the server holds.
    pub survey: Survey,
}

impl ServerDescription {
    fn read(server: usize, reply: Reply) -> Result<Self> {
        let Reply { global_step, server_incarnation, result } = reply;
        let Some(reply::Result::Description(found)) = result else { return Err(unexpected(&result)) };
        let record = |progress: &proto::TaskProgress| {
            Ok(Record {
                task: task_from_wire(progress.task.as_ref())?,
                step: progress.step,
                complete: progress.parts_applied == progress.parts,
                behind: progress.behind,
                fenced: progress.fenced,
            })
        };
        let survey = Survey {
            records: found.progress.iter().map(record).collect::<Result<_>>()?,
            restored: found.restored,
            closed: found.closed,
            global_step: (server == 0).then_some(global_step),
        };
        Ok(Self {
            incarnation: Incarnation(server_incarnation),
            ready: found.ready,
            global_step,
            variables: found.variables,
            tables: found.tables,
            stale: found.stale,
            repeats: found.repeats,
            missed: found.missed,
            replayed: found.replayed,
            logs: found.logs,
            staleness: found.staleness,
            newest_clock: found.newest_clock,
            widest_lag: found.widest_lag,
            members: found.members,
            tasks: found.tasks.iter().map(|task| task_from_wire(Some(task))).collect::<Result<_>>()?,
            survey,
        })
    }
}

impl Client {
    /// Asks a server what it holds and has done.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn describe(&self, server: usize) -> Result<ServerDescription> {
        ServerDescription::read(server, self.ask(server, DESCRIBE)?)
    }

    /// As [`Self::describe`], but waits at most for `patience`.
    ///
    /// # Errors
    /// When the server does not answer in time.
    pub fn describe_within(&self, server: usize, patience: Duration) -> Result<ServerDescription> {
        self.block(self.describe_in(server, patience))
    }

    async fn describe_in(&self, server: usize, patience: Duration) -> Result<ServerDescription> {
        let late = |_| Error::new(Code::PeerUnreachable, format!("ps/{server} does not answer in time"));
        let call = self.call(server, self.frame(None, DESCRIBE));
        ServerDescription::read(server, tokio::time::timeout(patience, call).await.map_err(late)??.0)
    }

    /// Surveys all servers but one, at once. Servers that hold no part, or do not answer within `patience`, are left out.
    #[must_use]
    pub fn survey(&self, except: usize, patience: Duration) -> Vec<Survey> {
        let others = (0..self.servers()).filter(|&server| server != except);
        let all = join_all(others.map(|server| self.describe_in(server, patience)));
        let described = self.block(async { Ok(all.await) }).unwrap_or_default();
        described.into_iter().flatten().filter(|found| found.ready).map(|found| found.survey).collect()
    }

    /// Returns every task incarnation that has pushed to a server, or takes part in its rounds, and is not fenced.
    ///
    /// # Errors
    /// When a server does not answer.
    pub fn task_incarnations(&self) -> Result<BTreeSet<TaskIncarnation>> {
        let mut tasks = BTreeSet::new();
        for server in 0..self.servers() {
            tasks.extend(self.describe(server)?.tasks);
        }
        Ok(tasks)
    }

    /// Returns the number of committed steps.
    ///
    /// # Errors
    /// When the server that counts them does not answer.
    pub fn global_step(&self) -> Result<u64> {
        Ok(self.ask(0, DESCRIBE)?.global_step)
    }

    /// Returns the newest input position of this task, in this incarnation or a former one; see
    /// [`Push::input_position`](super::Push::input_position).
    ///
    /// # Errors
    /// When the server that keeps the input positions does not answer.
    pub fn input_position(&self) -> Result<Option<Vec<u8>>> {
        let result = self.ask(0, request::Op::GetInputPositions(proto::GetInputPositions {}))?.result;
        let Some(reply::Result::InputPositions(found)) = result else { return Err(unexpected(&result)) };
        let ClientOptions { task, .. } = self.options();
        let own = task.to_string();
        Ok(found.positions.into_iter().find(|found| found.task == own).map(|found| found.position))
    }
}
