//! Byte pipes in both directions between any two members.

use phalanx_base::Error;
use std::io;
use std::time::Duration;

/// One member's ends of all pipes. Only [`wait`](Self::wait) blocks.
pub(crate) trait Pipes: Send {
    /// Marks the point after which any event ends the next [`wait`](Self::wait).
    fn listen(&mut self) {}

    /// Writes as much of the two parts as the pipe has capacity for, and returns how many bytes.
    ///
    /// # Errors
    /// When the pipe is closed.
    fn send(&mut self, to: usize, first: &[u8], second: &[u8]) -> io::Result<usize>;

    /// Reads the available bytes and returns how many; 0 if `into` is empty.
    ///
    /// # Errors
    /// When the pipe is closed and empty.
    fn receive(&mut self, from: usize, into: &mut [u8]) -> io::Result<usize>;

    /// Waits for capacity to one member, for bytes from another, or for a failure of the group.
    fn wait(&mut self, to: Option<usize>, from: Option<usize>, timeout: Duration);

    /// Tells every member that the group has failed.
    fn broadcast_failure(&mut self, error: &Error);

    /// Closes this member's ends.
    fn close(&mut self);
}
