//! Groups of processes.

mod bridge;
mod door;
mod form;
mod link;
mod memory;
mod notices;
mod ring;
#[cfg(target_os = "linux")]
mod shared;
#[cfg(not(target_os = "linux"))]
#[path = "unshared.rs"]
mod shared;
mod streams;
mod watch;

use crate::group::PATIENCE;
use phalanx_base::TaskId;
use phalanx_wire::{Address, Token};
use std::time::Duration;

pub use door::Door;

/// Shorter than the patience with a late member, so that one whose process stands still is said to be lost, not slow.
const SILENCE: Duration = Duration::from_millis(2_250);

/// One member of a group of processes.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The task, as messages name it.
    pub task: TaskId,
    /// Where its [`Door`] is served.
    pub address: Address,
}

/// What a group of processes is formed from.
#[derive(Clone, Debug)]
pub struct Options {
    /// This member's place in `peers`.
    pub rank: usize,
    /// Every member by rank, this one included; the same list everywhere.
    pub peers: Vec<Peer>,
    /// Which forming of the group this is; the same number everywhere, and a higher one each time.
    pub epoch: u64,
    /// What the peers' ports ask for.
    pub token: Option<Token>,
    /// How long a call waits while nothing moves before it names who is late; see [`crate::Group::set_patience`].
    pub patience: Duration,
    /// After how long without a sign of life a member is lost. A closed connection is noticed at once.
    pub silence: Duration,
    /// How long forming may take.
    pub formation: Duration,
    /// The fastest way to members on this machine that may be taken.
    pub nearby: Nearby,
}

/// Ways to members on this machine; to others it is always the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nearby {
    /// Memory that both processes map.
    SharedMemory,
    /// A Unix socket.
    Socket,
    /// As if they were on other machines.
    Network,
}

impl Options {
    /// The usual for a group whose first forming this is.
    #[must_use]
    pub fn new(rank: usize, peers: Vec<Peer>) -> Self {
        Self {
            rank,
            peers,
            epoch: 1,
            token: None,
            patience: PATIENCE,
            silence: SILENCE,
            formation: Duration::from_secs(60),
            nearby: Nearby::SharedMemory,
        }
    }
}

/// What a connection carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Lane {
    /// The messages of calls.
    Data,
    /// Signs of life, and the news of a failure: these must not wait behind numbers.
    Notices,
}

impl Lane {
    const ALL: [Self; 2] = [Self::Data, Self::Notices];

    fn number(self) -> u32 {
        match self {
            Self::Data => 0,
            Self::Notices => 1,
        }
    }
}
