//! Carries bytes between tasks: connections, frames, deadlines, retries, the token, and limits.
//!
//! Two lanes go to every peer, each on a connection of its own: [`control`] for small messages that must never wait,
//! and [`bulk`] for frames of numbers. Nothing here knows what a variable is.
//!
//! Invariants: a frame's length is checked against [`limits`] before anything is allocated for it; every call has a
//! deadline; a call that failed says whether it may have happened ([`Outcome`]).
//!
//! A room behind `phalanx`, not for programs: what it hands on is `bytes::Bytes`, messages of prost and statuses of tonic, because
//! carrying those is what it is for. Nothing above `phalanx-ps`, `phalanx-collective` and `phalanx-train` sees them.

pub mod bulk;
pub mod control;
pub mod limits;
pub mod memory;

mod body_timeout;
mod connect;
mod connections;
mod fault;
mod frame;
mod guarded;
mod handshake;
mod listen;
mod neighbour;
mod reply;
mod retry;
mod spares;
mod token;

/// What model-checked files take their types from; `tests/loom` gives them loom's instead.
use std::sync;

/// Messages as the .proto files define them.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod proto {
    /// What the members of a group say to each other.
    pub mod collective {
        tonic::include_proto!("phalanx.collective");
    }
    /// The control lane's messages.
    pub mod control {
        tonic::include_proto!("phalanx.control");
    }
    /// What a worker and the coordinator say to each other.
    pub mod coordinate {
        tonic::include_proto!("phalanx.coordinate");
    }
    /// Headers of the bulk lane's frames.
    pub mod params {
        tonic::include_proto!("phalanx.params");
    }
}

pub use connect::{Lane, connect};
pub use fault::{from_status, from_wire, may_have_happened, to_status, to_wire};
pub use frame::{InFrame, OutFrame};
pub use listen::{Endpoint, Listening};
pub use phalanx_base::Address;
pub use reply::ReplyBuffer;
pub use retry::{Backoff, Outcome};
pub use token::Token;

/// Both sides of a connection must speak the same version.
pub const PROTOCOL: u32 = 2;
