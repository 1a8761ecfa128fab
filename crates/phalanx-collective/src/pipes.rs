//! A pipe for bytes in each direction between any two members.

use phalanx_base::Error;
use std::io;
use std::time::Duration;

/// One member's ends of all pipes. Nothing here blocks but `wait`.
pub(crate) trait Pipes: Send {
    /// Takes note of what has happened so far: `wait` returns for anything that happens after this.
    fn listen(&mut self) {}

    /// Puts in as much of the two parts as there is room for; 0 when there is none.
    ///
    /// # Errors
    /// When the pipe is closed.
    fn send(&mut self, to: usize, first: &[u8], second: &[u8]) -> io::Result<usize>;

    /// Takes out what is there; 0 when nothing is, or when `into` is empty.
    ///
    /// # Errors
    /// When the pipe is closed and empty.
    fn receive(&mut self, from: usize, into: &mut [u8]) -> io::Result<usize>;

    /// Waits for room to one member, for bytes from another, or for the news that the group has failed.
    fn wait(&mut self, to: Option<usize>, from: Option<usize>, timeout: Duration);

    /// Tells every member that the group has failed.
    fn spread(&mut self, error: &Error);

    /// Says that this member is done.
    fn close(&mut self);
}
