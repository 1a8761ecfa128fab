//! Which updates a server has applied: what makes an update's effect single.
//!
//! `tests/loom/tests/applied.rs` checks this file under every interleaving of updates, repeats and a fence.

use super::lock;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Mutex};
use phalanx_base::{Code, Error, Incarnation, Result, TaskId};
use std::collections::BTreeMap;

/// How far one incarnation of a task has come on this server. Its steps are numbered from 1 without gaps, and each has
/// one or more parts that are sent in order, so the newest applied one tells everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
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
    /// Of a restored server: steps up to this one are in its count of committed steps already.
    pub counted: Option<u64>,
}

/// Which update a message carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update {
    /// The step of the task that made it, counted from 1.
    pub step: u64,
    /// Which part of that step it is, counted from 0.
    pub part: u32,
    /// How many parts the step has.
    pub parts: u32,
    /// Another task sends it for one that was lost.
    pub by_another: bool,
}

impl Update {
    /// Whether it completes its step.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.part.checked_add(1) == Some(self.parts)
    }
}

/// What to do with an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Apply it.
    Fresh,
    /// It was applied before: change nothing, answer as if it had been applied now.
    Repeat,
    /// The same, and the step is complete with it: whoever finishes a lost task's step has fewer parts.
    Last,
}

impl Progress {
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

    /// Judges the update named (`step`, `part`).
    ///
    /// # Errors
    /// When it comes from a fenced task, or a part before it is missing.
    pub fn judge(&self, step: u64, part: u32, parts: u32, by_another: bool) -> Result<Verdict> {
        if !by_another {
            self.admit()?;
        }
        if part >= parts {
            return Err(Error::new(Code::BadMessage, format!("part {part} of a step with {parts} parts")));
        }
        let complete = self.parts_applied == self.parts;
        if (step, part) < (self.step, self.parts_applied) {
            let last = by_another && step == self.step && !complete && part + 1 == parts;
            return Ok(if last { Verdict::Last } else { Verdict::Repeat });
        }
        if self.behind && step > self.step && part == 0 {
            return Ok(Verdict::Fresh);
        }
        let next_part = step == self.step && part == self.parts_applied && !complete;
        let next_step = Some(step) == self.step.checked_add(1) && part == 0 && complete;
        if next_part || next_step {
            return Ok(Verdict::Fresh);
        }
        // What another task sends for a lost one may have fewer parts than the lost one announced.
        if by_another && step == self.step {
            return Ok(Verdict::Repeat);
        }
        Err(Error::new(Code::UpdateGap, format!("step {step} part {part} came after step {}", self.step))
            .because(format!("{} of its {} parts were applied here", self.parts_applied, self.parts)))
    }

    /// How many steps are missing between what a restored server has and `step`, which is pushed now.
    #[must_use]
    pub fn missed(&self, step: u64) -> u64 {
        let has = self.step.saturating_sub(u64::from(self.parts_applied < self.parts));
        if self.behind && step > self.step { step - 1 - has.min(step - 1) } else { 0 }
    }

    /// By how many steps the count of committed steps grows when `step` is complete. A restored server may have counted
    /// that step already, or may be told only now of those before it.
    pub fn count(&mut self, step: u64) -> u64 {
        self.counted.take().map_or(1, |counted| step.saturating_sub(counted))
    }

    /// Records that (`step`, `part`) was applied.
    pub fn advance(&mut self, step: u64, part: u32, parts: u32) {
        (self.step, self.parts_applied, self.parts, self.behind) = (step, part + 1, parts, false);
    }
}

/// One incarnation of a task.
type Life = (TaskId, Incarnation);

type Shared = Arc<Mutex<Progress>>;

/// The progress of every task that ever pushed here.
#[derive(Debug, Default)]
pub struct Applied {
    tasks: Mutex<BTreeMap<Life, Shared>>,
    /// Whether steps were forgotten; see [`Progress::behind`].
    behind: AtomicBool,
}

impl Applied {
    /// Applies an update once. `apply` is called with what to do: [`Verdict::Fresh`], or [`Verdict::Last`] where nothing is
    /// left to apply of a step that is now complete. It is not called for a repeat, and sees the progress as it is before the
    /// update is recorded. The lock of the sender's progress is
    /// held from the decision until the update is recorded, so that a repeat that arrives meanwhile waits, and a
    /// [`Self::fence`] waits for it; other tasks are not held up.
    ///
    /// # Errors
    /// When the sender may not push, a part before it is missing, or `apply` fails; nothing is recorded then.
    pub fn once(
        &self,
        life: Life,
        update: Update,
        apply: impl FnOnce(Verdict, &mut Progress) -> Result<()>,
    ) -> Result<Verdict> {
        let Update { step, part, parts, by_another } = update;
        let progress = self.of(life.0, life.1);
        let mut progress = lock(&progress);
        let verdict = progress.judge(step, part, parts, by_another)?;
        if verdict != Verdict::Repeat {
            apply(verdict, &mut progress)?;
            progress.advance(step, part, parts);
        }
        Ok(verdict)
    }

    /// Calls `act` unless the task was declared lost. A [`Self::fence`] waits until it has ended.
    ///
    /// # Errors
    /// When the task was declared lost.
    pub fn admitted<T>(&self, life: Life, act: impl FnOnce() -> T) -> Result<T> {
        let progress = self.of(life.0, life.1);
        let progress = lock(&progress);
        progress.admit()?;
        Ok(act())
    }

    /// Declares a task lost: once this has returned, nothing that it sent changes anything. Returns how far it came.
    pub fn fence(&self, life: Life) -> Progress {
        let progress = self.of(life.0, life.1);
        let mut progress = lock(&progress);
        progress.fenced = true;
        *progress
    }

    /// The progress of one task's life.
    #[must_use]
    pub fn of(&self, task: TaskId, incarnation: Incarnation) -> Arc<Mutex<Progress>> {
        let behind = self.behind.load(Ordering::Acquire);
        let first = || Arc::new(Mutex::new(Progress { behind, ..Progress::default() }));
        Arc::clone(lock(&self.tasks).entry((task, incarnation)).or_insert_with(first))
    }

    /// Takes what a checkpoint says, which may be older than what the tasks have done since.
    pub fn restore(&self, known: impl IntoIterator<Item = (Life, Progress)>) {
        self.behind.store(true, Ordering::Release);
        let known = known.into_iter().map(|(life, progress)| (life, Progress { behind: true, ..progress }));
        lock(&self.tasks).extend(known.map(|(life, progress)| (life, Arc::new(Mutex::new(progress)))));
    }

    /// Whether steps were forgotten; see [`Progress::behind`].
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.behind.load(Ordering::Acquire)
    }

    /// Forgets everything, before a restore.
    pub fn clear(&self) {
        lock(&self.tasks).clear();
        self.behind.store(false, Ordering::Release);
    }

    /// Every life and how far it came.
    #[must_use]
    pub fn all(&self) -> Vec<(Life, Progress)> {
        // Copied first: a progress is locked for as long as its update is applied, and others must be found meanwhile.
        let known: Vec<_> = lock(&self.tasks).iter().map(|(&life, progress)| (life, Arc::clone(progress))).collect();
        known.into_iter().map(|(life, progress)| (life, *lock(&progress))).collect()
    }

    /// The lives that are known here and not fenced.
    #[must_use]
    pub fn lives(&self) -> Vec<Life> {
        self.all().into_iter().filter(|(_, progress)| !progress.fenced).map(|(life, _)| life).collect()
    }
}
