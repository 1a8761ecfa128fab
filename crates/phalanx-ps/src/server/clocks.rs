//! Bounded staleness: how many steps each trainer has made. Pure; the service around it waits.
//!
//! A trainer waits while it is too far ahead of the slowest one. The slowest one never waits, so some trainer can always
//! continue. Those that left or were fenced do not count.

use super::TaskIncarnation;
use crate::proto;
use phalanx_base::Result;
use phalanx_wire::{task_from_wire, task_to_wire};
use std::collections::BTreeMap;

/// The clocks of the trainers that take part.
#[derive(Debug, Default)]
pub struct Clocks(BTreeMap<TaskIncarnation, u64>);

impl Clocks {
    /// Adds a trainer with the clock of the slowest one, so that nobody waits for it to catch up. Returns that clock.
    pub fn join(&mut self, trainer: TaskIncarnation) -> u64 {
        self.0.remove(&trainer);
        let clock = self.slowest();
        self.0.insert(trainer, clock);
        clock
    }

    /// Removes a trainer, for whatever reason.
    pub fn leave(&mut self, trainer: TaskIncarnation) {
        self.0.remove(&trainer);
    }

    /// Sets a trainer's clock, which never goes back. A restored server has forgotten the trainer and adds it.
    pub fn advance(&mut self, trainer: TaskIncarnation, clock: u64) {
        let known = self.0.entry(trainer).or_default();
        *known = clock.max(*known);
    }

    /// Returns the slowest clock if the trainer may continue, that is, if it is at most `most_ahead` steps beyond it.
    #[must_use]
    pub fn poll(&self, trainer: TaskIncarnation, most_ahead: u64) -> Option<u64> {
        let (own, slowest) = (self.0.get(&trainer).copied().unwrap_or(0), self.slowest());
        (own <= slowest.saturating_add(most_ahead)).then_some(slowest)
    }

    /// Returns every trainer's clock.
    pub(crate) fn state(&self) -> Vec<proto::Clock> {
        let clock = |(&(task, incarnation), &clock): (&TaskIncarnation, &u64)| {
            let task = Some(task_to_wire(task, incarnation));
            proto::Clock { task, clock }
        };
        self.0.iter().map(clock).collect()
    }

    /// Continues from [`Self::state`].
    pub(crate) fn resume(state: Vec<proto::Clock>) -> Result<Self> {
        let clock = |clock: proto::Clock| Ok((task_from_wire(clock.task.as_ref())?, clock.clock));
        state.into_iter().map(clock).collect::<Result<_>>().map(Self)
    }

    /// Returns the trainers that take part.
    pub fn members(&self) -> impl Iterator<Item = TaskIncarnation> {
        self.0.keys().copied()
    }

    fn slowest(&self) -> u64 {
        self.0.values().copied().min().unwrap_or(0)
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

    #[test]
    fn a_trainer_waits_for_the_slowest_and_not_for_one_that_left() {
        let mut clocks = Clocks::default();
        assert_eq!((clocks.join(worker(0)), clocks.join(worker(1))), (0, 0));
        clocks.advance(worker(0), 2);
        assert_eq!(clocks.poll(worker(0), 2), Some(0));
        clocks.advance(worker(0), 3);
        assert_eq!((clocks.poll(worker(0), 2), clocks.poll(worker(1), 2)), (None, Some(0)));
        clocks.advance(worker(1), 1);
        assert_eq!(clocks.poll(worker(0), 2), Some(1));
        clocks.advance(worker(0), 9);
        clocks.leave(worker(1));
        assert_eq!(clocks.poll(worker(0), 2), Some(9));
    }

    #[test]
    fn a_trainer_that_comes_later_begins_with_the_slowest() {
        let mut clocks = Clocks::default();
        clocks.join(worker(0));
        clocks.advance(worker(0), 40);
        assert_eq!((clocks.join(worker(1)), clocks.poll(worker(0), 0)), (40, Some(40)));
        clocks.advance(worker(1), 5);
        assert_eq!(clocks.poll(worker(0), 0), Some(40), "a clock never goes back");
        clocks.advance(worker(2), u64::MAX);
        assert_eq!(clocks.poll(worker(2), u64::MAX), Some(40), "no overflow");
    }

    proptest! {
        /// Whatever trainers do, the slowest one can continue, and nobody is further ahead than allowed after it continued.
        #[test]
        fn somebody_can_always_continue(most in 0_u64..4, acts in proptest::collection::vec((0_u32..4, 0_u8..8), 1..300)) {
            let (mut clocks, mut own) = (Clocks::default(), [0_u64; 4]);
            for (i, act) in acts {
                let (who, at) = (worker(i), i as usize);
                match act {
                    0 => clocks.leave(who),
                    1 => own[at] = clocks.join(who),
                    _ if clocks.0.contains_key(&who) && clocks.poll(who, most).is_some() => {
                        own[at] += 1;
                        clocks.advance(who, own[at]);
                    }
                    _ => {}
                }
                let free = clocks.members().any(|who| clocks.poll(who, most).is_some());
                prop_assert!(free || clocks.0.is_empty());
                let ahead = clocks.0.values().max().unwrap_or(&0) - clocks.slowest();
                prop_assert!(ahead <= most + 1, "{ahead}");
            }
        }
    }
}
