//! The steps that were lost with a server, counted for each task incarnation from what the other servers have.

use super::{Known, Record, Saved, Survey};
use crate::TaskIncarnation;
use std::collections::{BTreeMap, BTreeSet};

/// The steps that were lost with a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostSteps {
    /// The committed steps in the checkpoint that the server was restored from.
    pub saved: u64,
    /// At least this many steps after the checkpoint are lost on this server.
    pub at_least: u64,
    /// At most this many; `None` where the progress of some task is unknown.
    pub at_most: Option<u64>,
    /// The tasks whose progress is unknown.
    pub unknown: Vec<TaskIncarnation>,
    /// What the restored server must know of each task's updates. Empty in synchronous mode.
    pub counted: Vec<CountedTask>,
    /// The tasks that other servers have fenced: the restored server must fence them too. A restarted chief does not know
    /// them.
    pub fenced: Vec<TaskIncarnation>,
    /// The count of committed steps at which server 0 continues. Not below what a live task has seen, as far as known.
    pub global_step: u64,
}

/// One task's updates, for the server that is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedTask {
    /// The updates in the restored values.
    pub record: Record,
    /// Steps up to this one are in [`LostSteps::global_step`]: pushed again, they are not counted again. `None`: the task's
    /// progress is unknown, and its next step counts as one.
    pub up_to: Option<u64>,
}

/// A task's progress, as other servers know it.
#[derive(Clone, Copy, Debug, Default)]
struct Reached {
    /// The bounds according to servers that cannot have forgotten anything.
    lowest: Option<u64>,
    highest: Option<u64>,
    /// The newest step according to servers that may have.
    remembered: u64,
}

impl Reached {
    fn of(task: TaskIncarnation, surveys: &[Survey]) -> Self {
        let mut reached = Self::default();
        for survey in surveys {
            let found = survey.records.iter().find(|record| record.task == task);
            let step = match found {
                Some(record) if record.behind => {
                    reached.remembered = reached.remembered.max(record.step);
                    continue;
                }
                Some(record) => record.step,
                None if survey.restored => continue,
                None => 0,
            };
            reached.lowest = Some(reached.lowest.map_or(step, |known| known.min(step)));
            reached.highest = Some(reached.highest.map_or(step, |known| known.max(step)));
        }
        reached
    }
}

impl LostSteps {
    /// Estimates what was lost. A task pushes a step to all servers at once, and the next one only when all have answered.
    /// So a server that died had at most one step more of a task than any other server has.
    pub(super) fn estimate(known: &Known, saved: &Saved, surveys: &[Survey]) -> Self {
        let estimate = if known.rounds { Self::of_rounds } else { Self::of_updates };
        let records = surveys.iter().flat_map(|survey| &survey.records);
        let fenced: BTreeSet<TaskIncarnation> =
            records.filter(|record| record.fenced).map(|record| record.task).collect();
        Self { fenced: fenced.into_iter().collect(), ..estimate(known, saved, surveys) }
    }

    fn of_updates(known: &Known, saved: &Saved, surveys: &[Survey]) -> Self {
        let mut tasks: BTreeMap<TaskIncarnation, Record> = BTreeMap::new();
        for record in surveys.iter().flat_map(|survey| &survey.records) {
            let nothing = Record { step: 0, complete: true, behind: true, ..*record };
            tasks.insert(record.task, nothing);
        }
        tasks.extend(saved.records.iter().map(|record| (record.task, *record)));
        let mut lost = Self { saved: saved.global_step, global_step: saved.global_step, ..Self::default() };
        let mut at_most = 0;
        for (&task, record) in &tasks {
            let reached = Reached::of(task, surveys);
            // A step that is partly in the checkpoint is lost if the task does not push it again.
            let has = record.step.saturating_sub(u64::from(!record.complete));
            let live = known.live.contains(&task);
            let up_to = match (reached.lowest, reached.highest) {
                (Some(lowest), Some(highest)) => {
                    // One step may have been in flight. A live task pushes it again only if this server had not
                    // acknowledged it. A fenced task had none in flight, unless the others disagree.
                    let settled = record.fenced && record.complete && highest <= record.step;
                    let in_flight = u64::from(!settled);
                    at_most += (lowest + in_flight).saturating_sub(has);
                    lost.at_least += highest.saturating_sub(1).saturating_sub(has);
                    // The step that a live task pushes again may have been counted and seen before.
                    let up_to = (highest + u64::from(live)).max(has);
                    lost.global_step += up_to - has;
                    Some(up_to)
                }
                _ => {
                    lost.unknown.push(task);
                    lost.at_least += reached.remembered.saturating_sub(1).saturating_sub(has);
                    None
                }
            };
            lost.counted.push(CountedTask { record: *record, up_to });
        }
        // Without another server that has forgotten nothing, not even the tasks that pushed are known.
        let witnessed = surveys.iter().any(|survey| !survey.restored);
        lost.at_most = (lost.unknown.is_empty() && witnessed).then_some(at_most);
        if lost.global_step < known.seen {
            // What was seen includes the steps of tasks that no other server knows.
            lost.global_step = known.seen;
        } else {
            for counted in lost.counted.iter_mut().filter(|counted| counted.up_to.is_none()) {
                counted.up_to = Some(counted.record.step);
            }
        }
        lost
    }

    /// In synchronous mode a step is a round, and every server is saved at the same one.
    fn of_rounds(known: &Known, saved: &Saved, surveys: &[Survey]) -> Self {
        // A restored server knows the closed rounds again as soon as a task has pushed to it.
        let fresh = |survey: &&Survey| !survey.restored || survey.records.iter().any(|record| !record.behind);
        let counted = surveys.iter().filter(fresh).filter_map(|survey| survey.global_step).max();
        let closed = surveys.iter().filter(fresh).map(|survey| survey.closed).max();
        // The newest round may have been closed without a pull since.
        let most = counted.or(closed.map(|closed| closed + 1)).map(|most| most.max(known.seen));
        let least = closed.unwrap_or(0).max(known.seen);
        Self {
            saved: saved.global_step,
            at_least: least.saturating_sub(saved.global_step),
            at_most: most.map(|most| most.saturating_sub(saved.global_step)),
            unknown: Vec::new(),
            counted: saved.records.iter().map(|&record| CountedTask { record, up_to: None }).collect(),
            fenced: Vec::new(),
            global_step: saved.global_step.max(least),
        }
    }
}

impl std::fmt::Display for LostSteps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.at_most {
            Some(steps) => write!(f, "at most {steps} steps"),
            None => write!(f, "an unknown number of steps, at least {}", self.at_least),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_base::{Incarnation, Role, TaskId};
    use proptest::prelude::*;

    fn task(index: u32) -> TaskIncarnation {
        (TaskId::new(Role::Worker, index), Incarnation(7))
    }

    fn record(index: u32, step: u64) -> Record {
        Record { task: task(index), step, complete: true, behind: false, fenced: false }
    }

    fn survey(records: &[Record]) -> Survey {
        Survey { records: records.to_vec(), ..Survey::default() }
    }

    #[test]
    fn what_the_other_servers_have_and_the_checkpoint_lacks_is_lost_whatever_the_chief_has_seen() {
        let known = Known { live: [task(0), task(1)].into(), ..Known::default() };
        let saved = Saved { global_step: 20, records: vec![record(0, 12), record(1, 8)] };
        let loss = LostSteps::estimate(&known, &saved, &[survey(&[record(0, 400), record(1, 388), record(2, 5)])]);
        // Of each, one step more may have been under way.
        assert_eq!(loss.at_most, Some(389 + 381 + 6));
        assert_eq!(loss.global_step, 20 + 389 + 381 + 5);
        assert!(loss.at_least <= 388 + 380 + 5 && loss.at_least >= 387 + 379 + 4);
    }

    #[test]
    fn a_step_that_the_lost_server_acknowledged_before_another_had_it_is_lost() {
        let known = Known { live: [task(0)].into(), ..Known::default() };
        let saved = Saved { global_step: 3, records: vec![record(0, 3)] };
        // The lost server had acknowledged step 5. The task waits for the slow one and does not push step 5 here again.
        let (quick, slow) = (survey(&[record(0, 5)]), survey(&[record(0, 4)]));
        assert_eq!(LostSteps::estimate(&known, &saved, &[quick, slow]).at_most, Some(2));
        let done = Record { fenced: true, ..record(0, 3) };
        let saved = Saved { global_step: 3, records: vec![done] };
        assert_eq!(LostSteps::estimate(&known, &saved, &[survey(&[done])]).at_most, Some(0), "it was shut out before");
    }

    #[test]
    fn servers_that_were_restored_themselves_do_not_know_who_pushed() {
        let forgetful = Survey { restored: true, ..Survey::default() };
        assert_eq!(LostSteps::estimate(&Known::default(), &Saved::default(), &[forgetful]).at_most, None);
    }

    #[test]
    fn tasks_that_the_others_have_fenced_are_fenced_here_too() {
        let (here, gone) = (record(0, 4), Record { fenced: true, ..record(1, 7) });
        for rounds in [false, true] {
            let known = Known { rounds, ..Known::default() };
            let surveys = [survey(&[here]), survey(&[here, gone])];
            assert_eq!(LostSteps::estimate(&known, &Saved::default(), &surveys).fenced, [task(1)]);
        }
    }

    #[test]
    fn where_nobody_else_knows_no_bound_is_given() {
        let known = Known { seen: 50, ..Known::default() };
        let saved = Saved { global_step: 20, records: vec![record(0, 20)] };
        let alone = LostSteps::estimate(&known, &saved, &[]);
        assert_eq!((alone.at_most, alone.global_step), (None, 50));
        assert_eq!(alone.counted[0].up_to, None, "its steps are in what was seen");
        let forgetful = Survey { restored: true, ..survey(&[Record { behind: true, ..record(0, 30) }]) };
        let loss = LostSteps::estimate(&Known { seen: 0, ..known }, &saved, &[forgetful]);
        assert_eq!((loss.at_most, loss.at_least, loss.unknown), (None, 9, vec![task(0)]));
        assert_eq!(loss.counted[0].up_to, Some(20), "its steps are counted when it pushes again");
    }

    #[test]
    fn rounds_are_counted_by_the_server_that_counts_or_by_what_others_heard() {
        let saved = Saved { global_step: 10, records: Vec::new() };
        let known = Known { server: 1, rounds: true, ..Known::default() };
        let counts = Survey { closed: 40, global_step: Some(41), ..Survey::default() };
        assert_eq!(LostSteps::estimate(&known, &saved, &[counts]).at_most, Some(31));
        let heard = Survey { closed: 40, ..Survey::default() };
        let loss = LostSteps::estimate(&Known { server: 0, ..known }, &saved, &[heard]);
        assert_eq!((loss.at_most, loss.at_least, loss.global_step), (Some(31), 30, 40));
    }

    proptest! {
        /// Tasks push to three servers in any order. Server 0 is saved at one moment and dies at another, and some tasks
        /// die with it. What live tasks push again is not lost; all else that server 0 had is.
        #[test]
        fn the_estimate_is_a_bound(
            pushes in proptest::collection::vec((0_usize..4, 0_usize..3), 1..300),
            saved_at in 0_usize..300,
            dead in proptest::collection::vec(any::<bool>(), 4),
            after in proptest::collection::vec((0_usize..4, 1_usize..3), 0..40),
        ) {
            let mut on = [[0_u64; 3]; 4];
            let push = |on: &mut [[u64; 3]; 4], task: usize, server: usize| {
                let step = on[task].iter().min().unwrap() + 1;
                on[task][server] = on[task][server].max(step);
            };
            let mut saved = Saved::default();
            for (at, &(task, server)) in pushes.iter().enumerate() {
                if at == saved_at {
                    saved.records = (0..4).map(|task| record(task, on[task as usize][0])).collect();
                    saved.global_step = saved.records.iter().map(|record| record.step).sum();
                }
                push(&mut on, task, server);
            }
            let before = on;
            // The others continue as far as they can without server 0: they complete what was in flight.
            for &(task, server) in &after {
                if !dead[task] && on[task][server] == on[task][0].min(on[task][3 - server]) {
                    push(&mut on, task, server);
                }
            }
            let known = Known { live: (0..4).filter(|&i| !dead[i as usize]).map(self::task).collect(), ..Known::default() };
            let of = |server: usize| survey(&(0..4).map(|task| record(task, on[task as usize][server])).collect::<Vec<_>>());
            let loss = LostSteps::estimate(&known, &saved, &[of(1), of(2)]);
            let mut lost = 0;
            for task in 0..4 {
                let has = saved.records.get(task).map_or(0, |record| record.step);
                let had = before[task][0];
                let acknowledged = *before[task].iter().min().unwrap();
                lost += if dead[task] { had - has } else { had.min(acknowledged).saturating_sub(has) };
            }
            prop_assert!(loss.at_most.unwrap() >= lost, "{loss:?}, really {lost}");
            prop_assert!(loss.at_most.unwrap() <= lost + 8, "{loss:?}, really {lost}");
            prop_assert!(loss.at_least <= lost + 4, "{loss:?}, really {lost}");
            let seen: u64 = before.iter().map(|task| task[0]).sum();
            prop_assert!(loss.global_step + dead.iter().filter(|&&dead| dead).count() as u64 >= seen);
        }
    }
}
