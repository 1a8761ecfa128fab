//! Replacing what a server holds, as a restore does.

use super::body::Body;
use super::items::Item;
use super::notes::Notes;
use super::service::identity;
use super::{Progress, Store};
use phalanx_base::{Code, Error, Result};
use phalanx_wire::proto::params::{Applied, Assign};
use std::sync::atomic::Ordering;

impl Store {
    /// Replaces values, slots, rows and the names of the updates in them, before the model is ready.
    ///
    /// # Errors
    /// When the message does not fit what is held here, or comes (again) after training has begun.
    pub fn assign(&self, ask: &Assign, body: &[u8]) -> Result<()> {
        if self.is_ready() {
            return Err(Error::new(Code::VariableConflict, "the model is being trained, its values are not replaced")
                .because("it was declared ready before this message came"));
        }
        let mut body = Body(body);
        for range in &ask.ranges {
            let shard = self.dense(range.handle)?;
            let elements = shard.check(range.start, range.count)?;
            let values = body.numbers(elements.len())?;
            shard.assign(range.slot as usize, elements, values)?;
        }
        for rows in &ask.rows {
            let table = self.table(rows.handle)?;
            let ids = body.ids(rows.count as usize)?;
            table.assign(&ids, body.numbers(ids.len() * table.width())?)?;
        }
        for updates in &ask.updates {
            match self.items().get(updates.handle)? {
                Item::Dense(shard) => shard.set_updates(updates.count, updates.closed),
                Item::Table(table) => table.set_updates(updates.count, updates.closed),
            }
        }
        if ask.forgets {
            self.applied.restore(ask.applied.iter().map(read).collect::<Result<Vec<_>>>()?);
        }
        for note in &ask.notes {
            Notes::check(&note.note)?;
            self.notes.keep(note.task.parse()?, &note.note);
        }
        if let Some(step) = ask.global_step {
            self.global_step.store(step, Ordering::Release);
        }
        body.end()
    }
}

fn read(applied: &Applied) -> Result<((phalanx_base::TaskId, phalanx_base::Incarnation), Progress)> {
    let Applied { life, step, parts_applied, parts, fenced } = *applied;
    Ok((identity(life.as_ref())?, Progress { step, parts_applied, parts, fenced, behind: true }))
}
