//! The updates in a server's part of a checkpoint.

use super::{Checkpoint, names};
use crate::recovery::Record;
use crate::{TaskIncarnation, proto};
use phalanx_base::Result;
use phalanx_wire::{proto::common, task_from_wire, task_to_wire};

/// The updates of one incarnation of a task in a saved server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedProgress {
    /// The task that pushed them.
    pub task: TaskIncarnation,
    /// The newest step of which a part is in the values.
    pub step: u64,
    /// How many parts of it are in the values.
    pub parts_applied: u32,
    /// How many parts it has.
    pub parts: u32,
    /// The task was fenced.
    pub fenced: bool,
    /// How many steps up to that one are not in the values, because the server was restored without them.
    pub lacking: u64,
}

impl SavedProgress {
    /// Converts it for a recovery.
    #[must_use]
    pub fn record(&self) -> Record {
        let complete = self.parts_applied == self.parts;
        Record { task: self.task, step: self.step, complete, behind: true, fenced: self.fenced }
    }

    pub(crate) fn to_wire(self) -> proto::TaskProgress {
        let Self { task: (task, incarnation), step, parts_applied, parts, fenced, lacking } = self;
        let task = Some(task_to_wire(task, incarnation));
        proto::TaskProgress { task, step, parts_applied, parts, fenced, behind: true, counted: None, lacking }
    }
}

impl Checkpoint {
    /// Returns the updates in the values of `server`, which is one of `servers`. A checkpoint of another number of servers
    /// does not record them.
    ///
    /// # Errors
    /// When the checkpoint is damaged.
    pub fn progress(&self, server: usize, servers: usize) -> Result<Vec<SavedProgress>> {
        let name = names::progress(server as u32);
        let index = self.index();
        if index.shards() as usize != servers || !index.tensors().contains_key(&name) {
            return Ok(Vec::new());
        }
        let damaged = |error| super::reader::damaged(self.name(), error);
        let numbers = self.reader.read(&name).and_then(|tensor| tensor.i64s()).map_err(damaged)?;
        let read = |&[role, index, incarnation, step, parts_applied, parts, fenced]: &[i64; 7]| {
            let small = |number: i64| u32::try_from(number).unwrap_or(u32::MAX);
            let incarnation = incarnation.cast_unsigned();
            let task = common::TaskIncarnation { role: small(role), index: small(index), incarnation };
            Ok(SavedProgress {
                task: task_from_wire(Some(&task))?,
                step: step.cast_unsigned(),
                parts_applied: small(parts_applied),
                parts: small(parts),
                fenced: fenced != 0,
                lacking: 0,
            })
        };
        let mut records: Vec<SavedProgress> =
            numbers.as_chunks::<7>().0.iter().map(read).collect::<Result<_>>().map_err(damaged)?;
        let name = names::lacking(server as u32);
        // Checkpoints of older versions do not have it.
        if index.tensors().contains_key(&name) {
            let lacking = self.reader.read(&name).and_then(|tensor| tensor.i64s()).map_err(damaged)?;
            records.iter_mut().zip(lacking).for_each(|(record, lacking)| record.lacking = lacking.cast_unsigned());
        }
        Ok(records)
    }
}
