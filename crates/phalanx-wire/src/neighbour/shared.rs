//! Frames through memory that both tasks share; through the socket go short messages that say where they lie.
//!
//! A message is 16 bytes: kind, room, two of nothing, the header's length, the body's, four of nothing.

use super::room::{self, Lengths, Room, is_free};
use super::{FAULT, FRAME, invalid, refusal};
use crate::bulk::Handler;
use crate::frame::{InFrame, OutFrame};
use crate::{fault, memory};
use bytes::Bytes;
use phalanx_base::{Code, Error, Result};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;

/// The byte that the memory comes with.
const MEMORY: u8 = b'M';

/// One end of a connection, and its rooms.
pub(super) struct Connection {
    stream: UnixStream,
    rooms: Vec<Arc<Room>>,
}

#[derive(Clone, Copy)]
struct Notice {
    kind: u8,
    room: u8,
    lengths: Lengths,
}

impl Notice {
    fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        (bytes[0], bytes[1]) = (self.kind, self.room);
        bytes[4..8].copy_from_slice(&self.lengths.header.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.lengths.body.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: [u8; 16]) -> Self {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Self { kind: bytes[0], room: bytes[1], lengths: Lengths { header: word(4), body: word(8) } }
    }
}

impl Connection {
    /// The client's end: makes the memory and hands it over.
    pub(super) async fn offer(stream: UnixStream) -> io::Result<Self> {
        let file = room::file()?;
        let rooms = room::rooms(&file)?;
        stream.async_io(Interest::WRITABLE, || memory::send(stream.as_fd(), MEMORY, &file)).await?;
        Ok(Self { stream, rooms })
    }

    /// The server's end: takes the memory.
    pub(super) async fn accept(stream: UnixStream) -> io::Result<Self> {
        let (byte, file) = stream.async_io(Interest::READABLE, || memory::receive(stream.as_fd())).await?;
        match file {
            Some(file) if byte == MEMORY => Ok(Self { rooms: room::rooms(&file)?, stream }),
            _ => Err(invalid("no memory came".into())),
        }
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
        let number = self.rooms.iter().position(is_free)?;
        Some(Entered { number, lengths: self.rooms[number].put_request(frame)? })
    }

    /// The client's turn.
    pub(super) async fn exchange(&mut self, entered: Entered) -> io::Result<Result<InFrame>> {
        let Entered { number, lengths } = entered;
        self.write(Notice { kind: FRAME, room: number as u8, lengths }).await?;
        let answer = self.read().await?;
        if usize::from(answer.room) != number {
            return Err(invalid("an answer to another request".into()));
        }
        let mut frame = self.rooms[number].take_answer(answer.lengths);
        if !self.rooms.iter().any(is_free) {
            // Whoever keeps what was lent, keeps it; there must be a room for the next request.
            frame = frame.map(InFrame::with_own_body);
        }
        match (answer.kind, frame) {
            (FRAME, frame) => Ok(frame),
            (_, Ok(frame)) => Ok(Err(refusal(frame.body())?)),
            (_, Err(error)) => Ok(Err(error)),
        }
    }

    /// The server's side of it, until the neighbour goes.
    pub(super) async fn attend(&mut self, handler: &Arc<dyn Handler>) -> io::Result<()> {
        loop {
            let notice = self.read().await?;
            let number = usize::from(notice.room);
            let Some(room) = self.rooms.get(number) else {
                return Err(invalid(format!("there is no room {number}")));
            };
            let answer = match room.take_request(notice.lengths) {
                Ok(frame) => Arc::clone(handler).call(frame).await,
                Err(error) => Err(error),
            };
            let too_large = || Error::new(Code::BadMessage, "an answer is too large for one frame");
            let put = |frame: OutFrame| room.put_answer(&frame).ok_or_else(too_large);
            let (kind, lengths) = match answer.and_then(put) {
                Ok(lengths) => (FRAME, Some(lengths)),
                Err(error) => (FAULT, room.put_answer(&said(&error))),
            };
            if !is_free(room) {
                // The neighbour may write here from now on; nobody may have kept any of it.
                return Err(invalid("a frame was kept beyond its answer".into()));
            }
            let lengths = lengths.ok_or_else(|| invalid("an error that does not fit".into()))?;
            self.write(Notice { kind, room: notice.room, lengths }).await?;
        }
    }
}

/// A frame that lies in a room, ready to be sent.
pub(super) struct Entered {
    number: usize,
    lengths: Lengths,
}

/// An error as a frame's body.
fn said(error: &Error) -> OutFrame {
    let mut frame = OutFrame::default();
    frame.push(Bytes::from(prost::Message::encode_to_vec(&fault::to_wire(error))));
    frame
}
