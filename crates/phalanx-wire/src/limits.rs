//! Limits on what a peer may send. Each is checked before memory is allocated.

use std::time::Duration;

/// The largest frame that is accepted. Larger pushes and pulls are sent in several parts.
pub const FRAME_BYTES: usize = 16 << 20;
/// The most bytes of numbers that a sender puts into one frame, which leaves capacity for the header.
pub const PART_BYTES: usize = 8 << 20;
/// The largest header of a frame.
pub const HEADER_BYTES: usize = 4 << 20;
/// The largest message on the control lane.
pub const CONTROL_BYTES: usize = 1 << 20;
/// The most open requests of one connection of the control lane.
pub const STREAMS: u32 = 64;
/// The longest error with which a peer may refuse a connection.
pub const REFUSAL_BYTES: usize = 64 << 10;
/// The timeout for connecting.
pub const CONNECT: Duration = Duration::from_secs(2);
/// The timeout for the handshake of a new connection, and then for the client's first byte.
pub const HANDSHAKE: Duration = Duration::from_secs(10);
/// The timeout for the body of a request, or for the rest of a frame after its first byte.
pub const BODY: Duration = Duration::from_secs(30);
/// A gRPC connection without a byte from the client for this long is closed. Pings are sent three times as often.
pub const IDLE: Duration = Duration::from_secs(90);
/// How long sent data may stay unacknowledged by the other end of a TCP connection.
pub const UNACKNOWLEDGED: Duration = Duration::from_secs(10);
/// The timeout for one call on the control lane: a fraction of a lease, so that a heartbeat stuck on a dead connection
/// leaves time for several more.
pub const CONTROL_CALL: Duration = Duration::from_millis(1500);
