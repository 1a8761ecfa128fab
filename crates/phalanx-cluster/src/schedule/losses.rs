//! Workers that are lost, and workers that leave.

use super::{Life, Reach, Remark, Scheduler, Ticket};

/// A worker pushes one step while it computes the next: so many of its oldest steps may be what brought it down.
const RUNNING: usize = 2;

impl<W: Clone, R> Scheduler<W, R> {
    /// A worker is silent or failed. It gets no more steps; what it has waits until it is [fenced](Scheduler::fenced) on
    /// every server, because until then it may still push. Reports that come meanwhile still count. Answers whether
    /// there is something to fence.
    #[must_use]
    pub fn lost(&mut self, life: Life) -> bool {
        let known = self.workers.get_mut(&life);
        known.is_some_and(|worker| !std::mem::replace(&mut worker.lost, true))
    }

    /// The lives that are lost and not fenced yet.
    pub fn to_fence(&self) -> impl Iterator<Item = Life> {
        self.workers.iter().filter(|(_, worker)| worker.lost).map(|(&life, _)| life)
    }

    /// A lost life was fenced on every server, which said how far it came there: the newest sequence number of which
    /// anything was applied, and whether all of it was. Its steps go back into the queue; from now on its reports are
    /// ignored.
    ///
    /// # Errors
    /// When the life is not known, or the servers hold what it cannot have pushed; its steps come back nevertheless.
    pub fn fenced(&mut self, life: Life, progress: &[(u64, bool)]) -> Result<(), Remark> {
        let known = self.workers.remove(&life).ok_or_else(|| self.stranger(life));
        // Even one that never joined: what it pushed would be refused, so it must never get a step.
        let news = self.over.insert(life);
        let worker = match known {
            Ok(worker) => worker,
            Err(stranger) => {
                // Another coordinator had it, which knew what the step was; we only know that it is not whole.
                let newest = progress.iter().map(|&(sequence, _)| sequence).max().unwrap_or(0);
                if news && self.rounds.none() && reach(progress, newest) == Reach::Somewhere {
                    self.owed.push((life.update(newest), is_counted(progress, newest)));
                }
                return Err(stranger);
            }
        };
        let newest = progress.iter().map(|&(sequence, _)| sequence).max().unwrap_or(0);
        let mut explained = worker.reported.highest();
        for (_, id, sequence) in worker.own_sequences() {
            explained = explained.max(sequence);
            let reach = reach(progress, sequence);
            if let (Some(step), true) = (self.steps.get_mut(&id), reach != Reach::Nowhere) {
                step.pushed = Some((life.update(sequence), reach));
                step.counted = is_counted(progress, sequence);
            }
        }
        let cause = format!("{} was lost", life.task);
        for (at, (&turn, held)) in worker.held.iter().enumerate() {
            let cause = (at < RUNNING).then(|| cause.clone());
            self.requeue(Ticket { step: held.step, turn }, cause);
        }
        if newest > explained { Err(Remark::Unexplained(life, newest)) } else { Ok(()) }
    }

    /// A worker leaves: it has reported what it pushed and pushes nothing more. What it has not run comes back.
    ///
    /// # Errors
    /// When the life is not known.
    pub fn left(&mut self, life: Life) -> Result<(), Remark> {
        if self.workers.get(&life).is_some_and(|worker| worker.lost) {
            // What the servers say counts for more than what it says.
            return Ok(());
        }
        let Some(worker) = self.workers.remove(&life) else { return Err(self.stranger(life)) };
        self.over.insert(life);
        for (&turn, held) in &worker.held {
            self.requeue(Ticket { step: held.step, turn }, None);
        }
        Ok(())
    }
}

/// Whether the first server, which counts steps, has all of an update.
fn is_counted(progress: &[(u64, bool)], sequence: u64) -> bool {
    progress.first().is_some_and(|&(newest, whole)| newest > sequence || (newest == sequence && whole))
}

/// How far an update got.
fn reach(progress: &[(u64, bool)], sequence: u64) -> Reach {
    let whole = |&(newest, whole): &(u64, bool)| newest > sequence || (newest == sequence && whole);
    if progress.iter().all(|&(newest, _)| newest < sequence) {
        Reach::Nowhere
    } else if progress.iter().all(whole) {
        Reach::Everywhere
    } else {
        Reach::Somewhere
    }
}
