//! Replacing what a server holds: all of it, as a restore does, or the values of a model that is being trained.

use super::body::Body;
use super::cut::not_ready;
use super::items::Item;
use super::notes::Notes;
use super::service::identity;
use super::{Progress, Store, lock};
use bytes::Bytes;
use phalanx_base::{Code, Error, Incarnation, Result, TaskId};
use phalanx_wire::proto::params::{Applied, Assign};
use std::sync::atomic::Ordering;

impl Store {
    /// Replaces values, slots, rows and the names of the updates in them, before the model is ready.
    ///
    /// # Errors
    /// When the message does not fit what is held here, or comes (again) after training has begun.
    pub fn assign(&self, ask: &Assign, body: &[Bytes]) -> Result<()> {
        if self.is_ready() {
            return Err(Error::new(Code::VariableConflict, "the model is being trained, its values are not replaced")
                .because("it was declared ready before this message came"));
        }
        let mut body = Body::new(body);
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

    /// Replaces values of a model that is being trained, between two updates; slots stay as they are. The same message
    /// again, or an older one of the same task, changes nothing.
    ///
    /// # Errors
    /// When the model is not ready, the sender was declared lost, or the message does not fit what is held here.
    pub fn replace(&self, from: (TaskId, Incarnation), ask: &Assign, body: &[Bytes]) -> Result<()> {
        if !self.is_ready() {
            return Err(not_ready());
        }
        let mut body = Body::new(body);
        let mut values = Vec::with_capacity(ask.ranges.len().min(1024));
        for range in &ask.ranges {
            let shard = self.dense(range.handle)?;
            let elements = shard.check(range.start, range.count)?;
            if range.slot != 0 {
                return Err(Error::new(Code::BadMessage, "slots of a model that is being trained are not replaced")
                    .at(shard.name.clone()));
            }
            values.push((shard, body.numbers(elements.len())?, elements));
        }
        body.end()?;
        // Updates in progress come to their end; new ones wait. First this, then the sender's progress, as for an update.
        let _gate = self.snapshots.exclude_updates();
        let replace = || {
            let mut newest = lock(&self.replaced);
            if newest.is_some_and(|(whose, number)| whose == from && ask.number <= number) {
                return Ok(());
            }
            values.into_iter().try_for_each(|(shard, numbers, range)| shard.replace(ask.closed, range, numbers))?;
            *newest = Some((from, ask.number));
            Ok(())
        };
        self.applied.admitted(from, replace).flatten()
    }
}

fn read(applied: &Applied) -> Result<((TaskId, Incarnation), Progress)> {
    let Applied { life, step, parts_applied, parts, fenced } = *applied;
    Ok((identity(life.as_ref())?, Progress { step, parts_applied, parts, fenced, behind: true }))
}
