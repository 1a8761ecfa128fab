//! Which updates a server has applied: what makes an update's effect single.

use super::lock;
use phalanx_base::{Code, Error, Incarnation, Result, TaskId};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

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
        let next_step = step == self.step + 1 && part == 0 && complete;
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

    /// Records that (`step`, `part`) was applied.
    pub fn advance(&mut self, step: u64, part: u32, parts: u32) {
        (self.step, self.parts_applied, self.parts, self.behind) = (step, part + 1, parts, false);
    }
}

type Shared = Arc<Mutex<Progress>>;

/// The progress of every task that ever pushed here.
#[derive(Debug, Default)]
pub struct Applied {
    tasks: Mutex<HashMap<(TaskId, Incarnation), Shared>>,
    /// Whether steps were forgotten; see [`Progress::behind`].
    behind: AtomicBool,
}

impl Applied {
    /// The progress of one task's life. Whoever applies an update holds its lock meanwhile, so that a repeat that
    /// arrives at the same moment waits and is then dropped; other tasks are not held up.
    #[must_use]
    pub fn of(&self, task: TaskId, incarnation: Incarnation) -> Arc<Mutex<Progress>> {
        let behind = self.behind.load(Ordering::Acquire);
        let first = || Arc::new(Mutex::new(Progress { behind, ..Progress::default() }));
        Arc::clone(lock(&self.tasks).entry((task, incarnation)).or_insert_with(first))
    }

    /// Takes what a checkpoint says, which may be older than what the tasks have done since.
    pub fn restore(&self, known: impl IntoIterator<Item = ((TaskId, Incarnation), Progress)>) {
        self.behind.store(true, Ordering::Release);
        let known = known.into_iter().map(|(life, progress)| (life, Progress { behind: true, ..progress }));
        lock(&self.tasks).extend(known.map(|(life, progress)| (life, Arc::new(Mutex::new(progress)))));
    }

    /// Every life and how far it came.
    #[must_use]
    pub fn all(&self) -> Vec<((TaskId, Incarnation), Progress)> {
        // Copied first: a progress is locked for as long as its update is applied, and others must be found meanwhile.
        let known: Vec<_> = lock(&self.tasks).iter().map(|(&life, progress)| (life, Arc::clone(progress))).collect();
        known.into_iter().map(|(life, progress)| (life, *lock(&progress))).collect()
    }

    /// The lives that are known here and not fenced.
    #[must_use]
    pub fn lives(&self) -> Vec<(TaskId, Incarnation)> {
        self.all().into_iter().filter(|(_, progress)| !progress.fenced).map(|(life, _)| life).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_fenced_task_is_refused_and_another_may_finish_its_step() {
        let mut progress = Progress { fenced: true, ..Progress::default() };
        progress.advance(3, 0, 2);
        assert_eq!(progress.judge(3, 1, 2, false).unwrap_err().code(), Code::Fenced);
        assert_eq!(progress.judge(3, 0, 2, true).unwrap(), Verdict::Repeat);
        assert_eq!(progress.judge(3, 1, 2, true).unwrap(), Verdict::Fresh);
    }

    #[test]
    fn a_gap_is_an_error_and_not_an_update() {
        let progress = Progress::default();
        assert_eq!(progress.judge(2, 0, 1, false).unwrap_err().code(), Code::UpdateGap);
        assert_eq!(progress.judge(1, 1, 2, false).unwrap_err().code(), Code::UpdateGap);
        assert_eq!(progress.judge(1, 2, 2, false).unwrap_err().code(), Code::BadMessage);
    }

    #[test]
    fn a_restored_server_takes_the_next_step_whatever_it_is_and_no_gap_after_it() {
        let applied = Applied::default();
        let life = |index| (TaskId::new(phalanx_base::Role::Worker, index), Incarnation(1));
        let saved = Progress { step: 3, parts_applied: 1, parts: 1, ..Progress::default() };
        applied.restore([(life(0), saved)]);
        let known = applied.of(life(0).0, life(0).1);
        assert_eq!(lock(&known).judge(3, 0, 1, false).unwrap(), Verdict::Repeat, "the checkpoint has it");
        for index in 0..2 {
            let progress = applied.of(life(index).0, life(index).1);
            let mut progress = lock(&progress);
            assert_eq!(progress.judge(9, 0, 1, false).unwrap(), Verdict::Fresh);
            progress.advance(9, 0, 1);
            assert_eq!(progress.judge(9, 0, 1, false).unwrap(), Verdict::Repeat);
            assert_eq!(progress.judge(11, 0, 1, false).unwrap_err().code(), Code::UpdateGap);
            assert_eq!(progress.judge(10, 0, 1, false).unwrap(), Verdict::Fresh);
        }
    }

    proptest! {
        /// Whatever is repeated, late or out of order: each name is applied at most once, and all of them in the end
        /// if each arrives once in its turn.
        #[test]
        fn each_name_is_applied_once(noise in proptest::collection::vec((1_u64..6, 0_u32..3), 0..200)) {
            let parts = |step: u64| 1 + (step % 3) as u32;
            let mut progress = Progress::default();
            let mut applied = HashMap::new();
            let mut send = |progress: &mut Progress, step, part| {
                if progress.judge(step, part, parts(step), false).is_ok_and(|v| v == Verdict::Fresh) {
                    progress.advance(step, part, parts(step));
                    *applied.entry((step, part)).or_insert(0) += 1;
                }
            };
            let in_turn: Vec<_> = (1..6).flat_map(|step| (0..parts(step)).map(move |part| (step, part))).collect();
            let mut noise = noise.into_iter();
            for &(step, part) in &in_turn {
                for (step, part) in noise.by_ref().take(10) {
                    if part < parts(step) {
                        send(&mut progress, step, part);
                    }
                }
                send(&mut progress, step, part);
            }
            prop_assert!(in_turn.iter().all(|name| applied[name] == 1));
            prop_assert_eq!(applied.len(), in_turn.len());
        }
    }
}
