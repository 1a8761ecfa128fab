//! Workers that are lost or leave.

use super::{AttemptId, Rejection, Scheduler, TaskIncarnation, UpdateReach};

/// A worker pushes one step while it computes the next, so either of its two oldest steps may have caused its loss.
const RUNNING: usize = 2;

impl<W: Clone, R> Scheduler<W, R> {
    /// Records that a worker is silent or failed. It gets no more steps. Its steps wait until it is
    /// [fenced](Scheduler::fenced) on every server, because until then it may still push; its reports still count
    /// meanwhile. Returns whether there is something to fence.
    #[must_use]
    pub fn lost(&mut self, worker_id: TaskIncarnation) -> bool {
        let known = self.workers.get_mut(&worker_id);
        known.is_some_and(|worker| !std::mem::replace(&mut worker.lost, true))
    }

    /// Returns the incarnations that are lost and not fenced yet.
    pub fn to_fence(&self) -> impl Iterator<Item = TaskIncarnation> {
        self.workers.iter().filter(|(_, worker)| worker.lost).map(|(&worker_id, _)| worker_id)
    }

    /// Records that a lost incarnation was fenced on every server. `progress` has, for each server, the newest sequence
    /// number of which anything was applied, and whether all of it was. The incarnation's steps go back into the queue,
    /// and its later reports are ignored.
    ///
    /// # Errors
    /// When the incarnation is unknown, or the servers have updates that it cannot have pushed. Its steps go back in
    /// any case.
    pub fn fenced(&mut self, worker_id: TaskIncarnation, progress: &[(u64, bool)]) -> Result<(), Rejection> {
        let known = self.workers.remove(&worker_id).ok_or_else(|| self.stranger(worker_id));
        // Even one that never joined: servers would refuse its updates, so it must never get a step.
        let news = self.over.insert(worker_id);
        let worker = match known {
            Ok(worker) => worker,
            Err(stranger) => {
                // Another coordinator knew the step; here it is only known to be incomplete.
                let newest = progress.iter().map(|&(sequence, _)| sequence).max().unwrap_or(0);
                if news && self.rounds.none() && reach(progress, newest) == UpdateReach::Somewhere {
                    self.unfinished_updates.push((worker_id.update(newest), is_counted(progress, newest)));
                }
                return Err(stranger);
            }
        };
        let newest = progress.iter().map(|&(sequence, _)| sequence).max().unwrap_or(0);
        let mut explained = worker.reported.highest();
        for (_, id, sequence) in worker.own_sequences() {
            explained = explained.max(sequence);
            let reach = reach(progress, sequence);
            if let (Some(step), true) = (self.steps.get_mut(&id), reach != UpdateReach::Nowhere) {
                step.pushed = Some((worker_id.update(sequence), reach));
                step.counted = is_counted(progress, sequence);
            }
        }
        let cause = format!("{} was lost", worker_id.task);
        for (at, (&turn, held)) in worker.held.iter().enumerate() {
            let cause = (at < RUNNING).then(|| cause.clone());
            self.requeue(AttemptId { step: held.step, turn }, cause);
        }
        if newest > explained { Err(Rejection::Unexplained(worker_id, newest)) } else { Ok(()) }
    }

    /// Records that a worker leaves: it has reported what it pushed and will push nothing more. Steps that it has not
    /// run go back.
    ///
    /// # Errors
    /// When the incarnation is unknown.
    pub fn left(&mut self, worker_id: TaskIncarnation) -> Result<(), Rejection> {
        if self.workers.get(&worker_id).is_some_and(|worker| worker.lost) {
            // The servers' progress takes precedence over its own reports.
            return Ok(());
        }
        let Some(worker) = self.workers.remove(&worker_id) else { return Err(self.stranger(worker_id)) };
        self.over.insert(worker_id);
        for (&turn, held) in &worker.held {
            self.requeue(AttemptId { step: held.step, turn }, None);
        }
        Ok(())
    }
}

/// Whether the first server, which counts steps, has all of an update.
fn is_counted(progress: &[(u64, bool)], sequence: u64) -> bool {
    progress.first().is_some_and(|&(newest, whole)| newest > sequence || (newest == sequence && whole))
}

/// Returns how far an update got.
fn reach(progress: &[(u64, bool)], sequence: u64) -> UpdateReach {
    let whole = |&(newest, whole): &(u64, bool)| newest > sequence || (newest == sequence && whole);
    if progress.iter().all(|&(newest, _)| newest < sequence) {
        UpdateReach::Nowhere
    } else if progress.iter().all(whole) {
        UpdateReach::Everywhere
    } else {
        UpdateReach::Somewhere
    }
}
