//! Frames over a byte stream: a Unix socket between tasks on the same host, TCP between hosts.
//!
//! Requests and replies alternate. A request is `[u32 length][u32 header length][header][body]`; a reply has the same form
//! after one byte that tells frames from errors. Lengths are little-endian and checked before memory is allocated.

mod client;
mod server;

pub(crate) use client::Connection;
pub(crate) use server::serve;

/// The first byte of a reply that is a frame.
pub(crate) const FRAME: u8 = 0;
/// The first byte of a reply that is an error.
pub(crate) const FAULT: u8 = 1;
/// The bytes before a header: the frame's length and the header's.
const PREFIX: usize = 8;
