//! The failure state of a group: the progress of each member, and how the group failed.
//!
//! The first failure is the error of every later call.

use crate::call::Call;
use phalanx_base::{Code, Error};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The name of a member in messages.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub(crate) task: String,
    pub(crate) address: Option<String>,
}

/// The progress of a member.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Position {
    /// Its latest call.
    pub(crate) call: Option<Call>,
    /// Whether it is still inside of that call.
    pub(crate) inside: bool,
}

/// The failure state of a group, as one member knows it.
pub(crate) struct GroupFailure {
    names: Vec<Name>,
    state: Mutex<State>,
}

struct State {
    failure: Option<Error>,
    positions: Vec<Position>,
    left: Vec<bool>,
}

impl GroupFailure {
    pub(crate) fn new(names: Vec<Name>) -> Self {
        let members = names.len();
        let state = State { failure: None, positions: vec![Position::default(); members], left: vec![false; members] };
        Self { names, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is a single assignment, so a panic elsewhere leaves nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn name(&self, rank: usize) -> &str {
        &self.names[rank].task
    }

    pub(crate) fn failure(&self) -> Option<Error> {
        self.state().failure.clone()
    }

    /// Records a failure unless there is one. Returns the first failure, and whether it is this one.
    pub(crate) fn fail(&self, error: Error) -> (Error, bool) {
        let mut state = self.state();
        let first = state.failure.is_none();
        (state.failure.get_or_insert(error).clone(), first)
    }

    pub(crate) fn position(&self, rank: usize) -> Position {
        self.state().positions[rank]
    }

    /// Records the progress of a member. Fails if its call differs from another member's call of the same number.
    pub(crate) fn record(&self, rank: usize, position: Position) -> Result<(), Error> {
        let mut state = self.state();
        state.positions[rank] = position;
        let Some(call) = position.call else { return Ok(()) };
        let differs = |other: &Position| other.call.is_some_and(|other| other.number == call.number && other != call);
        match state.positions.iter().position(differs) {
            Some(other) => {
                let theirs = state.positions[other].call.unwrap_or(call);
                Err(self.mismatch((rank, &call), (other, &theirs)))
            }
            None => Ok(()),
        }
    }

    pub(crate) fn left(&self, rank: usize) -> bool {
        self.state().left[rank]
    }

    pub(crate) fn set_left(&self, rank: usize) {
        self.state().left[rank] = true;
    }

    fn error(&self, code: Code, rank: usize, what: &str) -> Error {
        let name = &self.names[rank];
        let error = Error::new(code, format!("{} {what}", name.task));
        name.address.iter().fold(error, |error, address| error.at(address.clone()))
    }

    /// Returns the error for a member whose connection was closed.
    pub(crate) fn gone(&self, rank: usize) -> Error {
        if self.left(rank) {
            self.error(Code::PeerUnreachable, rank, "has left the group while others still needed it")
                .because("it closed its end")
                .help("see its log for why it stopped, then start the job again: it resumes from the newest checkpoint")
        } else {
            self.lost(rank, "its connection was closed")
        }
    }

    pub(crate) fn lost(&self, rank: usize, why: &str) -> Error {
        self.error(Code::PeerUnreachable, rank, "is lost")
            .because(why)
            .help("see its log, then start the job again: it resumes from the newest checkpoint")
    }

    /// Returns the error for a call without progress. It names the first member that is behind `rank`, else the one that
    /// `rank` waits for.
    pub(crate) fn late(&self, rank: usize, waits_for: usize, patience: Duration) -> Error {
        let state = self.state();
        let number = |position: &Position| position.call.map_or(0, |call| call.number);
        let own = number(&state.positions[rank]);
        let behind = state.positions.iter().position(|position| number(position) < own);
        let call = state.positions[rank].call;
        drop(state);
        let call = call.map_or_else(String::new, |call| format!(" in {call}"));
        let why = match behind {
            Some(_) => format!("the others waited {} s for it{call}", patience.as_secs_f32()),
            None => format!("nothing came from it for {} s{call}", patience.as_secs_f32()),
        };
        self.error(Code::PeerUnreachable, behind.unwrap_or(waits_for), "is too slow")
            .because(why)
            .help("see what it does meanwhile; if that is expected to take this long, give the group more patience")
    }

    /// Returns the error for two members whose calls differ. The text does not depend on which member notices.
    pub(crate) fn mismatch(&self, one: (usize, &Call), other: (usize, &Call)) -> Error {
        let (first, second) = if one.0 < other.0 { (one, other) } else { (other, one) };
        Error::new(Code::ShapeMismatch, "members of the group call different operations")
            .because(format!("{} calls {}, {} calls {}", self.name(first.0), first.1, self.name(second.0), second.1))
            .help("every member must call the same operations with the same sizes in the same order")
    }
}
