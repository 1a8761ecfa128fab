//! What a peer may ask for. Each number is checked before memory is taken for it.

use std::time::Duration;

/// The largest frame that is accepted. Larger pushes and pulls go in several parts.
pub const FRAME_BYTES: usize = 16 << 20;
/// How many bytes of numbers a sender puts into one frame; leaves room for the header.
pub const PART_BYTES: usize = 8 << 20;
/// The largest header of a frame.
pub const HEADER_BYTES: usize = 4 << 20;
/// The largest message on the control lane.
pub const CONTROL_BYTES: usize = 1 << 20;
/// Requests one connection may have open.
pub const STREAMS: u32 = 64;
/// HTTP/2 windows: a whole part fits, so a sender never stops in the middle of one.
pub const WINDOW: u32 = 64 << 20;
/// HTTP/2 frames: fewer of them for large parts.
pub const HTTP2_FRAME: u32 = 1 << 20;
/// The longest error that a peer may refuse a connection with.
pub const REFUSAL_BYTES: usize = 64 << 10;
/// How long connecting may take.
pub const CONNECT: Duration = Duration::from_secs(2);
/// How long the handshake of a new connection may take, and how long its client may then take to say something.
pub const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long the body of a request, or the rest of a frame that has begun, may take to arrive.
pub const BODY: Duration = Duration::from_secs(30);
/// After so long without a byte from the client a gRPC connection is closed. Pings go out three times as often.
pub const IDLE: Duration = Duration::from_secs(90);
/// How long data may wait for the other end of a TCP connection to acknowledge it.
pub const UNACKNOWLEDGED: Duration = Duration::from_secs(10);
/// How long one call on the control lane may take: a fraction of a lease, so that a beat that is stuck on a dead
/// connection leaves time for several more.
pub const CONTROL_CALL: Duration = Duration::from_millis(1500);
