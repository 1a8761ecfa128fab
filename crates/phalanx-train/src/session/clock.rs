//! The global step, as a trainer knows it.

/// Counts the updates of the model.
///
/// The *global step* is the number of updates that all trainers have sent since the model was created: a step is one
/// update, and so is a synchronous round. Gradients that wait for the next exchange are not counted yet. A checkpoint
/// has the global step of its values, and a restored job continues to count from there.
pub(super) struct StepClock {
    pub(super) global_step: u64,
    /// The global step of the present values.
    pub(super) base_version: u64,
    /// The global step at which training ends.
    pub(super) last_step: Option<u64>,
}

impl StepClock {
    pub(super) fn at(global_step: u64) -> Self {
        Self { global_step, base_version: global_step, last_step: None }
    }

    /// Notes that training has come this far.
    pub(super) fn reached(&mut self, global_step: u64) {
        self.global_step = self.global_step.max(global_step);
    }

    /// Begins a step on values of global step `base_version`, while this many of the trainer's own updates are in flight.
    /// Returns how many updates of others came in between.
    pub(super) fn begin_step(&mut self, base_version: u64, in_flight: u64) -> u64 {
        let reached = base_version + in_flight;
        let lag = reached.saturating_sub(self.global_step + 1);
        self.reached(reached);
        self.base_version = base_version;
        lag
    }

    pub(super) fn is_over(&self) -> bool {
        self.last_step.is_some_and(|last| self.global_step >= last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_counts_when_it_is_sent_and_never_backwards() {
        let mut clock = StepClock::at(5);
        assert_eq!(clock.begin_step(6, 0), 0, "the trainer's own");
        assert_eq!(clock.begin_step(9, 0), 2, "its own, and two of others");
        assert_eq!((clock.global_step, clock.base_version), (9, 9));
        assert_eq!(clock.begin_step(9, 1), 0);
        assert_eq!((clock.global_step, clock.base_version), (10, 9), "one is in flight");
        clock.reached(7);
        assert_eq!(clock.global_step, 10);
        assert!(!clock.is_over());
        clock.last_step = Some(10);
        assert!(clock.is_over());
    }
}
