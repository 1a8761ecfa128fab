//! Push and pull in one round trip.

use super::answer::{Answer, PulledValues, assemble, rows_of};
use super::calls::{Client, unexpected};
use super::packing::{Part, Piece, pack};
use super::remote_model::RemoteModel;
use super::rows::{RowGradients, RowSet};
use crate::proto::{Exchange, Range, Rows, UpdatePart, reply, request};
use bytes::Bytes;
use futures_util::future::try_join_all;
use phalanx_base::{Code, Result, UpdateId};
use phalanx_wire::{OutFrame, task_to_wire};
use std::sync::atomic::Ordering;

/// Whether updates are applied at once or collected into rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateMode {
    /// Updates are applied at once.
    Asynchronous,
    /// Updates are collected into rounds.
    Synchronous {
        /// The round that pushed gradients were computed for.
        round: u64,
        /// Rounds below this one are closed: pulled values include them.
        closed: u64,
    },
}

/// One step's gradients.
#[derive(Clone, Debug)]
pub struct Push {
    /// The id under which servers apply the update once.
    pub id: UpdateId,
    /// One for each variable of the layout; `None` where the step did not touch it.
    pub dense: Vec<Option<Bytes>>,
    /// Gradients of table rows.
    pub rows: Vec<RowGradients>,
    /// The task's input position after this step; empty: unchanged.
    pub input_position: Bytes,
    /// The number of committed steps in the values that the gradients were computed on, if known. Schedules follow it.
    pub base_version: Option<u64>,
    /// The worker's count of steps under a coordinator; 0 where there is none.
    pub clock: u64,
    /// The learning rate of the dense gradients, where it differs from that of the variables' optimizers. Tables other than
    /// those of [`Layout::update_as_variable`](crate::Layout::update_as_variable), and variables of
    /// [`Layout::keep_rate_of`](crate::Layout::keep_rate_of), keep theirs.
    pub learning_rate: Option<f32>,
}

impl Push {
    /// Returns whether it changes anything.
    fn has_gradients(&self) -> bool {
        !self.rows.is_empty() || self.dense.iter().any(Option::is_some)
    }
}

/// The result of an exchange.
#[derive(Debug)]
pub struct Pulled {
    /// The number of committed steps.
    pub global_step: u64,
    /// One for each variable; `None` where the client holds the newest values.
    pub dense: Vec<Option<PulledValues>>,
    /// One for each row set: its unique rows, back to back.
    pub rows: Vec<Vec<f32>>,
    /// At least one server had applied the push before.
    pub repeated: bool,
    /// At least one server dropped the push because its round was closed.
    pub stale: bool,
}

/// The request to one server.
#[derive(Clone, Copy)]
struct Ask<'a> {
    server: usize,
    remote: &'a RemoteModel,
    push: Option<&'a Push>,
    /// `None` pulls nothing, not even dense values.
    pull: Option<&'a [RowSet]>,
    mode: UpdateMode,
    /// Whether dense values are left out.
    rows_only: bool,
}

impl Ask<'_> {
    fn dim(&self, set: &RowSet) -> usize {
        self.remote.dim(set)
    }

    fn pieces(&self) -> &[Piece] {
        if self.rows_only { &[] } else { &self.remote.pieces[self.server] }
    }
}

impl Client {
    /// Pushes a step's gradients, then pulls changed values, and rows, in one round trip to all servers at once.
    ///
    /// # Errors
    /// When a server refuses or does not answer. The push may then have reached some servers; sending it again under
    /// the same id completes it.
    pub fn exchange(
        &self,
        remote: &mut RemoteModel,
        push: Option<&Push>,
        pull: &[RowSet],
        mode: UpdateMode,
    ) -> Result<Pulled> {
        let answers = self.ask_all(remote, push, Some(pull), mode, false)?;
        let mut pulled = Pulled { global_step: 0, dense: Vec::new(), rows: Vec::new(), repeated: false, stale: false };
        for answer in &answers {
            pulled.global_step = pulled.global_step.max(answer.global_step);
            pulled.repeated |= answer.repeated;
            pulled.stale |= answer.stale;
        }
        let executor = self.executor();
        pulled.rows =
            executor.map((0..pull.len()).collect(), |set| rows_of(set, &pull[set], remote, &answers, executor));
        pulled.dense = assemble(remote, answers, executor);
        Ok(pulled)
    }

    /// Pushes gradients and pulls nothing. Returns the number of committed steps, and whether a server dropped the push.
    ///
    /// # Errors
    /// As [`Self::exchange`].
    pub fn push(&self, remote: &mut RemoteModel, push: &Push, mode: UpdateMode) -> Result<(u64, bool)> {
        let answers = self.ask_all(remote, Some(push), None, mode, false)?;
        let step = answers.iter().map(|answer| answer.global_step).max().unwrap_or(0);
        Ok((step, answers.iter().any(|answer| answer.stale)))
    }

    /// Pulls rows, and no dense values.
    pub(super) fn ask_for_rows(
        &self,
        remote: &mut RemoteModel,
        sets: &[RowSet],
        mode: UpdateMode,
    ) -> Result<Vec<Answer>> {
        self.ask_all(remote, None, Some(sets), mode, true)
    }

    /// Calls all servers at once. If one was restarted since it gave its handles out, they are looked up again and everything
    /// is sent again: servers that have the update drop it.
    fn ask_all(
        &self,
        remote: &mut RemoteModel,
        push: Option<&Push>,
        pull: Option<&[RowSet]>,
        mode: UpdateMode,
        rows_only: bool,
    ) -> Result<Vec<Answer>> {
        loop {
            let asked = {
                let remote = &*remote;
                let ask = |server| Ask { server, remote, push, pull, mode, rows_only };
                let calls = (0..self.servers()).map(|server| self.exchange_with(ask(server)));
                self.block(try_join_all(calls))
            };
            match asked {
                Err(error) if error.code() == Code::ServerRestarted => self.find_again(remote)?,
                asked => {
                    if let (Ok(_), Some(push)) = (&asked, push) {
                        self.count_acknowledged(push.id);
                    }
                    return asked;
                }
            }
        }
    }

    /// Counts an update that every server has, if it is this task's own.
    fn count_acknowledged(&self, UpdateId { task, incarnation, sequence }: UpdateId) {
        let options = self.options();
        if (task, incarnation) == (options.task, options.incarnation) {
            options.acknowledged.fetch_max(sequence, Ordering::Relaxed);
        }
    }

    /// Looks up the handles of every restarted server; waits until it is restored.
    pub(super) fn find_again(&self, remote: &mut RemoteModel) -> Result<()> {
        for server in 0..self.servers() {
            let found = self.handles_on(&remote.layout, server, None, false)?;
            if found.incarnation != remote.incarnation(server) {
                remote.take(server, found)?;
            }
        }
        Ok(())
    }

    async fn exchange_with(&self, ask: Ask<'_>) -> Result<Answer> {
        let row_bytes = |set: &RowSet| (set.on(ask.server).len(), 8 + 4 * ask.dim(set));
        let pushed: Vec<_> = ask.push.iter().flat_map(|push| &push.rows).map(|rows| row_bytes(&rows.set)).collect();
        let pulled: Vec<_> = ask.pull.iter().flat_map(|sets| sets.iter()).map(row_bytes).collect();
        let parts = pack(ask.pieces(), &pushed, &pulled);
        let mut answer = Answer::new(ask.pieces().len());
        let last = parts.len() - 1;
        for (number, part) in parts.into_iter().enumerate() {
            let (reply, body) = self.call(ask.server, self.part_frame(&ask, &part, number, last)).await?;
            let Some(reply::Result::Exchanged(exchanged)) = reply.result else { return Err(unexpected(&reply.result)) };
            answer.global_step = reply.global_step;
            answer.repeated |= exchanged.repeated;
            answer.stale |= exchanged.stale;
            if let Some(pull) = ask.pull {
                answer.take(ask.pieces(), part, &exchanged.versions, body, |set| ask.dim(&pull[set]))?;
            }
        }
        Ok(answer)
    }

    /// Builds the message of one part.
    fn part_frame(&self, ask: &Ask<'_>, part: &Part, number: usize, last: usize) -> OutFrame {
        let Ask { server, remote, push, pull, mode, .. } = *ask;
        let mut header = Exchange { counts: server == 0, ..Exchange::default() };
        let mut body: Vec<Bytes> = Vec::new();
        if let UpdateMode::Synchronous { round, closed } = mode {
            (header.round, header.closed) = (Some(round), closed);
        }
        if let Some(push) = push {
            let parts = last as u32 + 1;
            header.update = Some(UpdatePart { step: push.id.sequence, part: number as u32, parts });
            (header.learning_rate, header.base_version) = (push.learning_rate, push.base_version);
            let own = (push.id.task, push.id.incarnation) == (self.options().task, self.options().incarnation);
            if server == 0 && number == last {
                header.input_position = push.input_position.to_vec();
                header.clock = push.clock;
            }
            if push.has_gradients() {
                let tables = remote.layout.as_variables();
                header.as_variables = tables.map(|table| remote.tables[server][table]).collect();
            }
            header.on_behalf_of = (!own).then(|| task_to_wire(push.id.task, push.id.incarnation));
            for piece in &ask.pieces()[part.pieces.clone()] {
                let shard = &remote.layout.shards()[piece.shard];
                let Some(gradient) = &push.dense[shard.variable] else { continue };
                header.dense_push.push(range(remote, piece, 0));
                if push.learning_rate.is_some() {
                    header.keeps_rate.push(remote.layout.keeps_rate(shard.variable));
                }
                let at = shard.elements.start + piece.elements.start;
                body.push(gradient.slice(4 * at..4 * (at + piece.elements.len())));
            }
            for run in &part.row_push {
                let rows = &push.rows[run.set];
                let positions = &rows.set.on(server)[run.range.clone()];
                header.row_push.push(Rows {
                    handle: remote.tables[server][rows.set.table()],
                    count: positions.len() as u64,
                    continues: run.range.start > 0 || has_rows_before(push, run.set, server),
                });
                body.push(rows.set.ids_at(positions));
                body.push(rows.gather(server, run.range.clone(), ask.dim(&rows.set)));
            }
        }
        if let Some(pull) = pull {
            for i in part.pieces.clone() {
                header.dense_pull.push(range(remote, &ask.pieces()[i], remote.held[server][i]));
            }
            for run in &part.row_pull {
                let set = &pull[run.set];
                let positions = &set.on(server)[run.range.clone()];
                header.row_pull.push(Rows {
                    handle: remote.tables[server][set.table()],
                    count: positions.len() as u64,
                    continues: false,
                });
                body.push(set.ids_at(positions));
            }
        }
        let mut frame = self.frame(Some(remote.incarnation(server)), request::Op::Exchange(header));
        body.into_iter().for_each(|bytes| frame.push(bytes));
        frame
    }
}

pub(super) fn range(remote: &RemoteModel, piece: &Piece, held: u64) -> Range {
    let (start, count) = (piece.elements.start as u64, piece.elements.len() as u64);
    Range { handle: remote.handles[piece.shard], start, count, held, slot: 0 }
}

/// Whether a set before number `set` has rows of the same table on a server.
fn has_rows_before(push: &Push, set: usize, server: usize) -> bool {
    let table = push.rows[set].set.table();
    push.rows[..set].iter().any(|rows| rows.set.table() == table && !rows.set.on(server).is_empty())
}
