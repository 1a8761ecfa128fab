//! The ids of a batch: deduplicated, and sorted by server.

use crate::plan::{Layout, server_of_row};
use bytes::Bytes;
use hashbrown::HashTable;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::ops::Range;

/// The unique ids that a batch has for one table.
///
/// ```
/// use phalanx_ps::client::RowSet;
/// let set = RowSet::new(0, &[5, 9, 5, 5], 2);
/// assert_eq!(set.unique(), [5, 9]);
/// assert_eq!(set.positions(), [0, 1, 0, 0]);
/// ```
#[derive(Clone, Debug)]
pub struct RowSet {
    table: usize,
    unique: Vec<i64>,
    positions: Vec<u32>,
    /// Per server: positions in `unique` of the rows it holds.
    by_server: Vec<Vec<u32>>,
}

impl RowSet {
    /// Deduplicates `ids` of the layout's table number `table`, whose rows are spread over `servers`.
    #[must_use]
    pub fn new(table: usize, ids: &[i64], servers: usize) -> Self {
        Self::by(table, ids, servers, |id| server_of_row(id, servers))
    }

    /// Deduplicates `ids` of table number `table` of `layout`, whether its rows are spread or pinned.
    #[must_use]
    pub fn of(layout: &Layout, table: usize, ids: &[i64]) -> Self {
        match layout.pinned_table(table) {
            Some(server) => Self::by(table, ids, layout.servers(), |_| server),
            None => Self::new(table, ids, layout.servers()),
        }
    }

    fn by(table: usize, ids: &[i64], servers: usize, server_of: impl Fn(i64) -> usize) -> Self {
        // A random state: ids come from users' data, and could be chosen to collide under a fixed one.
        let state = RandomState::new();
        let seed = state.hash_one(0_u64);
        let hash = |id: i64| phalanx_base::mix(id as u64 ^ seed);
        let mut seen: HashTable<u32> = HashTable::with_capacity(ids.len());
        let mut unique: Vec<i64> = Vec::with_capacity(ids.len());
        let mut positions = Vec::with_capacity(ids.len());
        let mut by_server = vec![Vec::with_capacity(ids.len() / servers + 16); servers];
        for &id in ids {
            let entry = seen.entry(hash(id), |&at| unique[at as usize] == id, |&at| hash(unique[at as usize]));
            let at = match entry {
                hashbrown::hash_table::Entry::Occupied(known) => *known.get(),
                hashbrown::hash_table::Entry::Vacant(vacant) => {
                    let at = unique.len() as u32;
                    vacant.insert(at);
                    unique.push(id);
                    by_server[server_of(id)].push(at);
                    at
                }
            };
            positions.push(at);
        }
        Self { table, unique, positions, by_server }
    }

    /// Returns the same ids for another table whose rows are on the same servers: the wide and the deep part of a model often look up the same ones.
    ///
    /// ```
    /// use phalanx_ps::client::RowSet;
    /// let wide = RowSet::new(0, &[5, 9, 5], 2).for_table(1);
    /// assert_eq!((wide.table(), wide.unique()), (1, &[5, 9][..]));
    /// ```
    #[must_use]
    pub fn for_table(&self, table: usize) -> Self {
        Self { table, ..self.clone() }
    }

    /// Returns the index of the table in the layout.
    #[must_use]
    pub fn table(&self) -> usize {
        self.table
    }

    /// Returns each id once, in the order of first appearance.
    #[must_use]
    pub fn unique(&self) -> &[i64] {
        &self.unique
    }

    /// Returns for each id of the batch its position in [`Self::unique`].
    #[must_use]
    pub fn positions(&self) -> &[u32] {
        &self.positions
    }

    pub(super) fn on(&self, server: usize) -> &[u32] {
        &self.by_server[server]
    }

    /// Whether this server holds all rows: their order is then that of [`Self::unique`].
    pub(super) fn all_on(&self, server: usize) -> bool {
        self.by_server[server].len() == self.unique.len()
    }

    pub(super) fn ids_at(&self, positions: &[u32]) -> Bytes {
        let ids: Vec<i64> = positions.iter().map(|&at| self.unique[at as usize]).collect();
        Bytes::from(bytemuck::cast_slice(&ids).to_vec())
    }
}

/// Summed gradients of a set's unique rows, in their order.
#[derive(Clone, Debug)]
pub struct RowGradients {
    /// The rows.
    pub set: RowSet,
    /// Their gradients, back to back.
    pub gradients: Bytes,
}

impl RowGradients {
    /// Returns the gradients of a run of the rows that a server holds.
    pub(super) fn gather(&self, server: usize, run: Range<usize>, dim: usize) -> Bytes {
        let bytes = 4 * dim;
        if self.set.all_on(server) {
            return self.gradients.slice(run.start * bytes..run.end * bytes);
        }
        let positions = &self.set.on(server)[run];
        let mut out = Vec::with_capacity(bytes * positions.len());
        for &at in positions {
            out.extend_from_slice(&self.gradients[at as usize * bytes..][..bytes]);
        }
        Bytes::from(out)
    }
}
