//! Groups of processes.

mod form;
mod link;
mod listener;
mod memory;
mod notices;
mod ring;
mod shared;
mod streams;
mod watch;

use crate::group::PATIENCE;
use phalanx_base::TaskId;
use phalanx_wire::{Address, Token};
use std::time::Duration;

pub use listener::GroupListener;

/// Shorter than the patience with a late member, so that a stopped process is reported as lost, not as slow.
const SILENCE: Duration = Duration::from_millis(2_250);

/// One member of a group of processes.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The task, by which messages name the member.
    pub task: TaskId,
    /// The address at which its [`GroupListener`] is served.
    pub address: Address,
}

/// The settings from which [`Group::connect`](crate::Group::connect) forms a group of processes.
#[derive(Clone, Debug)]
pub struct GroupOptions {
    /// This member's index in `peers`.
    pub rank: usize,
    /// Every member by rank, this one included. All members must have the same list.
    pub peers: Vec<Peer>,
    /// The number of this formation of the group: the same for all members, and a higher one each time.
    pub epoch: u64,
    /// The job token.
    pub token: Option<Token>,
    /// How long a call waits without progress before it fails; see [`crate::Group::set_patience`].
    pub patience: Duration,
    /// A member without a heartbeat for this long is lost. A closed connection is noticed at once.
    pub silence: Duration,
    /// The deadline for forming the group.
    pub formation: Duration,
    /// The fastest transport that may be used to members on the same host.
    pub same_host: SameHostTransport,
}

/// The transport to members on the same host. Members on other hosts are always reached over the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SameHostTransport {
    /// Memory that both processes map, where possible.
    SharedMemory,
    /// A Unix socket.
    Socket,
    /// The network, as for members on other hosts.
    Network,
}

impl GroupOptions {
    /// Returns the default settings for the first formation of a group.
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
            same_host: SameHostTransport::SharedMemory,
        }
    }
}

/// What a connection carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Lane {
    /// The messages of calls.
    Data,
    /// Heartbeats and failures, which must not queue behind numbers.
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
