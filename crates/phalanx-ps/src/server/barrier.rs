//! Synchronous mode: when a round of gradients is complete. Pure; the service around it waits.
//!
//! The semantics of `SyncReplicasOptimizer` without its deadlocks. A round closes when `replicas_to_aggregate` gradients
//! have reached every server. A worker whose gradient has arrived waits for that. It is released early, to contribute once
//! more to the same round, whenever the workers still computing could not complete the round without it: so nobody waits
//! for a worker that died, has no input left, or has not joined yet, and fewer workers than `replicas_to_aggregate` each
//! compute several batches for a round.

use super::TaskIncarnation;
use crate::proto;
use phalanx_base::Result;
use phalanx_wire::{task_from_wire, task_to_wire};
use std::collections::BTreeMap;

/// What a worker does after arriving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Compute for this round.
    Go(u64),
    /// The round is not complete yet.
    Wait,
}

#[derive(Clone, Copy, Debug, Default)]
struct Member {
    waiting: bool,
    /// The newest step that arrived: a repeat counts once.
    step: u64,
}

/// The rounds of one job.
#[derive(Debug, Default)]
pub struct Barrier {
    to_aggregate: u32,
    round: u64,
    arrived: u32,
    members: BTreeMap<TaskIncarnation, Member>,
    stale: u64,
    /// The hold that keeps a complete round open, if any.
    held: Option<Hold>,
    /// How many holds there were.
    holds: u64,
}

/// One hold of the open round. To end it by its number ends no later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold(u64);

impl Barrier {
    /// Adds a worker and returns the round to compute for.
    pub fn join(&mut self, worker: TaskIncarnation, to_aggregate: u32, global_step: u64) -> u64 {
        self.to_aggregate = to_aggregate.max(1);
        self.round = self.round.max(global_step);
        self.members.entry(worker).or_default();
        self.round
    }

    /// Removes a worker, for whatever reason.
    pub fn leave(&mut self, worker: TaskIncarnation) {
        self.members.remove(&worker);
        self.release_if_needed();
    }

    /// Records that the gradient of the worker's `step`, computed for `round`, is on every server.
    pub fn arrive(&mut self, worker: TaskIncarnation, step: u64, round: u64) -> Arrival {
        if round > self.round {
            // A restored server has forgotten rounds; a worker that computed for this one knows that they are closed.
            (self.round, self.arrived) = (round, 0);
        }
        let member = self.members.entry(worker).or_default();
        if step <= member.step {
            return self.poll(worker);
        }
        member.step = step;
        if round < self.round {
            // Too late: the servers dropped it.
            member.waiting = false;
            self.stale += 1;
            return Arrival::Go(self.round);
        }
        member.waiting = true;
        self.arrived += 1;
        self.close_if_complete();
        self.poll(worker)
    }

    /// Keeps the open round from closing until the hold is ended. A hold replaces an earlier one.
    pub fn hold(&mut self) -> Hold {
        self.holds += 1;
        let hold = Hold(self.holds);
        self.held = Some(hold);
        hold
    }

    /// Ends `hold`, or with `None` the current one, and lets the round close. Returns whether a hold was ended: one that was
    /// replaced is not.
    pub fn end_hold(&mut self, hold: Option<Hold>) -> bool {
        let ends = self.held.is_some_and(|held| hold.is_none_or(|hold| hold == held));
        if ends {
            self.held = None;
            self.close_if_complete();
        }
        ends
    }

    /// Closes `round`, which is complete. Returns the round that is then open, or `None` while rounds are held.
    pub fn close(&mut self, round: u64) -> Option<u64> {
        // Checked: the number came from outside, and the last one there is has no next.
        if let Some(next) = round.checked_add(1)
            && self.round <= round
            && self.held.is_none()
        {
            (self.round, self.arrived) = (next, 0);
        }
        (self.round > round).then_some(self.round)
    }

    fn close_if_complete(&mut self) {
        if self.to_aggregate == 0 || self.arrived < self.to_aggregate {
            self.release_if_needed();
        } else if self.held.is_none() {
            // Saturating: `arrive` may have set it to any number from outside.
            self.round = self.round.saturating_add(1);
            self.arrived = 0;
            self.members.values_mut().for_each(|member| member.waiting = false);
        }
    }

    /// Sets the number of gradients of a round on a restored server, which has forgotten it.
    pub fn restore_quorum(&mut self, to_aggregate: u32) {
        if self.to_aggregate == 0 {
            self.to_aggregate = to_aggregate;
        }
    }

    /// Whether the worker may continue.
    #[must_use]
    pub fn poll(&self, worker: TaskIncarnation) -> Arrival {
        match self.members.get(&worker) {
            Some(member) if member.waiting => Arrival::Wait,
            _ => Arrival::Go(self.round),
        }
    }

    /// Returns everything but the hold, whose timer dies with its process.
    pub(crate) fn state(&self) -> proto::Rounds {
        let member = |(&(task, incarnation), member): (&TaskIncarnation, &Member)| proto::Member {
            task: Some(task_to_wire(task, incarnation)),
            waiting: member.waiting,
            step: member.step,
        };
        let members = self.members.iter().map(member).collect();
        let &Self { to_aggregate, round, arrived, stale, .. } = self;
        proto::Rounds { to_aggregate, round, arrived, members, stale }
    }

    /// Continues from [`Self::state`]. A round that was held open is closed.
    pub(crate) fn resume(state: proto::Rounds) -> Result<Self> {
        let member = |member: proto::Member| {
            let proto::Member { task, waiting, step } = member;
            Ok((task_from_wire(task.as_ref())?, Member { waiting, step }))
        };
        let members = state.members.into_iter().map(member).collect::<Result<_>>()?;
        let proto::Rounds { to_aggregate, round, arrived, stale, .. } = state;
        let mut barrier = Self { to_aggregate, round, arrived, members, stale, ..Self::default() };
        barrier.close_if_complete();
        Ok(barrier)
    }

    /// Returns the trainers that take part.
    pub fn members(&self) -> impl Iterator<Item = TaskIncarnation> {
        self.members.keys().copied()
    }

    /// Returns the open round, which is also the number of closed rounds.
    #[must_use]
    pub fn round(&self) -> u64 {
        self.round
    }

    /// Returns the number of gradients that came too late.
    #[must_use]
    pub fn stale(&self) -> u64 {
        self.stale
    }

    fn release_if_needed(&mut self) {
        let computing = self.members.values().filter(|member| !member.waiting).count() as u32;
        let missing = self.to_aggregate.saturating_sub(self.arrived + computing);
        for member in self.members.values_mut().filter(|member| member.waiting).take(missing as usize) {
            member.waiting = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_base::{Incarnation, Role, TaskId};
    use proptest::prelude::*;

    fn worker(index: u32) -> TaskIncarnation {
        (TaskId::new(Role::Worker, index), Incarnation(1))
    }

    fn joined(workers: u32, to_aggregate: u32) -> Barrier {
        let mut barrier = Barrier::default();
        (0..workers).for_each(|i| assert_eq!(barrier.join(worker(i), to_aggregate, 0), 0));
        barrier
    }

    #[test]
    fn a_round_closes_when_all_have_arrived_and_lets_everybody_go() {
        let mut barrier = joined(2, 2);
        assert_eq!(barrier.arrive(worker(0), 1, 0), Arrival::Wait);
        assert_eq!(barrier.arrive(worker(0), 1, 0), Arrival::Wait, "a repeat counts once");
        assert_eq!(barrier.arrive(worker(1), 1, 0), Arrival::Go(1));
        assert_eq!(barrier.poll(worker(0)), Arrival::Go(1));
    }

    #[test]
    fn a_backup_workers_late_gradient_is_stale_and_counted() {
        let mut barrier = joined(3, 2);
        barrier.arrive(worker(0), 1, 0);
        assert_eq!(barrier.arrive(worker(1), 1, 0), Arrival::Go(1));
        assert_eq!(barrier.arrive(worker(2), 1, 0), Arrival::Go(1));
        assert_eq!((barrier.stale(), barrier.round()), (1, 1));
    }

    #[test]
    fn a_round_that_is_held_closes_when_it_is_let_go() {
        let mut barrier = joined(2, 2);
        barrier.hold();
        barrier.arrive(worker(0), 1, 0);
        assert_eq!(barrier.arrive(worker(1), 1, 0), Arrival::Wait, "complete and held");
        assert_eq!((barrier.round(), barrier.end_hold(None), barrier.round()), (0, true, 1));
        assert_eq!((barrier.poll(worker(0)), barrier.poll(worker(1))), (Arrival::Go(1), Arrival::Go(1)));
    }

    #[test]
    fn the_end_of_an_earlier_hold_does_not_end_a_later_one() {
        let mut barrier = joined(1, 1);
        let first = barrier.hold();
        assert!(barrier.end_hold(None));
        let second = barrier.hold();
        assert_eq!(barrier.arrive(worker(0), 1, 0), Arrival::Wait, "complete and held");
        assert!(!barrier.end_hold(Some(first)));
        assert_eq!(barrier.poll(worker(0)), Arrival::Wait, "still held");
        let third = barrier.hold();
        assert!(!barrier.end_hold(Some(second)), "the third hold replaced it");
        assert!(barrier.end_hold(Some(third)) && !barrier.end_hold(Some(third)) && !barrier.end_hold(None));
        assert_eq!(barrier.poll(worker(0)), Arrival::Go(1));
    }

    #[test]
    fn rounds_at_the_end_of_numbers_do_not_overflow() {
        let mut barrier = joined(1, 1);
        assert_eq!((barrier.close(u64::MAX), barrier.round()), (None, 0), "there is no later round");
        assert_eq!(barrier.arrive(worker(0), 1, u64::MAX), Arrival::Go(u64::MAX));
        assert_eq!(barrier.round(), u64::MAX);
    }

    #[test]
    fn a_coordinator_closes_rounds_unless_they_are_held() {
        let mut barrier = Barrier::default();
        barrier.hold();
        assert_eq!(barrier.close(0), None);
        barrier.end_hold(None);
        assert_eq!((barrier.close(0), barrier.close(0), barrier.close(4)), (Some(1), Some(1), Some(5)));
    }

    #[test]
    fn a_restored_barrier_continues_with_the_round_that_workers_know() {
        let mut barrier = Barrier::default();
        barrier.restore_quorum(2);
        assert_eq!(barrier.arrive(worker(0), 8, 7), Arrival::Go(7), "nobody else is known yet");
        barrier.join(worker(1), 2, 0);
        assert_eq!(barrier.arrive(worker(1), 5, 7), Arrival::Go(8));
    }

    #[test]
    fn fewer_workers_than_gradients_do_several_batches_a_round() {
        let mut barrier = joined(1, 3);
        assert_eq!(barrier.arrive(worker(0), 1, 0), Arrival::Go(0));
        assert_eq!(barrier.arrive(worker(0), 2, 0), Arrival::Go(0));
        assert_eq!(barrier.arrive(worker(0), 3, 0), Arrival::Go(1));
    }

    #[test]
    fn nobody_waits_for_a_worker_that_left() {
        let mut barrier = joined(2, 2);
        assert_eq!(barrier.arrive(worker(0), 1, 0), Arrival::Wait);
        barrier.leave(worker(1));
        assert_eq!(barrier.poll(worker(0)), Arrival::Go(0), "it contributes once more");
        assert_eq!(barrier.arrive(worker(0), 2, 0), Arrival::Go(1));
    }

    proptest! {
        /// Whatever workers do, some member can continue: no deadlock.
        #[test]
        fn some_member_can_always_continue(
            to_aggregate in 1_u32..6,
            acts in proptest::collection::vec((0_u32..5, 0_u8..8), 1..300),
        ) {
            let mut barrier = joined(5, to_aggregate);
            let mut steps = [0_u64; 5];
            let mut rounds = [0_u64; 5];
            for (i, act) in acts {
                let who = worker(i);
                match act {
                    0 => barrier.leave(who),
                    1 => { rounds[i as usize] = barrier.join(who, to_aggregate, 0); }
                    _ if barrier.members.contains_key(&who) => if let Arrival::Go(round) = barrier.poll(who) {
                        // A slow worker may still be computing for an older round.
                        let round = if act == 2 { rounds[i as usize] } else { round };
                        steps[i as usize] += 1;
                        if let Arrival::Go(next) = barrier.arrive(who, steps[i as usize], round) {
                            rounds[i as usize] = next;
                        }
                    },
                    _ => {}
                }
                let free = barrier.members.values().any(|member| !member.waiting);
                prop_assert!(free || barrier.members.is_empty());
                prop_assert!(barrier.arrived < to_aggregate);
            }
        }
    }
}
