//! Puts a checkpoint into servers, whatever the servers were that it came from.

use super::flow::Flow;
use super::reader::{Checkpoint, damaged};
use super::{NOTES, applied, item_counts, item_names, part_name, table_keys, table_values};
use crate::client::Remote;
use crate::plan::server_of_row;
use crate::{Client, TableSpec};
use bytes::Bytes;
use phalanx_base::{Code, Error, Result};
use phalanx_wire::limits::PART_BYTES;
use phalanx_wire::proto::params::{self, Applied, Assign, Range, Rows, Updates};
use std::collections::HashMap;

/// Restores what `server` holds of the model, slots and counts of updates included; the server is not ready yet. The
/// checkpoint was [compared](super::compare) with the model. With `names`, also which updates the values contain: for a
/// server that returns into a job that has gone on, and that was this server when the checkpoint was made.
///
/// # Errors
/// When the checkpoint is damaged, or the server does not answer.
pub fn restore_server(
    client: &Client,
    remote: &Remote,
    server: usize,
    checkpoint: &Checkpoint,
    names: bool,
) -> Result<()> {
    let restore = Restore { client, remote, server, checkpoint };
    restore.shards().map_err(|error| restore.explain(error))?;
    for table in 0..remote.layout().tables().len() {
        restore.table(table).map_err(|error| restore.explain(error))?;
    }
    let mut assign = Assign { updates: restore.updates()?, ..Assign::default() };
    if server == 0 {
        assign.notes = restore.notes().map_err(|error| restore.explain(error))?;
    }
    if names {
        assign.forgets = true;
        assign.applied = restore.applied().map_err(|error| restore.explain(error))?;
    }
    client.assign_to(server, assign, Vec::new())
}

struct Restore<'a> {
    client: &'a Client,
    remote: &'a Remote,
    server: usize,
    checkpoint: &'a Checkpoint,
}

impl Restore<'_> {
    /// What is wrong with the checkpoint is said of the checkpoint; a server that does not answer is not its fault.
    fn explain(&self, error: Error) -> Error {
        match error.code() {
            Code::DataFormat | Code::DataMissing | Code::CheckpointDamaged | Code::NoSuchVariable => {
                damaged(self.checkpoint.name(), error)
            }
            _ => error,
        }
    }

    fn flow(&self, name: &str, elements: std::ops::Range<usize>, width: usize) -> Result<Flow<'_>> {
        Flow::open(&self.checkpoint.reader, &self.checkpoint.files, name, elements, width)
    }

    fn shards(&self) -> Result<()> {
        let layout = self.remote.layout();
        for shard in layout.shards_on(self.server) {
            let (handle, shard) = (self.remote.handle(shard), &layout.shards()[shard]);
            let spec = &layout.variables()[shard.variable];
            for part in 0..=spec.optimizer.slot_count() {
                let name = part_name(&spec.optimizer, &spec.name, part);
                let mut flow = self.flow(&name, shard.elements.clone(), 4)?;
                let len = shard.elements.len();
                for start in (0..len).step_by(PART_BYTES / 4) {
                    let count = (PART_BYTES / 4).min(len - start);
                    let mut numbers = vec![0; 4 * count];
                    flow.fill(&mut numbers)?;
                    let (start, count) = (start as u64, count as u64);
                    let range = Range { handle, start, count, held: 0, slot: part as u32 };
                    let assign = Assign { ranges: vec![range], ..Assign::default() };
                    self.client.assign_to(self.server, assign, vec![numbers.into()])?;
                }
            }
        }
        Ok(())
    }

    /// Rows of all servers are read; those that live on this one are sent to it.
    fn table(&self, table: usize) -> Result<()> {
        let spec = &self.remote.layout().tables()[table];
        let info = self.checkpoint.reader.info(&table_keys(&spec.name))?;
        let total = info.shape.elements();
        let (mut keys, mut parts) = self.table_flows(spec, total)?;
        let row_bytes = 4 * spec.dim;
        let block = (PART_BYTES / (8 + row_bytes * parts.len())).max(1);
        let servers = self.client.servers();
        for first in (0..total).step_by(block) {
            let count = block.min(total - first);
            let mut ids = vec![0; 8 * count];
            keys.fill(&mut ids)?;
            let ids: Vec<i64> = ids.as_chunks().0.iter().map(|id| i64::from_le_bytes(*id)).collect();
            let mine: Vec<usize> = (0..count).filter(|&i| server_of_row(ids[i], servers) == self.server).collect();
            let width = row_bytes * parts.len();
            let mut rows = vec![0; width * mine.len()];
            let mut numbers = vec![0; row_bytes * count];
            for (part, flow) in parts.iter_mut().enumerate() {
                flow.fill(&mut numbers)?;
                for (row, &i) in rows.chunks_exact_mut(width).zip(&mine) {
                    row[part * row_bytes..][..row_bytes].copy_from_slice(&numbers[i * row_bytes..][..row_bytes]);
                }
            }
            if !mine.is_empty() {
                let handle = self.remote.table_handle(self.server, table);
                let assign = Assign { rows: vec![Rows { handle, count: mine.len() as u64 }], ..Assign::default() };
                let ids: Vec<u8> = mine.iter().flat_map(|&i| ids[i].to_le_bytes()).collect();
                self.client.assign_to(self.server, assign, vec![ids.into(), rows.into()])?;
            }
        }
        Ok(())
    }

    /// The ids of a table, and its values and slots.
    fn table_flows(&self, spec: &TableSpec, total: usize) -> Result<(Flow<'_>, Vec<Flow<'_>>)> {
        let keys = self.flow(&table_keys(&spec.name), 0..total, 8)?;
        let mut parts = Vec::with_capacity(1 + spec.optimizer.slot_count());
        for part in 0..=spec.optimizer.slot_count() {
            let name = table_values(&part_name(&spec.optimizer, &spec.name, part));
            let rows = self.checkpoint.reader.info(&name)?.shape.rows();
            if rows != total {
                let what = format!("table {:?} has {total} ids and {rows} rows in {name:?}", spec.name);
                return Err(Error::new(Code::CheckpointDamaged, what));
            }
            parts.push(self.flow(&name, 0..total * spec.dim, 4)?);
        }
        Ok((keys, parts))
    }

    /// How often each item was updated. A checkpoint that is not ours says only how many steps there were.
    fn updates(&self) -> Result<Vec<Updates>> {
        let (counts, steps) = (self.counts()?, self.checkpoint.global_step()?);
        let layout = self.remote.layout();
        let of = |name: &str, first_row: usize, handle: u32| {
            let exactly = counts.get(&(name.to_owned(), first_row as i64));
            let any = || counts.iter().find(|((known, _), _)| known == name).map(|(_, found)| found);
            let (count, closed) = exactly.or_else(any).copied().unwrap_or((steps, steps));
            Updates { handle, count, closed }
        };
        let shards = layout.shards_on(self.server).map(|i| {
            let shard = &layout.shards()[i];
            of(&layout.variables()[shard.variable].name, shard.rows.start, self.remote.handle(i))
        });
        let tables = layout.tables().iter().enumerate();
        let tables = tables.map(|(i, spec)| of(&spec.name, 0, self.remote.table_handle(self.server, i)));
        Ok(shards.chain(tables).collect())
    }

    /// Updates and closed rounds of every item of every server, by name and first row.
    fn counts(&self) -> Result<HashMap<(String, i64), (u64, u64)>> {
        let mut counts = HashMap::new();
        for server in 0..self.checkpoint.index().shards() {
            if !self.checkpoint.index().tensors().contains_key(&item_names(server)) {
                continue;
            }
            let names = self.checkpoint.reader.read(&item_names(server))?;
            let numbers = self.checkpoint.reader.read(&item_counts(server))?.i64s()?;
            for (name, numbers) in names.strings()?.iter().zip(numbers.as_chunks::<3>().0) {
                let name = String::from_utf8_lossy(name).into_owned();
                let [first_row, updates, closed] = *numbers;
                let found = counts.entry((name, first_row)).or_insert((0, 0));
                *found = (found.0.max(updates.cast_unsigned()), found.1.max(closed.cast_unsigned()));
            }
        }
        Ok(counts)
    }

    /// What the tasks wanted to find again.
    fn notes(&self) -> Result<Vec<params::Note>> {
        if !NOTES.iter().all(|&name| self.checkpoint.index().tensors().contains_key(name)) {
            return Ok(Vec::new());
        }
        let [tasks, notes] = [self.checkpoint.reader.read(NOTES[0])?, self.checkpoint.reader.read(NOTES[1])?];
        let note = |(task, note): (&[u8], &[u8])| params::Note {
            task: String::from_utf8_lossy(task).into_owned(),
            note: note.to_vec(),
        };
        Ok(tasks.strings()?.iter().zip(notes.strings()?.iter()).map(note).collect())
    }

    /// A checkpoint of other servers knows nothing of what this one had applied.
    fn applied(&self) -> Result<Vec<Applied>> {
        let name = applied(self.server as u32);
        let index = self.checkpoint.index();
        if index.shards() as usize != self.client.servers() || !index.tensors().contains_key(&name) {
            return Ok(Vec::new());
        }
        let numbers = self.checkpoint.reader.read(&name)?.i64s()?;
        let read = |&[role, index, incarnation, step, parts_applied, parts, fenced]: &[i64; 7]| {
            let small = |number: i64| u32::try_from(number).unwrap_or(u32::MAX);
            Applied {
                life: Some(params::Client {
                    role: small(role),
                    index: small(index),
                    incarnation: incarnation.cast_unsigned(),
                }),
                step: step.cast_unsigned(),
                parts_applied: small(parts_applied),
                parts: small(parts),
                fenced: fenced != 0,
            }
        };
        Ok(numbers.as_chunks::<7>().0.iter().map(read).collect())
    }
}

impl Client {
    /// Replaces something on a server that is not ready.
    pub(super) fn assign_to(&self, server: usize, assign: Assign, body: Vec<Bytes>) -> Result<()> {
        let mut frame = self.frame(params::request::Op::Assign(assign));
        body.into_iter().for_each(|bytes| frame.push(bytes));
        self.block(self.call(server, frame)).map(drop)
    }
}
