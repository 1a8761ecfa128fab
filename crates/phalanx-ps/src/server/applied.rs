//! The updates that a server has applied: what makes an update take effect once.
//!
//! `tests/loom` checks this file under every interleaving of updates, repeats and a fence.

use super::lock;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Mutex};
use phalanx_base::{Code, Error, Incarnation, Result, TaskId};
use std::collections::BTreeMap;

/// One incarnation of a task.
pub type TaskIncarnation = (TaskId, Incarnation);

/// The updates of one incarnation of a task that a server has applied. Its steps are numbered from 1 without gaps, and the
/// parts of a step are sent in order, so the newest applied part implies all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskProgress {
    /// The newest step of which a part was applied; 0 before the first.
    pub step: u64,
    /// How many parts of it were applied.
    pub parts_applied: u32,
    /// How many parts it has.
    pub parts: u32,
    /// The task was declared lost: only another task may finish its step.
    pub fenced: bool,
    /// The server was restored and has forgotten the newest steps: the next one may be any later one.
    pub behind: bool,
    /// On a restored server: steps up to this one are in its count of committed steps already.
    pub counted: Option<u64>,
    /// How many steps up to the newest one the server lacks, because it was restored without them.
    pub lacking: u64,
}

/// The part of an update that a message carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdatePart {
    /// The step of the task that computed it, counted from 1.
    pub step: u64,
    /// The part of that step, counted from 0.
    pub part: u32,
    /// How many parts the step has.
    pub parts: u32,
    /// Another task sends it for a lost one.
    pub by_another: bool,
}

impl UpdatePart {
    /// Whether it completes its step.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.part.checked_add(1) == Some(self.parts)
    }
}

/// What a server does with an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateOutcome {
    /// The update is new and is applied.
    Fresh,
    /// The update was applied before: nothing changes, and the reply is as if it had been applied now.
    Repeat,
    /// As `Repeat`, and the step is complete now: the task that finishes a lost task's step may send fewer parts.
    Last,
}

impl TaskProgress {
    /// Refuses a task that was declared lost.
    ///
    /// # Errors
    /// When it was.
    pub fn admit(&self) -> Result<()> {
        if self.fenced {
            return Err(Error::new(Code::Fenced, "this task was declared lost, its updates are refused")
                .because("it was silent for longer than its lease")
                .help("start the task again"));
        }
        Ok(())
    }

    /// Decides whether an update is new or a repeat.
    ///
    /// # Errors
    /// When it comes from a fenced task, or a part before it is missing.
    pub fn deduplicate(&self, UpdatePart { step, part, parts, by_another }: UpdatePart) -> Result<UpdateOutcome> {
        if !by_another {
            self.admit()?;
        }
        if part >= parts {
            return Err(Error::new(Code::BadMessage, format!("part {part} of a step with {parts} parts")));
        }
        let complete = self.is_complete();
        if (step, part) < (self.step, self.parts_applied) {
            let last = by_another && step == self.step && !complete && part + 1 == parts;
            return Ok(if last { UpdateOutcome::Last } else { UpdateOutcome::Repeat });
        }
        if self.behind && step > self.step && part == 0 {
            return Ok(UpdateOutcome::Fresh);
        }
        let next_part = step == self.step && part == self.parts_applied && !complete;
        let next_step = Some(step) == self.step.checked_add(1) && part == 0 && complete;
        if next_part || next_step {
            return Ok(UpdateOutcome::Fresh);
        }
        // What another task sends for a lost one may have fewer parts than the lost one announced.
        if by_another && step == self.step {
            return Ok(UpdateOutcome::Repeat);
        }
        Err(Error::new(Code::UpdateGap, format!("step {step} part {part} came after step {}", self.step))
            .because(format!("{} of its {} parts were applied here", self.parts_applied, self.parts)))
    }

    /// Whether all parts of the newest step were applied.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.parts_applied == self.parts
    }

    /// Returns how many steps are missing between the state of a restored server and `step`, which is pushed now.
    #[must_use]
    pub fn missed(&self, step: u64) -> u64 {
        let has = self.step.saturating_sub(u64::from(self.parts_applied < self.parts));
        if self.behind && step > self.step { step - 1 - has.min(step - 1) } else { 0 }
    }

    /// Returns by how much the count of committed steps grows when `step` is complete. A restored server may have counted
    /// that step already, or may learn only now of the steps before it.
    pub fn count(&mut self, step: u64) -> u64 {
        self.counted.take().map_or(1, |counted| step.saturating_sub(counted))
    }

    /// Returns how many of the task's steps are complete here.
    #[must_use]
    pub fn complete_steps(&self) -> u64 {
        let newest = self.step.saturating_sub(u64::from(!self.is_complete()));
        newest.saturating_sub(self.lacking)
    }

    /// Records that an update was applied.
    pub fn advance(&mut self, UpdatePart { step, part, parts, .. }: UpdatePart) {
        self.lacking += self.missed(step);
        (self.step, self.parts_applied, self.parts, self.behind) = (step, part + 1, parts, false);
    }
}

type SharedProgress = Arc<Mutex<TaskProgress>>;

/// The progress of every task that ever pushed to this server.
#[derive(Debug, Default)]
pub struct AppliedUpdates {
    tasks: Mutex<BTreeMap<TaskIncarnation, SharedProgress>>,
    /// Whether steps were forgotten; see [`TaskProgress::behind`].
    behind: AtomicBool,
}

impl AppliedUpdates {
    /// Applies an update once. `apply` is called with [`UpdateOutcome::Fresh`], or with [`UpdateOutcome::Last`] where a step
    /// is complete and nothing of it is left to apply. It is not called for a repeat, and sees the progress as it is before
    /// the update is recorded. The lock of the sender's progress is held from the decision until the update is recorded: a
    /// repeat that arrives meanwhile waits, and so does a [`Self::fence`]; other tasks do not.
    ///
    /// # Errors
    /// When the sender may not push, a part before it is missing, or `apply` fails; nothing is recorded then.
    pub fn once(
        &self,
        task: TaskIncarnation,
        update: UpdatePart,
        apply: impl FnOnce(UpdateOutcome, &mut TaskProgress) -> Result<()>,
    ) -> Result<UpdateOutcome> {
        let progress = self.of(task);
        let mut progress = lock(&progress);
        let outcome = progress.deduplicate(update)?;
        if outcome != UpdateOutcome::Repeat {
            apply(outcome, &mut progress)?;
            progress.advance(update);
        }
        Ok(outcome)
    }

    /// Calls `act` unless the task was declared lost. A [`Self::fence`] waits until `act` has returned.
    ///
    /// # Errors
    /// When the task was declared lost.
    pub fn admitted<T>(&self, task: TaskIncarnation, act: impl FnOnce() -> T) -> Result<T> {
        let progress = self.of(task);
        let progress = lock(&progress);
        progress.admit()?;
        Ok(act())
    }

    /// Declares a task lost and returns its progress. After this, nothing that the task sent changes anything.
    pub fn fence(&self, task: TaskIncarnation) -> TaskProgress {
        let progress = self.of(task);
        let mut progress = lock(&progress);
        progress.fenced = true;
        *progress
    }

    /// As [`Self::fence`], once `record` has recorded it: no update of the task comes in between.
    ///
    /// # Errors
    /// When `record` fails; the task is not fenced then.
    pub fn fence_after(&self, task: TaskIncarnation, record: impl FnOnce() -> Result<()>) -> Result<TaskProgress> {
        let progress = self.of(task);
        let mut progress = lock(&progress);
        record()?;
        progress.fenced = true;
        Ok(*progress)
    }

    /// Returns the progress of one incarnation of a task.
    #[must_use]
    pub fn of(&self, task: TaskIncarnation) -> Arc<Mutex<TaskProgress>> {
        let behind = self.behind.load(Ordering::Acquire);
        let first = || Arc::new(Mutex::new(TaskProgress { behind, ..TaskProgress::default() }));
        Arc::clone(lock(&self.tasks).entry(task).or_insert_with(first))
    }

    /// Takes the progress in a checkpoint, which may be older than what the tasks have done since.
    pub fn restore(&self, known: impl IntoIterator<Item = (TaskIncarnation, TaskProgress)>) {
        self.behind.store(true, Ordering::Release);
        let behind = |progress| Arc::new(Mutex::new(TaskProgress { behind: true, ..progress }));
        lock(&self.tasks).extend(known.into_iter().map(|(task, progress)| (task, behind(progress))));
    }

    /// Takes over exactly what a former incarnation of this server knew.
    pub fn resume(&self, known: impl IntoIterator<Item = (TaskIncarnation, TaskProgress)>, behind: bool) {
        self.behind.store(behind, Ordering::Release);
        let shared = |(task, progress)| (task, Arc::new(Mutex::new(progress)));
        lock(&self.tasks).extend(known.into_iter().map(shared));
    }

    /// Whether steps were forgotten; see [`TaskProgress::behind`].
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.behind.load(Ordering::Acquire)
    }

    /// Forgets everything, before a restore.
    pub fn clear(&self) {
        lock(&self.tasks).clear();
        self.behind.store(false, Ordering::Release);
    }

    /// Returns the progress of every task incarnation.
    #[must_use]
    pub fn all(&self) -> Vec<(TaskIncarnation, TaskProgress)> {
        // Copied first: a progress is locked while its update is applied, and others must be found meanwhile.
        let known: Vec<_> = lock(&self.tasks).iter().map(|(&task, progress)| (task, Arc::clone(progress))).collect();
        known.into_iter().map(|(task, progress)| (task, *lock(&progress))).collect()
    }

    /// Returns the known task incarnations that are not fenced.
    #[must_use]
    pub fn tasks(&self) -> Vec<TaskIncarnation> {
        self.all().into_iter().filter(|(_, progress)| !progress.fenced).map(|(task, _)| task).collect()
    }
}
