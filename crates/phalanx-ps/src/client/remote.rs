//! A model as it lies on the servers.

use super::calls::Made;
use super::packing::{Piece, pieces};
use super::{Client, RowSet};
use crate::plan::Layout;
use bytes::Bytes;
use phalanx_base::{Code, Error, Incarnation, Result};

/// A layout with the handles under which each server knows its part.
#[derive(Debug)]
pub struct Remote {
    pub(super) layout: Layout,
    /// One for each shard of the layout.
    pub(super) handles: Vec<u32>,
    /// Per server, one for each table.
    pub(super) tables: Vec<Vec<u32>>,
    /// Per server, its dense numbers in pieces that fit into a message.
    pub(super) pieces: Vec<Vec<Piece>>,
    /// Per server, the version held of each piece.
    pub(super) held: Vec<Vec<u64>>,
    /// Per server, the life that gave the handles out.
    pub(super) lives: Vec<u64>,
    /// Messages that replaced values.
    pub(super) replaced: u64,
}

impl Remote {
    /// Makes the model on the servers, starting at `values` (one for each variable). A model that is ready stays as it
    /// is.
    ///
    /// # Errors
    /// When something of the same name but another kind is there, or a server does not answer.
    pub fn create(client: &Client, layout: Layout, values: &[Bytes]) -> Result<Self> {
        check_values(&layout, values)?;
        let remote = Self::announce(client, layout)?;
        for server in 0..client.servers() {
            // A server that is ready holds a model that is being trained; it keeps its values.
            if !client.describe(server)?.ready {
                client.assign(&remote, server, values)?;
            }
        }
        Ok(remote)
    }

    /// Makes the model on the servers without values, for who restores them.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn announce(client: &Client, layout: Layout) -> Result<Self> {
        Self::new(client.make(&layout, true)?, layout)
    }

    /// The same on this incarnation of one server only: one that returns into a job that goes on with the others.
    ///
    /// # Errors
    /// As [`Self::create`], and when the server was restarted.
    pub fn announce_on(&mut self, client: &Client, server: usize, incarnation: Incarnation) -> Result<()> {
        let made = client.make_on(&self.layout, server, incarnation.0, true)?;
        self.take(server, made)
    }

    /// The incarnation of a server that gave its handles out.
    #[must_use]
    pub fn incarnation(&self, server: usize) -> Incarnation {
        Incarnation(self.lives[server])
    }

    /// Finds the model that the chief has made.
    ///
    /// # Errors
    /// When it is not there or is another one, or a server does not answer.
    pub fn find(client: &Client, layout: Layout) -> Result<Self> {
        Self::new(client.make(&layout, false)?, layout)
    }

    fn new(per_server: Vec<Made>, layout: Layout) -> Result<Self> {
        let pieces: Vec<Vec<Piece>> = (0..layout.servers()).map(|server| pieces(&layout, server)).collect();
        let held = pieces.iter().map(|pieces| vec![0; pieces.len()]).collect();
        let (handles, tables) = (vec![0; layout.shards().len()], vec![Vec::new(); layout.servers()]);
        let lives = vec![0; layout.servers()];
        let mut remote = Self { layout, handles, tables, pieces, held, lives, replaced: 0 };
        for (server, made) in per_server.into_iter().enumerate() {
            remote.take(server, made)?;
        }
        Ok(remote)
    }

    /// Takes the handles that a server gave out; what was held of its former life is not the newest any more.
    pub(super) fn take(&mut self, server: usize, made: Made) -> Result<()> {
        let shards: Vec<usize> = self.layout.shards_on(server).collect();
        if made.handles.len() != shards.len() + self.layout.tables().len() {
            return Err(Error::new(Code::BadMessage, "a server gave another number of handles than was asked for"));
        }
        let (dense, rows) = made.handles.split_at(shards.len());
        shards.iter().zip(dense).for_each(|(&shard, &handle)| self.handles[shard] = handle);
        self.tables[server] = rows.to_vec();
        self.held[server].fill(0);
        self.lives[server] = made.life;
        Ok(())
    }

    pub(super) fn check_values(&self, values: &[Bytes]) -> Result<()> {
        check_values(&self.layout, values)
    }

    pub(crate) fn handle(&self, shard: usize) -> u32 {
        self.handles[shard]
    }

    pub(crate) fn table_handle(&self, server: usize, table: usize) -> u32 {
        self.tables[server][table]
    }

    /// The layout.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// How many numbers a row of the set's table has.
    pub(super) fn dim(&self, set: &RowSet) -> usize {
        self.layout.tables()[set.table()].dim
    }
}

/// Values, one for each variable of the layout, must have its size.
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
