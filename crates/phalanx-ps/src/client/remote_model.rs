//! A model on the servers.

use super::calls::ServerHandles;
use super::packing::{Piece, pieces};
use super::{Client, RowSet};
use crate::plan::Layout;
use bytes::Bytes;
use phalanx_base::{Code, Error, Incarnation, Result};

/// A model on the servers: its layout, and the handles of each server's part.
#[derive(Debug)]
pub struct RemoteModel {
    pub(super) layout: Layout,
    /// One for each shard of the layout.
    pub(super) handles: Vec<u32>,
    /// Per server, one for each table.
    pub(super) tables: Vec<Vec<u32>>,
    /// Per server, its dense numbers as pieces that fit into a message.
    pub(super) pieces: Vec<Vec<Piece>>,
    /// Per server, the version that the client holds of each piece.
    pub(super) held: Vec<Vec<u64>>,
    /// Per server, the incarnation that gave the handles out.
    incarnations: Vec<Incarnation>,
    /// The number of messages that replaced values.
    pub(super) replaced: u64,
}

impl RemoteModel {
    /// Creates the model on the servers, starting at `values` (one for each variable). A model that is ready keeps its values.
    ///
    /// # Errors
    /// When a name is taken by something else, or a server does not answer.
    pub fn create(client: &Client, layout: Layout, values: &[Bytes]) -> Result<Self> {
        check_values(&layout, values)?;
        let remote = Self::announce(client, layout)?;
        for server in 0..client.servers() {
            // A server that is ready holds a model in training.
            if !client.describe(server)?.ready {
                client.assign(&remote, server, values)?;
            }
        }
        Ok(remote)
    }

    /// Creates the model on the servers without values, before a restore.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn announce(client: &Client, layout: Layout) -> Result<Self> {
        Self::new(client.handles(&layout, true)?, layout)
    }

    /// Creates the model on this incarnation of one server, which comes back into a running job.
    ///
    /// # Errors
    /// As [`Self::create`], and when the server was restarted.
    pub fn announce_on(&mut self, client: &Client, server: usize, incarnation: Incarnation) -> Result<()> {
        let handles = client.handles_on(&self.layout, server, Some(incarnation), true)?;
        self.take(server, handles)
    }

    /// Returns the incarnation of a server that gave its handles out.
    #[must_use]
    pub fn incarnation(&self, server: usize) -> Incarnation {
        self.incarnations[server]
    }

    /// Finds the model that the chief created.
    ///
    /// # Errors
    /// When it does not exist or differs, or a server does not answer.
    pub fn find(client: &Client, layout: Layout) -> Result<Self> {
        Self::new(client.handles(&layout, false)?, layout)
    }

    fn new(per_server: Vec<ServerHandles>, layout: Layout) -> Result<Self> {
        let pieces: Vec<Vec<Piece>> = (0..layout.servers()).map(|server| pieces(&layout, server)).collect();
        let held = pieces.iter().map(|pieces| vec![0; pieces.len()]).collect();
        let (handles, tables) = (vec![0; layout.shards().len()], vec![Vec::new(); layout.servers()]);
        let incarnations = vec![Incarnation(0); layout.servers()];
        let mut remote = Self { layout, handles, tables, pieces, held, incarnations, replaced: 0 };
        for (server, handles) in per_server.into_iter().enumerate() {
            remote.take(server, handles)?;
        }
        Ok(remote)
    }

    /// Takes the handles that a server gave out; values of its former incarnation are no longer the newest.
    pub(super) fn take(&mut self, server: usize, found: ServerHandles) -> Result<()> {
        let shards: Vec<usize> = self.layout.shards_on(server).collect();
        if found.handles.len() != shards.len() + self.layout.tables().len() {
            return Err(Error::new(Code::BadMessage, "a server returned a wrong number of handles"));
        }
        let (dense, rows) = found.handles.split_at(shards.len());
        shards.iter().zip(dense).for_each(|(&shard, &handle)| self.handles[shard] = handle);
        self.tables[server] = rows.to_vec();
        self.held[server].fill(0);
        self.incarnations[server] = found.incarnation;
        Ok(())
    }

    pub(super) fn check_values(&self, values: &[Bytes]) -> Result<()> {
        check_values(&self.layout, values)
    }

    /// Returns the layout.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the width of a row of the set's table.
    pub(super) fn dim(&self, set: &RowSet) -> usize {
        self.layout.tables()[set.table()].dim
    }
}

/// Refuses values, one for each variable of the layout, of another size.
fn check_values(layout: &Layout, values: &[Bytes]) -> Result<()> {
    if values.len() != layout.variables().len() {
        let what = format!("{} values for a model of {} variables", values.len(), layout.variables().len());
        return Err(Error::new(Code::ShapeMismatch, what));
    }
    for (spec, value) in layout.variables().iter().zip(values) {
        if value.len() != 4 * spec.shape.elements() {
            return Err(Error::new(Code::ShapeMismatch, format!("the value of {:?} does not fit", spec.name))
                .because(format!("{} bytes for shape {}", value.len(), spec.shape)));
        }
    }
    Ok(())
}
