//! A trainer's connection to the model on the servers.

use super::RowValues;
use super::unfinished_updates::UnfinishedUpdates;
use crate::tables::ServerRows;
use crate::{Server, TableId};
use phalanx_base::{Code, Error, Result};
use phalanx_ps::client::{Pulled, Push, RemoteModel, RowSet, UpdateMode};
use phalanx_ps::{Client, Layout};
use std::sync::Arc;

/// This task, its client, and the model as the servers know it.
pub(super) struct Connection {
    pub(super) server: Server,
    pub(super) client: Arc<Client>,
    pub(super) remote: RemoteModel,
    unfinished: UnfinishedUpdates,
    /// Where models look up rows while they compute, once one needs it.
    rows: Option<Arc<ServerRows>>,
}

impl Connection {
    pub(super) fn new(server: Server, client: Client, remote: RemoteModel) -> Self {
        Self { server, client: Arc::new(client), remote, unfinished: UnfinishedUpdates::default(), rows: None }
    }

    pub(super) fn layout(&self) -> &Layout {
        self.remote.layout()
    }

    /// Sends an update, if there is one, and fetches new values and these rows.
    pub(super) fn exchange(&mut self, push: Option<&Push>, sets: &[RowSet], mode: UpdateMode) -> Result<Pulled> {
        self.client.exchange(&mut self.remote, push, sets, mode)
    }

    /// Sends an update, and returns the global step after it.
    pub(super) fn push(&mut self, push: &Push, mode: UpdateMode) -> Result<u64> {
        self.client.push(&mut self.remote, push, mode).map(|(step, _)| step)
    }

    /// Takes an update that every server has. A chief keeps it, to complete the update of a lost trainer with it.
    pub(super) fn keep_pushed(&mut self, update: Push) {
        if self.server.is_chief() {
            self.unfinished.keep_pushed(update);
        }
    }

    /// The chief: fences lost trainers, and completes the update that one of them left on some servers only.
    pub(super) fn finish_lost_updates(&mut self, synchronous: bool) -> Result<()> {
        self.unfinished.finish(&self.server, &self.client, &mut self.remote, synchronous)
    }

    /// Returns where models look up rows while they compute.
    pub(super) fn rows(&mut self, mode: UpdateMode) -> Result<Arc<ServerRows>> {
        let rows = match self.rows.take() {
            Some(rows) => rows,
            None => Arc::new(ServerRows::new(Arc::clone(&self.client), self.layout().clone(), mode)?),
        };
        rows.set_mode(mode);
        self.rows = Some(Arc::clone(&rows));
        Ok(rows)
    }

    /// Rows that are looked up from now on have the rounds that are closed now.
    pub(super) fn look_up_closed_rounds(&self, mode: UpdateMode) {
        if let Some(rows) = &self.rows {
            rows.set_mode(mode);
        }
    }

    /// Returns the rows that these ids need, by the server that holds them.
    pub(super) fn row_sets(&self, ids: &[(TableId, &[i64])]) -> Result<Vec<RowSet>> {
        let tables = self.layout().tables().len();
        let mut sets: Vec<RowSet> = Vec::with_capacity(ids.len());
        for (at, &(TableId(table), own)) in ids.iter().enumerate() {
            if table >= tables {
                return Err(Error::new(Code::NoSuchVariable, "a step asks for a table that the model does not have")
                    .because(format!("it is table {} of another supervisor; the model has {tables}", table + 1))
                    .help("use what the table method of this job's supervisor returned"));
            }
            let layout = self.layout();
            let alike = |&(TableId(other), others): &(TableId, &[i64])| {
                others == own && layout.pinned_table(other) == layout.pinned_table(table)
            };
            sets.push(match ids[..at].iter().position(alike) {
                Some(known) => sets[known].for_table(table),
                None => RowSet::of(layout, table, own),
            });
        }
        Ok(sets)
    }

    pub(super) fn row_values(&self, sets: &[RowSet], rows: Vec<Vec<f32>>) -> Vec<RowValues> {
        let of = |(set, values): (&RowSet, Vec<f32>)| {
            let dim = self.layout().tables()[set.table()].dim;
            RowValues { values, dim, positions: set.positions().to_vec() }
        };
        sets.iter().zip(rows).map(of).collect()
    }
}
