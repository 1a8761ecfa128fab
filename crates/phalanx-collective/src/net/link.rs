//! The link to one other member: a socket and, on the same host, shared memory.
//!
//! With shared memory the socket carries no numbers. It wakes a sleeping member, and its end is the end of the link.

use super::memory::{Ends, Shared};
use super::ring::{Consumer, Producer};
use phalanx_wire::PeerStream;
use rustix::event::PollFlags;
use std::io::{self, ErrorKind, IoSlice, Read, Write};

pub(super) struct Link {
    pub(super) stream: PeerStream,
    memory: Option<Memory>,
}

struct Memory {
    out: Producer<Shared>,
    coming: Consumer<Shared>,
    closed: bool,
}

/// Turns `WouldBlock` into 0 bytes moved, and the end of the stream into an error.
fn moved(result: io::Result<usize>, closed: ErrorKind) -> io::Result<usize> {
    match result {
        Ok(0) => Err(closed.into()),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
        other => other,
    }
}

impl Link {
    /// Creates a link over `stream`, with the ends of the shared memory if there is any.
    pub(super) fn new(stream: PeerStream, memory: Option<Ends>) -> Self {
        Self { stream, memory: memory.map(|(out, coming)| Memory { out, coming, closed: false }) }
    }

    pub(super) fn send(&mut self, first: &[u8], second: &[u8]) -> io::Result<usize> {
        let Some(memory) = &mut self.memory else {
            let parts = [IoSlice::new(first), IoSlice::new(second)];
            return moved((&self.stream).write_vectored(&parts), ErrorKind::BrokenPipe);
        };
        if memory.closed {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let mut count = memory.out.put(first)?;
        if count == first.len() {
            count += memory.out.put(second)?;
        }
        if count > 0 && memory.out.must_wake() {
            self.wake()?;
        }
        Ok(count)
    }

    pub(super) fn receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        let Some(memory) = &mut self.memory else {
            return moved((&self.stream).read(into), ErrorKind::UnexpectedEof);
        };
        let count = memory.coming.take(into)?;
        if count == 0 && memory.closed {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if count > 0 && memory.coming.must_wake() {
            // The other member may have sent everything and closed.
            let _ = self.wake();
        }
        Ok(count)
    }

    fn wake(&self) -> io::Result<()> {
        moved((&self.stream).write(&[1]), ErrorKind::BrokenPipe).map(drop)
    }

    /// Whether bytes can be moved, as far as can be told without a system call.
    pub(super) fn is_ready(&self, send: bool, receive: bool) -> bool {
        let ready = |memory: &Memory| send && memory.out.is_ready() || receive && memory.coming.is_ready();
        self.memory.as_ref().is_some_and(ready)
    }

    /// Whether [`Self::is_ready`] can tell.
    pub(super) fn has_memory(&self) -> bool {
        self.memory.is_some()
    }

    /// Asks the other side to wake this one. Check [`Self::is_ready`] once more after this.
    pub(super) fn will_wait(&self, send: bool, receive: bool) {
        if let Some(memory) = &self.memory {
            if send {
                memory.out.set_waits(true);
            }
            if receive {
                memory.coming.set_waits(true);
            }
        }
    }

    /// Returns the events to poll the socket for.
    pub(super) fn events(&self, send: bool) -> PollFlags {
        if send && self.memory.is_none() { PollFlags::OUT } else { PollFlags::IN }
    }

    /// Drains the wake-up bytes and detects the end of the link.
    pub(super) fn has_waited(&mut self, send: bool, receive: bool) {
        let Some(memory) = &mut self.memory else { return };
        if send {
            memory.out.set_waits(false);
        }
        if receive {
            memory.coming.set_waits(false);
        }
        let mut calls = [0; 64];
        memory.closed |= moved((&self.stream).read(&mut calls), ErrorKind::UnexpectedEof).is_err();
    }
}
