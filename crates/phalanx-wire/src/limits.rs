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
/// How long connecting may take.
pub const CONNECT: Duration = Duration::from_secs(2);
/// How long one call on the control lane may take.
pub const CONTROL_CALL: Duration = Duration::from_secs(5);
