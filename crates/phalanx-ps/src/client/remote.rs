//! A model as it lies on the servers.

use super::packing::{Piece, pieces};
use super::{Client, RowSet};
use crate::plan::Layout;
use bytes::Bytes;
use phalanx_base::{Code, Error, Result};

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
}

impl Remote {
    /// Makes the model on the servers, starting at `values` (one for each variable). A model that is ready stays as it
    /// is.
    ///
    /// # Errors
    /// When something of the same name but another kind is there, or a server does not answer.
    pub fn create(client: &Client, layout: Layout, values: &[Bytes]) -> Result<Self> {
        for (spec, value) in layout.variables().iter().zip(values) {
            if value.len() != 4 * spec.shape.elements() {
                return Err(Error::new(
                    Code::ShapeMismatch,
                    format!("the initial value of {:?} does not fit", spec.name),
                )
                .because(format!("{} bytes for shape {}", value.len(), spec.shape)));
            }
        }
        let remote = Self::new(client.make(&layout, true)?, layout)?;
        for server in 0..client.servers() {
            // A server that is ready holds a model that is being trained; it keeps its values.
            if !client.describe(server)?.ready {
                client.assign(&remote, server, values)?;
            }
        }
        Ok(remote)
    }

    /// Finds the model that the chief has made.
    ///
    /// # Errors
    /// When it is not there or is another one, or a server does not answer.
    pub fn find(client: &Client, layout: Layout) -> Result<Self> {
        Self::new(client.make(&layout, false)?, layout)
    }

    fn new(per_server: Vec<Vec<u32>>, layout: Layout) -> Result<Self> {
        let mut handles = vec![0; layout.shards().len()];
        let mut tables = Vec::with_capacity(per_server.len());
        for (server, given) in per_server.iter().enumerate() {
            let shards: Vec<usize> = layout.shards_on(server).collect();
            if given.len() != shards.len() + layout.tables().len() {
                return Err(Error::new(Code::BadMessage, "a server gave another number of handles than was asked for"));
            }
            let (dense, rows) = given.split_at(shards.len());
            shards.iter().zip(dense).for_each(|(&shard, &handle)| handles[shard] = handle);
            tables.push(rows.to_vec());
        }
        let pieces: Vec<Vec<Piece>> = (0..layout.servers()).map(|server| pieces(&layout, server)).collect();
        let held = pieces.iter().map(|pieces| vec![0; pieces.len()]).collect();
        Ok(Self { layout, handles, tables, pieces, held })
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
