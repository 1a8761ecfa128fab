//! Frames in shared memory. Short messages over the socket tell where they are.
//!
//! A message is 16 bytes: kind, slot, two unused, the header's length, the body's, four unused. The connection here is the
//! client's end; the server's is in `server.rs`.

use super::invalid;
use super::shared_slot::{self, Lengths, SharedSlot};
use crate::frame::{InFrame, OutFrame};
use crate::framed::FRAME;
use crate::{fault, memory};
use phalanx_base::Result;
use std::io;
use std::os::fd::AsFd;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;

/// The byte that is sent with the memory.
pub(super) const MEMORY: u8 = b'M';

/// A connection and its slots.
pub(crate) struct Connection {
    stream: UnixStream,
    slots: Vec<SharedSlot>,
}

#[derive(Clone, Copy)]
pub(super) struct Notice {
    pub(super) kind: u8,
    pub(super) slot: u8,
    pub(super) lengths: Lengths,
}

impl Notice {
    pub(super) fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        (bytes[0], bytes[1]) = (self.kind, self.slot);
        bytes[4..8].copy_from_slice(&self.lengths.header.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.lengths.body.to_le_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: [u8; 16]) -> Self {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Self { kind: bytes[0], slot: bytes[1], lengths: Lengths { header: word(4), body: word(8) } }
    }
}

impl Connection {
    /// Creates the memory and sends it to the peer.
    pub(crate) async fn offer(stream: UnixStream) -> io::Result<Self> {
        let file = shared_slot::file()?;
        let slots = shared_slot::slots(&file)?;
        stream.async_io(Interest::WRITABLE, || memory::send(stream.as_fd(), MEMORY, &file)).await?;
        Ok(Self { stream, slots })
    }

    async fn write(&mut self, notice: Notice) -> io::Result<()> {
        self.stream.write_all(&notice.to_bytes()).await
    }

    async fn read(&mut self) -> io::Result<Notice> {
        let mut bytes = [0; 16];
        self.stream.read_exact(&mut bytes).await?;
        Ok(Notice::from_bytes(bytes))
    }

    /// Puts a frame into a free slot; `None` if all are in use or the frame is too large.
    pub(crate) fn enter(&self, frame: &OutFrame) -> Option<Entered> {
        let number = self.slots.iter().position(SharedSlot::is_free)?;
        Some(Entered { number, lengths: self.slots[number].put_request(frame).ok()? })
    }

    /// Sends the frame and waits for the reply.
    pub(crate) async fn exchange(&mut self, entered: Entered) -> io::Result<Result<InFrame>> {
        let Entered { number, lengths } = entered;
        self.write(Notice { kind: FRAME, slot: number as u8, lengths }).await?;
        let answer = self.read().await?;
        if usize::from(answer.slot) != number {
            return Err(invalid("a reply to another request".into()));
        }
        let mut frame = self.slots[number].take_answer(answer.lengths);
        if !self.slots.iter().any(SharedSlot::is_free) {
            // Earlier replies are still in use. Copying this one frees a slot for the next request.
            frame = frame.map(InFrame::with_own_body);
        }
        match (answer.kind, frame) {
            (FRAME, frame) => Ok(frame),
            (_, Ok(frame)) => Ok(Err(fault::decode(frame.body())?)),
            (_, Err(error)) => Ok(Err(error)),
        }
    }
}

/// A frame in a slot, ready to be sent.
pub(crate) struct Entered {
    number: usize,
    lengths: Lengths,
}
