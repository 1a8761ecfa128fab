//! What a recovery asks of servers. Every message names the server's incarnation: a server that was restarted refuses it.

use super::calls::{Client, unexpected};
use super::remote_model::RemoteModel;
use crate::checkpoint::{Checkpoint, RestorePlan, SavedProgress, ShardPlan, TablePlan, restore_part};
use crate::proto::{self, Assign, reply, request};
use crate::recovery::LostSteps;
use crate::{TableSpec, TaskIncarnation};
use bytes::Bytes;
use futures_util::future::try_join_all;
use phalanx_base::{Incarnation, Result};
use phalanx_wire::task_to_wire;
use std::time::Instant;

/// How long a server may wait for its restore before it replies "not yet".
const WAIT_MS: u32 = 1000;

impl Client {
    /// Has these incarnations of servers restore their parts of a checkpoint by themselves, all at once, and waits for
    /// them until `deadline`. Returns how many bytes each has read.
    ///
    /// # Errors
    /// When the checkpoint is damaged, or a server was restarted, cannot read the directory, or does not answer.
    pub fn restore(
        &self,
        servers: &[(usize, Incarnation)],
        attempt: u64,
        (location, checkpoint): (&str, &str),
        deadline: Instant,
    ) -> Result<Vec<u64>> {
        let read = |reply: proto::Reply, _: Bytes| match reply.result {
            Some(reply::Result::Restored(restored)) => Ok(restored.done.then_some(restored.read)),
            other => Err(unexpected(&other)),
        };
        let restore = |&(server, incarnation): &(usize, Incarnation)| {
            let op = request::Op::Restore(proto::Restore {
                id: attempt,
                location: location.to_owned(),
                checkpoint: checkpoint.to_owned(),
                server: server as u32,
                servers: self.servers() as u32,
                wait_ms: WAIT_MS,
            });
            self.poll((server, Some(incarnation)), op, deadline, "was not restored in time", read)
        };
        self.block(try_join_all(servers.iter().map(restore)))
    }

    /// Restores this incarnation of a server that does not see the directory: this task reads the checkpoint and sends it.
    ///
    /// # Errors
    /// When the checkpoint is damaged, or the server was restarted or does not answer.
    pub fn feed(
        &self,
        remote: &RemoteModel,
        server: usize,
        incarnation: Incarnation,
        checkpoint: &Checkpoint,
    ) -> Result<()> {
        let send = |assign: Assign, body: Vec<Bytes>| self.assign_to(server, incarnation, assign, body);
        restore_part(checkpoint, &restore_plan(remote, server), &send)
    }

    /// Replaces something on this incarnation of a server that is not ready.
    fn assign_to(&self, server: usize, incarnation: Incarnation, assign: Assign, body: Vec<Bytes>) -> Result<()> {
        let mut frame = self.frame(Some(incarnation), request::Op::Assign(assign));
        body.into_iter().for_each(|bytes| frame.push(bytes));
        self.block(self.call(server, frame)).map(drop)
    }

    /// Sets which updates a restored server's values have, and the count of steps at which it continues.
    ///
    /// # Errors
    /// When the server was restarted or does not answer.
    pub fn set_progress(
        &self,
        server: usize,
        incarnation: Incarnation,
        saved: &[SavedProgress],
        lost: &LostSteps,
    ) -> Result<()> {
        let mut progress: Vec<proto::TaskProgress> = saved.iter().copied().map(SavedProgress::to_wire).collect();
        for counted in &lost.counted {
            let task = Some(task_to_wire(counted.record.task.0, counted.record.task.1));
            match progress.iter_mut().find(|known| known.task == task) {
                Some(known) => known.counted = counted.up_to,
                None => {
                    let counted = counted.up_to;
                    progress.push(proto::TaskProgress { task, counted, ..proto::TaskProgress::default() });
                }
            }
        }
        let global_step = (server == 0).then_some(lost.global_step);
        let assign = Assign { forgets: true, progress, global_step, ..Assign::default() };
        self.assign_to(server, incarnation, assign, Vec::new())
    }

    /// Sets the count of committed steps on this incarnation of server 0.
    ///
    /// # Errors
    /// When the server was restarted or does not answer.
    pub fn set_global_step(&self, incarnation: Incarnation, step: u64) -> Result<()> {
        self.assign_to(0, incarnation, Assign { global_step: Some(step), ..Assign::default() }, Vec::new())
    }

    /// Declares the model initialised on every server; last on the one that counts steps, because workers ask that one.
    ///
    /// # Errors
    /// When a server was restarted since it gave its handles out, or does not answer.
    pub fn set_ready(&self, remote: &RemoteModel) -> Result<()> {
        (0..self.servers()).rev().try_for_each(|server| self.set_server_ready(server, remote.incarnation(server)))
    }

    /// Declares the model initialised on this incarnation of a server.
    ///
    /// # Errors
    /// When the server was restarted or does not answer.
    pub fn set_server_ready(&self, server: usize, incarnation: Incarnation) -> Result<()> {
        let frame = self.frame(Some(incarnation), request::Op::SetReady(proto::SetReady {}));
        self.block(self.call(server, frame)).map(drop)
    }

    /// Fences a lost task on every server. Returns for each server the task's last step there and whether that step is
    /// complete.
    ///
    /// # Errors
    /// When a server does not answer.
    pub fn fence(&self, task: phalanx_base::TaskId, incarnation: Incarnation) -> Result<Vec<(u64, bool)>> {
        let lost = Some(task_to_wire(task, incarnation));
        let replies = self.call_all(|_| self.frame(None, request::Op::Fence(proto::Fence { lost })))?;
        let fenced = |(reply, _): (proto::Reply, Bytes)| match reply.result {
            Some(reply::Result::Fenced(fenced)) => Ok((fenced.step, fenced.complete)),
            other => Err(unexpected(&other)),
        };
        replies.into_iter().map(fenced).collect()
    }

    /// Fences a lost task on this incarnation of a server.
    ///
    /// # Errors
    /// When the server was restarted or does not answer.
    pub fn fence_on(&self, server: usize, incarnation: Incarnation, lost: TaskIncarnation) -> Result<()> {
        let lost = Some(task_to_wire(lost.0, lost.1));
        let frame = self.frame(Some(incarnation), request::Op::Fence(proto::Fence { lost }));
        self.block(self.call(server, frame)).map(drop)
    }
}

/// Plans the restore of what `server` holds of the model.
fn restore_plan(remote: &RemoteModel, server: usize) -> RestorePlan {
    let layout = remote.layout();
    let shard = |i: usize| {
        let (shard, handle) = (&layout.shards()[i], remote.handles[i]);
        let spec = &layout.variables()[shard.variable];
        let (variable, optimizer) = (spec.name.clone(), spec.optimizer);
        ShardPlan { handle, variable, first_row: shard.rows.start, elements: shard.elements.clone(), optimizer }
    };
    let table = |(at, (spec, &handle)): (usize, (&TableSpec, &u32))| TablePlan {
        handle,
        name: spec.name.clone(),
        dim: spec.dim,
        optimizer: spec.optimizer,
        pinned: layout.pinned_table(at),
    };
    RestorePlan {
        server,
        servers: layout.servers(),
        shards: layout.shards_on(server).map(shard).collect(),
        tables: layout.tables().iter().zip(&remote.tables[server]).enumerate().map(table).collect(),
    }
}
