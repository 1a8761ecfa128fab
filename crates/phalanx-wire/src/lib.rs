//! Communication between tasks: connections, frames, deadlines, retries, the token, and limits.
//!
//! Two lanes lead to every peer, each on a connection of its own: [`control`] for small messages that must never wait,
//! and [`bulk`] for frames of numbers. Nothing here knows what a variable is.
//!
//! Invariants: a frame's length is checked against [`limits`] before anything is allocated for it; every call has a
//! deadline; a failed call reports whether it may have taken effect ([`Outcome`]).
//!
//! An internal crate of `phalanx`. `bytes::Bytes`, prost messages and tonic statuses are part of its interface, because it
//! carries them. No crate but `phalanx-ps`, `phalanx-collective` and `phalanx-train` sees them.

pub mod bulk;
pub mod control;
pub mod limits;
pub mod memory;

mod body_timeout;
mod buffer_pool;
mod connect;
mod connections;
mod fault;
mod frame;
mod framed;
mod guarded;
mod handshake;
mod listen;
mod opened_stream;
mod peer;
mod peer_stream;
mod reply;
mod retry;
mod same_host;
mod serving_thread;
mod task;
mod tls;
mod tls_records;
mod token;

// The model checks in `tests/loom` replace `crate::sync` by loom's types.
use std::sync;

/// The messages that the .proto files define.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod proto {
    /// Messages that several protocols share.
    pub mod common {
        tonic::include_proto!("phalanx.common");
    }
    /// The messages of the control lane.
    pub mod control {
        tonic::include_proto!("phalanx.control");
    }
}

pub use fault::{
    error_from_bytes, error_from_fault, error_from_status, error_to_bytes, error_to_fault, error_to_status,
};
pub use frame::{InFrame, OutFrame};
pub use listen::{Endpoint, Listening};
pub use peer_stream::PeerStream;
pub use phalanx_base::Address;
pub use reply::ReplyBuffer;
pub use retry::{Backoff, Outcome};
pub use task::{task_from_wire, task_to_wire};
pub use token::{Encryption, Token};

/// The version of the protocol. Both ends of a connection must have the same.
pub const PROTOCOL: u32 = 5;
