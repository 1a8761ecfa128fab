//! Replacing what a server holds: all of it, as a restore does, or the values of a model in training.

use super::body::Body;
use super::dense::Dense;
use super::input_positions::InputPositions;
use super::items::Item;
use super::table::Table;
use super::{Store, TaskIncarnation, TaskProgress, lock};
use crate::proto::{self, Assign, request};
use bytes::Bytes;
use phalanx_base::{Code, Error, Result, TaskId};
use phalanx_wire::task_from_wire;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// New values for a range of a variable, or of one of its slots.
struct RangeValues<'a> {
    shard: Arc<Dense>,
    slot: usize,
    elements: Range<usize>,
    values: &'a [u8],
}

/// A message that replaces what the server holds, fully checked.
struct Checked<'a> {
    ranges: Vec<RangeValues<'a>>,
    rows: Vec<(Arc<Table>, Vec<i64>, &'a [u8])>,
    progress: Vec<(TaskIncarnation, TaskProgress)>,
    input_positions: Vec<(TaskId, &'a [u8])>,
}

impl Store {
    /// Replaces values, slots, rows and the record of the updates in them, before the model is ready. A message that is
    /// refused changes nothing.
    ///
    /// # Errors
    /// When the message does not fit what is held here, or comes (again) after training has begun.
    pub fn assign(&self, ask: &Assign, body: &[Bytes]) -> Result<()> {
        if self.is_ready() {
            return Err(Error::new(Code::VariableConflict, "the model is being trained, its values are not replaced")
                .because("it was declared ready before this message came"));
        }
        if ask.clears {
            // Handles stay, their items are replaced: what was checked before would belong to the former items.
            Body::new(body).end()?;
            if *ask != (Assign { clears: true, ..Assign::default() }) {
                return Err(Error::new(Code::BadMessage, "a message that drops everything carries something"));
            }
            self.clear();
            return Ok(());
        }
        let checked = self.check_assign(ask, body)?;
        for RangeValues { shard, slot, elements, values } in checked.ranges {
            shard.assign(slot, elements, values)?;
        }
        for (table, ids, values) in checked.rows {
            table.assign(&ids, values)?;
        }
        for updates in &ask.updates {
            match self.items().get(updates.handle)? {
                Item::Dense(shard) => shard.set_updates(updates.count, updates.closed),
                Item::Table(table) => table.set_updates(updates.count, updates.closed),
            }
        }
        if ask.forgets {
            self.applied.restore(checked.progress);
        }
        let positions = checked.input_positions.into_iter();
        positions.for_each(|(task, position)| self.input_positions.keep(task, position));
        if let Some(step) = ask.global_step {
            self.global_step.store(step, Ordering::Release);
        }
        Ok(())
    }

    fn check_assign<'a>(&self, ask: &'a Assign, body: &'a [Bytes]) -> Result<Checked<'a>> {
        let mut body = Body::new(body);
        let mut ranges = Vec::with_capacity(ask.ranges.len().min(1024));
        for range in &ask.ranges {
            let shard = self.dense(range.handle)?;
            let elements = shard.check(range.start, range.count)?;
            let slot = range.slot as usize;
            shard.check_slot(slot)?;
            let values = body.numbers(elements.len())?;
            ranges.push(RangeValues { shard, slot, elements, values });
        }
        let mut rows = Vec::with_capacity(ask.rows.len().min(1024));
        for run in &ask.rows {
            let table = self.table(run.handle)?;
            let ids = body.ids(run.count as usize)?;
            let values = body.numbers(ids.len() * table.width())?;
            rows.push((table, ids, values));
        }
        body.end()?;
        ask.updates.iter().try_for_each(|updates| self.items().get(updates.handle).map(drop))?;
        let progress = ask.progress.iter().map(read).collect::<Result<Vec<_>>>()?;
        let mut input_positions = Vec::with_capacity(ask.input_positions.len().min(1024));
        for proto::InputPosition { task, position } in &ask.input_positions {
            InputPositions::check(position)?;
            input_positions.push((task.parse()?, position.as_slice()));
        }
        Ok(Checked { ranges, rows, progress, input_positions })
    }

    /// Drops everything, so that nothing of a failed restore stays.
    pub(super) fn clear(&self) {
        self.clear_items();
        self.applied.clear();
        self.input_positions.clear();
        self.missed.store(0, Ordering::Release);
        self.global_step.store(0, Ordering::Release);
    }

    /// Replaces values of a model in training, between two updates; slots are kept. A repeated message, or an older one of
    /// the same task, changes nothing.
    ///
    /// # Errors
    /// When the model is not ready, the sender was declared lost, or the message does not fit what is held here.
    pub fn replace(&self, from: TaskIncarnation, ask: &Assign, body: &[Bytes]) -> Result<()> {
        self.check_ready()?;
        self.replace_now(from, ask, body)
    }

    /// As [`Self::replace`], also while a log is replayed.
    pub(super) fn replace_now(&self, from: TaskIncarnation, ask: &Assign, ask_body: &[Bytes]) -> Result<()> {
        let mut body = Body::new(ask_body);
        let mut values = Vec::with_capacity(ask.ranges.len().min(1024));
        for range in &ask.ranges {
            let shard = self.dense(range.handle)?;
            let elements = shard.check(range.start, range.count)?;
            if range.slot != 0 {
                return Err(Error::new(Code::BadMessage, "slots of a model in training cannot be replaced")
                    .at(shard.name.clone()));
            }
            values.push((shard, body.numbers(elements.len())?, elements));
        }
        let mut rows = Vec::with_capacity(ask.rows.len().min(1024));
        for run in &ask.rows {
            let table = self.table(run.handle)?;
            let ids = body.ids(run.count as usize)?;
            let values = body.numbers(ids.len() * table.dim)?;
            rows.push((table, ids, values));
        }
        body.end()?;
        // Waits for updates in progress and blocks new ones. First this lock, then the sender's progress, as for an update.
        let _gate = self.snapshots.exclude_updates();
        let replace = || {
            let mut newest = lock(&self.replaced);
            if newest.is_some_and(|(sender, number)| sender == from && ask.number <= number) {
                return Ok(());
            }
            let op = || request::Op::Assign(ask.clone());
            self.record(Some(from), op, ask_body)?;
            values.into_iter().try_for_each(|(shard, numbers, range)| shard.replace(ask.closed, range, numbers))?;
            rows.into_iter().try_for_each(|(table, ids, rows)| table.replace(ask.closed, &ids, rows))?;
            self.changes.fetch_add(1, Ordering::AcqRel);
            *newest = Some((from, ask.number));
            Ok(())
        };
        self.applied.admitted(from, replace).flatten()
    }
}

pub(super) fn read(progress: &proto::TaskProgress) -> Result<(TaskIncarnation, TaskProgress)> {
    let proto::TaskProgress { task, step, parts_applied, parts, fenced, counted, lacking, .. } = *progress;
    let progress = TaskProgress { step, parts_applied, parts, fenced, behind: true, counted, lacking };
    Ok((task_from_wire(task.as_ref())?, progress))
}
