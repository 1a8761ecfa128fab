//! Frames through memory that both tasks share; through the socket go short messages that say where they lie.
//!
//! A message is 16 bytes: kind, room, two of nothing, the header's length, the body's, four of nothing. The connection here
//! is the client's end; the server's is in `attendant.rs`.

use super::room::{self, Lengths, Room};
use super::{FRAME, invalid};
use crate::frame::{InFrame, OutFrame};
use crate::{fault, memory};
use phalanx_base::Result;
use std::io;
use std::os::fd::AsFd;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;

/// The byte that the memory comes with.
pub(super) const MEMORY: u8 = b'M';

/// A connection and its rooms.
pub(super) struct Connection {
    stream: UnixStream,
    rooms: Vec<Room>,
}

#[derive(Clone, Copy)]
pub(super) struct Notice {
    pub(super) kind: u8,
    pub(super) room: u8,
    pub(super) lengths: Lengths,
}

impl Notice {
    pub(super) fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        (bytes[0], bytes[1]) = (self.kind, self.room);
        bytes[4..8].copy_from_slice(&self.lengths.header.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.lengths.body.to_le_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: [u8; 16]) -> Self {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Self { kind: bytes[0], room: bytes[1], lengths: Lengths { header: word(4), body: word(8) } }
    }
}

impl Connection {
    /// Makes the memory and hands it over.
    pub(super) async fn offer(stream: UnixStream) -> io::Result<Self> {
        let file = room::file()?;
        let rooms = room::rooms(&file)?;
        stream.async_io(Interest::WRITABLE, || memory::send(stream.as_fd(), MEMORY, &file)).await?;
        Ok(Self { stream, rooms })
    }

    async fn write(&mut self, notice: Notice) -> io::Result<()> {
        self.stream.write_all(&notice.to_bytes()).await
    }

    async fn read(&mut self) -> io::Result<Notice> {
        let mut bytes = [0; 16];
        self.stream.read_exact(&mut bytes).await?;
        Ok(Notice::from_bytes(bytes))
    }

    /// A room for a frame, with the frame in it; `None` where all are in use.
    pub(super) fn enter(&self, frame: &OutFrame) -> Option<Entered> {
        let number = self.rooms.iter().position(Room::is_free)?;
        Some(Entered { number, lengths: self.rooms[number].put_request(frame).ok()? })
    }

    /// Has it answered.
    pub(super) async fn exchange(&mut self, entered: Entered) -> io::Result<Result<InFrame>> {
        let Entered { number, lengths } = entered;
        self.write(Notice { kind: FRAME, room: number as u8, lengths }).await?;
        let answer = self.read().await?;
        if usize::from(answer.room) != number {
            return Err(invalid("an answer to another request".into()));
        }
        let mut frame = self.rooms[number].take_answer(answer.lengths);
        if !self.rooms.iter().any(Room::is_free) {
            // Whoever keeps what was lent, keeps it; there must be a room for the next request.
            frame = frame.map(InFrame::with_own_body);
        }
        match (answer.kind, frame) {
            (FRAME, frame) => Ok(frame),
            (_, Ok(frame)) => Ok(Err(fault::decode(frame.body())?)),
            (_, Err(error)) => Ok(Err(error)),
        }
    }
}

/// A frame that lies in a room, ready to be sent.
pub(super) struct Entered {
    number: usize,
    lengths: Lengths,
}
