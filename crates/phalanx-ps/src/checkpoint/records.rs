//! Which updates a server's part of a checkpoint has.

use super::{Checkpoint, applied};
use crate::client::to_wire;
use crate::recovery::{Life, Record};
use crate::server::identity;
use phalanx_base::Result;
use phalanx_wire::proto::params;

/// How far one incarnation of a task had come on a server when the server was saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Whose steps these are.
    pub life: Life,
    /// The newest step of which a part is in the values.
    pub step: u64,
    /// How many parts of it are.
    pub parts_applied: u32,
    /// How many parts it has.
    pub parts: u32,
    /// The task was shut out.
    pub fenced: bool,
}

impl Applied {
    /// The same for a recovery.
    #[must_use]
    pub fn record(&self) -> Record {
        let complete = self.parts_applied == self.parts;
        Record { life: self.life, step: self.step, complete, behind: true, fenced: self.fenced }
    }

    pub(crate) fn to_wire(self) -> params::Applied {
        let Self { life: (task, incarnation), step, parts_applied, parts, fenced } = self;
        let life = Some(to_wire(task, incarnation));
        params::Applied { life, step, parts_applied, parts, fenced, behind: true, counted: None }
    }
}

impl Checkpoint {
    /// The updates in the values of `server`, which is one of `servers`. A checkpoint of other servers knows nothing of
    /// what this one had applied.
    ///
    /// # Errors
    /// When the checkpoint is damaged.
    pub fn applied(&self, server: usize, servers: usize) -> Result<Vec<Applied>> {
        let name = applied(server as u32);
        let index = self.index();
        if index.shards() as usize != servers || !index.tensors().contains_key(&name) {
            return Ok(Vec::new());
        }
        let damaged = |error| super::reader::damaged(self.name(), error);
        let numbers = self.reader.read(&name).and_then(|tensor| tensor.i64s()).map_err(damaged)?;
        let read = |&[role, index, incarnation, step, parts_applied, parts, fenced]: &[i64; 7]| {
            let small = |number: i64| u32::try_from(number).unwrap_or(u32::MAX);
            let incarnation = incarnation.cast_unsigned();
            let client = params::Client { role: small(role), index: small(index), incarnation };
            Ok(Applied {
                life: identity(Some(&client))?,
                step: step.cast_unsigned(),
                parts_applied: small(parts_applied),
                parts: small(parts),
                fenced: fenced != 0,
            })
        };
        numbers.as_chunks::<7>().0.iter().map(read).collect::<Result<_>>().map_err(damaged)
    }
}
