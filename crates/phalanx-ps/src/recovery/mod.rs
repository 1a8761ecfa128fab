//! The recovery of a parameter server that comes back empty into a running job: what to do next, what a reply means, and
//! what was lost.
//!
//! Pure: no IO and no clock. A driver (the chief's checkpoint manager, or a simulator) executes each [`Action`] and
//! returns what happened as an [`Event`]:
//!
//! ```text
//! Describe -> Announce -> Restore -> Survey -> Commit -> Finish
//!     | |                                                   ^
//!     | +--> Fence: it has lost nothing --------------------+
//!     ^                     |  ^
//!     |                     +--+ the checkpoint is damaged: the next older one
//!     +--- the server was restarted, or the driver waited after a failure that may pass
//! ```
//!
//! Everything from `Announce` to `Commit` names the server's incarnation, so that a server that dies again in the middle
//! refuses messages for its former incarnation, and its recovery begins again. Other servers are surveyed before the
//! recovered one is ready: until then every trainer waits for it, and the records do not move by more than one step.

mod lost_steps;

pub use lost_steps::{CountedTask, LostSteps};

use crate::TaskIncarnation;
use phalanx_base::{Code, Fault, Incarnation};
use std::collections::BTreeSet;

/// The updates of one incarnation of a task on one server, or in one server's part of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The task that pushed them.
    pub task: TaskIncarnation,
    /// The newest step of which a part was applied. A task pushes each step to every server, and the next one only when
    /// every server has answered.
    pub step: u64,
    /// Whether all parts of that step were applied.
    pub complete: bool,
    /// The record came from a checkpoint, and the task has not pushed since: it may have pushed more before.
    pub behind: bool,
    /// The task was fenced: its pushes are refused.
    pub fenced: bool,
}

/// The updates in the part of the model that a server holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// One record for each incarnation of a task that has pushed there.
    pub records: Vec<Record>,
    /// The server was restored into this job: a task without a record may have pushed to it before that.
    pub restored: bool,
    /// Synchronous mode: rounds below this one are closed, as far as the server knows.
    pub closed: u64,
    /// The committed steps, where this server counts them.
    pub global_step: Option<u64>,
}

/// What a recovery needs of one server's part of a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// The committed steps in the checkpoint.
    pub global_step: u64,
    /// The updates in this server's values. Empty where the checkpoint was written by other servers.
    pub records: Vec<Record>,
}

/// What a recovery knows before it begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The server that came back; server 0 counts the committed steps.
    pub server: usize,
    /// Whether training is synchronous: then a step is a round, and all servers are saved at the same one.
    pub rounds: bool,
    /// The most committed steps that the driver knows of; 0 for a restarted chief.
    pub seen: u64,
    /// The task incarnations in the job now: they push again what was not acknowledged.
    pub live: BTreeSet<TaskIncarnation>,
    /// The number of checkpoints to restore from.
    pub checkpoints: usize,
}

impl Known {
    /// Estimates what was lost, for a driver without a [`Recovery`] because no server has its part.
    #[must_use]
    pub fn lost_steps(&self, saved: &Saved, surveys: &[Survey]) -> LostSteps {
        LostSteps::estimate(self, saved, surveys)
    }
}

/// What the driver must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask the server for its incarnation, and whether it holds its part. Answer: [`Event::Described`].
    Describe,
    /// Tell this incarnation of the server, which has lost nothing, which tasks are fenced. Answer: [`Event::Fenced`].
    Fence(Incarnation),
    /// Create the model's shards and tables on this incarnation of the server. Answer: [`Event::Announced`].
    Announce(Incarnation),
    /// Drop whatever this incarnation of the server holds and restore its part of a checkpoint, counted from the newest.
    /// Answer: [`Event::Restored`].
    Restore(Incarnation, usize),
    /// Ask all other servers that hold their part. Answer: [`Event::Surveyed`].
    Survey,
    /// Tell this incarnation of the server which updates it has and which tasks are fenced, and declare it ready.
    /// Answer: [`Event::Committed`].
    Commit(Incarnation, LostSteps),
    /// Wait a moment. Answer: [`Event::Waited`].
    Wait,
    /// The recovery is over.
    Finish(RecoveryOutcome),
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The server answered.
    Described {
        /// The incarnation of the server that answered.
        incarnation: Incarnation,
        /// Whether it holds its part.
        ready: bool,
        /// Whether it has it from its own log: everything that it had acknowledged.
        replayed: bool,
    },
    /// The server refuses the fenced tasks.
    Fenced,
    /// The model's shards and tables exist.
    Announced,
    /// The server holds its part of the checkpoint and is not ready yet.
    Restored(Saved),
    /// The surveys of the other servers that answered.
    Surveyed(Vec<Survey>),
    /// The server is ready.
    Committed,
    /// The driver has waited.
    Waited,
    /// The action failed.
    Failed(Failure),
}

/// Why an action failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Another incarnation of the server answers.
    Restarted,
    /// The checkpoint cannot be used.
    Damaged,
    /// The failure may pass.
    Transient,
    /// The failure will not pass.
    Permanent,
}

impl Failure {
    /// Classifies an error.
    #[must_use]
    pub fn of(code: Code) -> Self {
        match code {
            Code::ServerRestarted => Self::Restarted,
            Code::CheckpointDamaged | Code::CheckpointMissing => Self::Damaged,
            _ if code.fault() == Fault::Infrastructure => Self::Transient,
            _ => Self::Permanent,
        }
    }
}

/// How a recovery ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoveryOutcome {
    /// The server held its part: nothing was done.
    Held,
    /// The server has everything that it had acknowledged before it was started again: nothing was lost.
    Whole,
    /// The server holds its part of a checkpoint, counted from the newest.
    Restored(usize, LostSteps),
    /// There is no checkpoint.
    NoCheckpoint,
    /// None of the checkpoints can be used.
    NoneUsable,
    /// An action failed for good.
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Describing,
    Fencing,
    Announcing(Incarnation),
    Restoring(Incarnation, usize),
    Surveying(Incarnation, usize, Saved),
    Committing(usize, LostSteps),
    Waiting,
    Over,
}

/// The recovery of one server.
#[derive(Clone, Debug)]
pub struct Recovery {
    known: Known,
    state: State,
}

impl Recovery {
    /// Creates a recovery; the first action is [`Action::Describe`].
    #[must_use]
    pub fn new(known: Known) -> Self {
        Self { known, state: State::Describing }
    }

    /// Begins, or begins again, and returns the first action.
    pub fn begin(&mut self) -> Action {
        self.state = State::Describing;
        Action::Describe
    }

    /// Returns the action after `event`. An event that does not answer the last action begins the recovery again.
    pub fn next(&mut self, event: Event) -> Action {
        let state = std::mem::replace(&mut self.state, State::Over);
        match (state, event) {
            (State::Describing, Event::Described { incarnation, ready: true, replayed: true }) => {
                self.state = State::Fencing;
                Action::Fence(incarnation)
            }
            (State::Fencing, Event::Fenced) => self.finish(RecoveryOutcome::Whole),
            (State::Describing, Event::Described { ready: true, .. }) => self.finish(RecoveryOutcome::Held),
            (State::Describing, Event::Described { incarnation, ready: false, .. }) => {
                self.state = State::Announcing(incarnation);
                Action::Announce(incarnation)
            }
            (State::Announcing(incarnation), Event::Announced) => self.restore(incarnation, 0),
            (State::Restoring(incarnation, checkpoint), Event::Restored(saved)) => {
                self.state = State::Surveying(incarnation, checkpoint, saved);
                Action::Survey
            }
            (State::Restoring(incarnation, checkpoint), Event::Failed(Failure::Damaged)) => {
                self.restore(incarnation, checkpoint + 1)
            }
            (State::Surveying(incarnation, checkpoint, saved), Event::Surveyed(surveys)) => {
                let loss = LostSteps::estimate(&self.known, &saved, &surveys);
                self.state = State::Committing(checkpoint, loss.clone());
                Action::Commit(incarnation, loss)
            }
            (State::Committing(checkpoint, loss), Event::Committed) => {
                self.finish(RecoveryOutcome::Restored(checkpoint, loss))
            }
            (_, Event::Failed(Failure::Transient)) => {
                self.state = State::Waiting;
                Action::Wait
            }
            (_, Event::Failed(Failure::Permanent | Failure::Damaged)) => self.finish(RecoveryOutcome::Failed),
            _ => self.begin(),
        }
    }

    fn restore(&mut self, incarnation: Incarnation, checkpoint: usize) -> Action {
        if checkpoint < self.known.checkpoints {
            self.state = State::Restoring(incarnation, checkpoint);
            return Action::Restore(incarnation, checkpoint);
        }
        self.finish(if checkpoint == 0 { RecoveryOutcome::NoCheckpoint } else { RecoveryOutcome::NoneUsable })
    }

    fn finish(&mut self, outcome: RecoveryOutcome) -> Action {
        self.state = State::Over;
        Action::Finish(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(checkpoints: usize) -> Known {
        Known { server: 1, checkpoints, ..Known::default() }
    }

    fn described(incarnation: u64) -> Event {
        Event::Described { incarnation: Incarnation(incarnation), ready: false, replayed: false }
    }

    #[test]
    fn a_server_that_lost_nothing_is_told_who_is_fenced_and_nothing_else() {
        let mut recovery = Recovery::new(known(2));
        recovery.begin();
        let whole = Event::Described { incarnation: Incarnation(4), ready: true, replayed: true };
        assert_eq!(recovery.next(whole.clone()), Action::Fence(Incarnation(4)));
        assert_eq!(recovery.next(Event::Failed(Failure::Restarted)), Action::Describe);
        assert_eq!(recovery.next(whole), Action::Fence(Incarnation(4)));
        assert_eq!(recovery.next(Event::Fenced), Action::Finish(RecoveryOutcome::Whole));
    }

    #[test]
    fn a_server_that_dies_again_in_any_phase_begins_again_under_its_new_incarnation() {
        let events = [described(1), Event::Announced, Event::Restored(Saved::default()), Event::Surveyed(Vec::new())];
        for died_after in 1..=events.len() {
            let mut recovery = Recovery::new(known(2));
            recovery.begin();
            events[..died_after].iter().for_each(|event| drop(recovery.next(event.clone())));
            assert_eq!(recovery.next(Event::Failed(Failure::Restarted)), Action::Describe, "after {died_after}");
            assert_eq!(recovery.next(described(2)), Action::Announce(Incarnation(2)));
            assert_eq!(recovery.next(Event::Announced), Action::Restore(Incarnation(2), 0), "the newest one again");
            assert_eq!(recovery.next(Event::Restored(Saved::default())), Action::Survey);
            let commit = recovery.next(Event::Surveyed(Vec::new()));
            assert!(matches!(commit, Action::Commit(Incarnation(2), _)), "{commit:?}");
            assert!(matches!(recovery.next(Event::Committed), Action::Finish(RecoveryOutcome::Restored(0, _))));
        }
    }

    #[test]
    fn a_damaged_checkpoint_is_passed_over_and_without_one_the_recovery_ends() {
        let mut recovery = Recovery::new(known(2));
        recovery.begin();
        recovery.next(described(1));
        assert_eq!(recovery.next(Event::Announced), Action::Restore(Incarnation(1), 0));
        let damaged = Event::Failed(Failure::Damaged);
        assert_eq!(recovery.next(damaged.clone()), Action::Restore(Incarnation(1), 1));
        assert_eq!(recovery.next(damaged), Action::Finish(RecoveryOutcome::NoneUsable));
        let mut recovery = Recovery::new(known(0));
        recovery.begin();
        recovery.next(described(1));
        assert_eq!(recovery.next(Event::Announced), Action::Finish(RecoveryOutcome::NoCheckpoint));
    }

    #[test]
    fn a_failure_that_may_pass_is_waited_out_and_one_that_will_not_ends_it() {
        let mut recovery = Recovery::new(known(1));
        recovery.begin();
        recovery.next(described(1));
        assert_eq!(recovery.next(Event::Failed(Failure::Transient)), Action::Wait);
        assert_eq!(recovery.next(Event::Waited), Action::Describe);
        assert_eq!(recovery.next(Event::Described { incarnation: Incarnation(1), ready: true, replayed: false }), {
            Action::Finish(RecoveryOutcome::Held)
        });
        let mut recovery = Recovery::new(known(1));
        recovery.begin();
        recovery.next(described(1));
        assert_eq!(recovery.next(Event::Failed(Failure::Permanent)), Action::Finish(RecoveryOutcome::Failed));
    }

    #[test]
    fn a_variable_that_a_server_does_not_know_is_no_damage_of_the_checkpoint() {
        assert_eq!(Failure::of(Code::NoSuchVariable), Failure::Permanent);
        assert_eq!(Failure::of(Code::ServerRestarted), Failure::Restarted);
        assert_eq!(Failure::of(Code::PeerUnreachable), Failure::Transient);
        assert_eq!(Failure::of(Code::CheckpointMissing), Failure::Damaged);
    }
}
