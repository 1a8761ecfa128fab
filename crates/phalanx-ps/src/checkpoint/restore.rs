//! Restoring one server's part of a checkpoint, whatever servers wrote the checkpoint.

use super::estimator_names::{self, Located, is_dense_table, locate};
use super::flow::{Flow, rows_in_file};
use super::names::{INPUT_POSITIONS, item_names, part_name, table_keys, table_values};
use super::reader::{Checkpoint, damaged};
use crate::plan::server_of_row;
use crate::proto::{Assign, InputPosition, Range, Rows, UpdateCount};
use bytes::Bytes;
use phalanx_base::{Code, Error, Result};
use phalanx_optim::Optimizer;
use phalanx_wire::limits::PART_BYTES;

/// What one server holds of a model: what it needs of a checkpoint.
#[derive(Clone, Debug)]
pub(crate) struct RestorePlan {
    pub(crate) server: usize,
    pub(crate) servers: usize,
    pub(crate) shards: Vec<ShardPlan>,
    pub(crate) tables: Vec<TablePlan>,
}

#[derive(Clone, Debug)]
pub(crate) struct ShardPlan {
    pub(crate) handle: u32,
    pub(crate) variable: String,
    pub(crate) first_row: usize,
    /// Its elements, counted through the whole variable.
    pub(crate) elements: std::ops::Range<usize>,
    pub(crate) optimizer: Optimizer,
}

#[derive(Clone, Debug)]
pub(crate) struct TablePlan {
    pub(crate) handle: u32,
    pub(crate) name: String,
    pub(crate) dim: usize,
    pub(crate) optimizer: Optimizer,
    /// The server that holds all rows; `None` where they are spread by id.
    pub(crate) pinned: Option<usize>,
}

/// Receives what is restored, message by message.
pub(crate) type Target<'a> = dyn Fn(Assign, Vec<Bytes>) -> Result<()> + 'a;

/// Drops what the server holds and restores its part of the checkpoint: values, slots, rows, counts of updates, and the
/// input positions on server 0. The server is not ready yet, and knows no updates.
///
/// # Errors
/// When the checkpoint is damaged, or the target refuses. What was restored until then stays, and is dropped by the next
/// attempt.
pub(crate) fn restore_part(checkpoint: &Checkpoint, plan: &RestorePlan, target: &Target<'_>) -> Result<()> {
    let restore = Restore { checkpoint, plan, target };
    target(Assign { clears: true, ..Assign::default() }, Vec::new())?;
    restore.shards()?;
    plan.tables.iter().try_for_each(|table| restore.table(table))?;
    let mut assign =
        Assign { updates: restore.updates().map_err(|error| restore.explain(error))?, ..Assign::default() };
    if plan.server == 0 {
        assign.input_positions = restore.input_positions().map_err(|error| restore.explain(error))?;
    }
    target(assign, Vec::new())
}

struct Restore<'a> {
    checkpoint: &'a Checkpoint,
    plan: &'a RestorePlan,
    target: &'a Target<'a>,
}

impl Restore<'_> {
    /// Names the checkpoint in an error of reading it. A refusal by the server is not the checkpoint's fault.
    fn explain(&self, error: Error) -> Error {
        match error.code() {
            Code::DataFormat | Code::DataMissing | Code::CheckpointDamaged | Code::NoSuchVariable => {
                damaged(self.checkpoint.name(), error)
            }
            _ => error,
        }
    }

    fn flow(&self, located: &Located, elements: std::ops::Range<usize>, width: usize) -> Result<Flow<'_>> {
        let flow = Flow::open(&self.checkpoint.reader, &self.checkpoint.files, located, elements, width);
        flow.map_err(|error| self.explain(error))
    }

    /// Locates a part of a variable; one that is nowhere is looked for under our own name, and reported.
    fn located(&self, optimizer: &Optimizer, of: &str, part: usize) -> Located {
        let found = locate(self.checkpoint.index(), optimizer, of, part);
        found.unwrap_or_else(|| Located { names: vec![part_name(optimizer, of, part)], scale: 1.0 })
    }

    fn fill(&self, flow: &mut Flow<'_>, block: &mut [u8]) -> Result<()> {
        flow.fill(block).map_err(|error| self.explain(error))
    }

    fn shards(&self) -> Result<()> {
        for shard in &self.plan.shards {
            for part in 0..=shard.optimizer.slot_count() {
                let located = self.located(&shard.optimizer, &shard.variable, part);
                let len = shard.elements.len();
                if len == 0 {
                    continue;
                }
                let mut flow = self.flow(&located, shard.elements.clone(), 4)?;
                for start in (0..len).step_by(PART_BYTES / 4) {
                    let count = (PART_BYTES / 4).min(len - start);
                    let mut numbers = vec![0; 4 * count];
                    self.fill(&mut flow, &mut numbers)?;
                    let (start, count) = (start as u64, count as u64);
                    let range = Range { handle: shard.handle, start, count, held: 0, slot: part as u32 };
                    let assign = Assign { ranges: vec![range], ..Assign::default() };
                    (self.target)(assign, vec![numbers.into()])?;
                }
            }
        }
        Ok(())
    }

    /// Restores the rows of this server. Where the checkpoint has the same number of servers, they are usually those of this
    /// server's data file; otherwise all rows are read.
    fn table(&self, table: &TablePlan) -> Result<()> {
        let rows = self.rows_to_read(table).map_err(|error| self.explain(error))?;
        let (mut keys, mut parts) = self.table_flows(table, rows.clone())?;
        let row_bytes = 4 * table.dim;
        let width = row_bytes * parts.len();
        let block = (PART_BYTES / (8 + width)).max(1);
        for first in rows.clone().step_by(block) {
            let count = block.min(rows.end - first);
            let ids = match &mut keys {
                Some(keys) => {
                    let mut ids = vec![0; 8 * count];
                    self.fill(keys, &mut ids)?;
                    ids.as_chunks().0.iter().map(|id| i64::from_le_bytes(*id)).collect()
                }
                // A variable of TensorFlow has a row for every id.
                None => (first as i64..(first + count) as i64).collect::<Vec<_>>(),
            };
            let home = |id: i64| table.pinned.unwrap_or_else(|| server_of_row(id, self.plan.servers));
            let mine: Vec<usize> = (0..count).filter(|&i| home(ids[i]) == self.plan.server).collect();
            let mut rows = vec![0; width * mine.len()];
            let mut numbers = vec![0; row_bytes * count];
            for (part, flow) in parts.iter_mut().enumerate() {
                self.fill(flow, &mut numbers)?;
                for (row, &i) in rows.chunks_exact_mut(width).zip(&mine) {
                    row[part * row_bytes..][..row_bytes].copy_from_slice(&numbers[i * row_bytes..][..row_bytes]);
                }
            }
            if !mine.is_empty() {
                let run = Rows { handle: table.handle, count: mine.len() as u64, continues: false };
                let ids: Vec<u8> = mine.iter().flat_map(|&i| ids[i].to_le_bytes()).collect();
                (self.target)(Assign { rows: vec![run], ..Assign::default() }, vec![ids.into(), rows.into()])?;
            }
        }
        Ok(())
    }

    fn rows_to_read(&self, table: &TablePlan) -> Result<std::ops::Range<usize>> {
        if is_dense_table(self.checkpoint.index(), &table.name) {
            return Ok(0..self.checkpoint.reader.info(&table.name)?.shape.rows());
        }
        let info = self.checkpoint.reader.info(&table_keys(&table.name))?;
        let index = self.checkpoint.index();
        let servers = self.plan.servers as u32;
        let ours = (0..servers).all(|server| index.tensors().contains_key(&item_names(server)));
        if table.pinned.is_none() && ours && index.shards() == servers {
            let own = rows_in_file(info, 8, self.plan.server as u32)?;
            // One file has all rows of a table that was pinned, or that is small: there may be rows of this server among them.
            if !own.is_empty() {
                return Ok(own);
            }
        }
        Ok(0..info.shape.elements())
    }

    /// Opens the ids of these rows of a table, where it has any, and their values and slots.
    fn table_flows(
        &self,
        table: &TablePlan,
        rows: std::ops::Range<usize>,
    ) -> Result<(Option<Flow<'_>>, Vec<Flow<'_>>)> {
        let info = |name: &str| self.checkpoint.reader.info(name).map_err(|error| self.explain(error));
        let dense = is_dense_table(self.checkpoint.index(), &table.name);
        let keys = Located { names: vec![table_keys(&table.name)], scale: 1.0 };
        let (total, keys) = if dense {
            (info(&table.name)?.shape.rows(), None)
        } else {
            (info(&keys.names[0])?.shape.elements(), Some(self.flow(&keys, rows.clone(), 8)?))
        };
        let mut parts = Vec::with_capacity(1 + table.optimizer.slot_count());
        for part in 0..=table.optimizer.slot_count() {
            let located = if dense {
                self.located(&table.optimizer, &table.name, part)
            } else {
                Located { names: vec![table_values(&part_name(&table.optimizer, &table.name, part))], scale: 1.0 }
            };
            let name = &located.names[0];
            let found = info(name)?.shape.rows();
            if found != total {
                let what = format!("table {:?} has {total} ids and {found} rows in {name:?}", table.name);
                return Err(damaged(self.checkpoint.name(), Error::new(Code::CheckpointDamaged, what)));
            }
            parts.push(self.flow(&located, rows.start * table.dim..rows.end * table.dim, 4)?);
        }
        Ok((keys, parts))
    }

    /// Returns the number of updates of each item. A checkpoint of TensorFlow's has only the number of steps, and Adam's.
    fn updates(&self) -> Result<Vec<UpdateCount>> {
        let (counts, steps) = (self.checkpoint.counts()?, self.checkpoint.global_step()?);
        let of = |name: &str, first_row: usize, handle: u32, optimizer: &Optimizer| {
            let exactly = counts.get(&(name.to_owned(), first_row as i64));
            let any = || counts.iter().find(|((known, _), _)| known == name).map(|(_, found)| found);
            let (count, closed) = match exactly.or_else(any) {
                Some(&known) => known,
                None => (estimator_names::updates(&self.checkpoint.reader, optimizer, name, steps)?, steps),
            };
            Ok(UpdateCount { handle, count, closed })
        };
        let shards = self.plan.shards.iter();
        let shards = shards.map(|shard| of(&shard.variable, shard.first_row, shard.handle, &shard.optimizer));
        let tables = self.plan.tables.iter().map(|table| of(&table.name, 0, table.handle, &table.optimizer));
        shards.chain(tables).collect()
    }

    /// Returns the input positions of the tasks.
    fn input_positions(&self) -> Result<Vec<InputPosition>> {
        if !INPUT_POSITIONS.iter().all(|&name| self.checkpoint.index().tensors().contains_key(name)) {
            return Ok(Vec::new());
        }
        let read = |name| self.checkpoint.reader.read(name);
        let (tasks, positions) = (read(INPUT_POSITIONS[0])?, read(INPUT_POSITIONS[1])?);
        let position = |(task, position): (&[u8], &[u8])| InputPosition {
            task: String::from_utf8_lossy(task).into_owned(),
            position: position.to_vec(),
        };
        Ok(tasks.strings()?.iter().zip(positions.strings()?.iter()).map(position).collect())
    }
}
