//! A room: memory for the frame of one request and for the frame of its answer.
//!
//! Whose turn it is decides who may touch what: a request's half is the client's until the request is sent and the
//! server's until it is answered; with the answer's half it is the other way round. A room is used for one call at a time, and
//! not again before everything that was lent out of it has been dropped.

#![allow(unsafe_code)]

use crate::frame::{InFrame, OutFrame};
use crate::limits;
use crate::memory::{self, Mapping};
use bytes::Bytes;
use phalanx_base::{Code, Error, Result};
use std::io;
use std::os::fd::OwnedFd;
use std::ptr;
use std::sync::Arc;

/// How many answers of one connection may be in use at once.
const ROOMS: usize = 4;
const HALF: usize = limits::FRAME_BYTES;
const SIZE: usize = ROOMS * 2 * HALF;

/// What a message says of a frame in a room: the numbers come first, the header behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lengths {
    pub(super) header: u32,
    pub(super) body: u32,
}

impl Lengths {
    fn of(frame: &OutFrame) -> Option<Self> {
        let (header, body) = (frame.header().len(), frame.body().iter().map(Bytes::len).sum::<usize>());
        (header <= limits::HEADER_BYTES && header + body <= HALF)
            .then_some(Self { header: header as u32, body: body as u32 })
    }

    fn fit(self) -> bool {
        self.header as usize <= limits::HEADER_BYTES && self.header as usize + self.body as usize <= HALF
    }
}

#[derive(Debug)]
pub(crate) struct Room {
    mapping: Arc<Mapping>,
    start: usize,
}

/// The rooms of one connection.
pub(super) fn rooms(file: &OwnedFd) -> io::Result<Vec<Arc<Room>>> {
    let mapping = Arc::new(Mapping::new(file, SIZE)?);
    Ok((0..ROOMS).map(|i| Arc::new(Room { mapping: Arc::clone(&mapping), start: i * 2 * HALF })).collect())
}

/// Memory for the rooms of one connection.
pub(super) fn file() -> io::Result<OwnedFd> {
    memory::file(SIZE)
}

/// Whether nothing of the room is in use.
pub(super) fn is_free(room: &Arc<Room>) -> bool {
    Arc::strong_count(room) == 1
}

#[derive(Clone, Copy)]
enum Half {
    Request,
    Answer,
}

impl Room {
    fn at(&self, half: Half) -> *mut u8 {
        let offset = match half {
            Half::Request => 0,
            Half::Answer => HALF,
        };
        // SAFETY: `start + 2 * HALF` is at most the mapping's size.
        unsafe { self.mapping.address().add(self.start + offset) }
    }

    fn put(&self, half: Half, frame: &OutFrame) -> Option<Lengths> {
        let lengths = Lengths::of(frame)?;
        let to = self.at(half);
        let mut at = 0;
        for part in frame.body().iter().map(|part| &part[..]).chain([frame.header()]) {
            // A server writes the numbers of its answer where they are sent from.
            if part.as_ptr() != to.wrapping_add(at).cast_const() {
                // SAFETY: `Lengths::of` has seen that all parts together fit into the half, which is this side's to write
                // until the message is sent. A part may lie in the other half, never across this one's beginning.
                unsafe { ptr::copy_nonoverlapping(part.as_ptr(), to.add(at), part.len()) };
            }
            at += part.len();
        }
        Some(lengths)
    }

    fn take(self: &Arc<Self>, half: Half, lengths: Lengths) -> Result<InFrame> {
        if !lengths.fit() {
            return Err(Error::new(Code::BadMessage, "a frame is malformed").because(format!("{lengths:?}")));
        }
        let (header, body) = (lengths.header as usize, lengths.body as usize);
        let from = self.at(half);
        // SAFETY: inside of the half, which is this side's to read now. Copied, because it is decoded.
        let header = Bytes::copy_from_slice(unsafe { std::slice::from_raw_parts(from.add(body), header) });
        let body = Bytes::from_owner(Lent { room: Arc::clone(self), from: from.cast_const(), len: body });
        Ok(InFrame::from_parts(header, body))
    }

    /// The client's frame, into the room; `None` if it is too large.
    pub(super) fn put_request(&self, frame: &OutFrame) -> Option<Lengths> {
        self.put(Half::Request, frame)
    }

    /// The server's view of it. Its answer can be written into this room at once.
    pub(super) fn take_request(self: &Arc<Self>, lengths: Lengths) -> Result<InFrame> {
        Ok(self.take(Half::Request, lengths)?.with_room(Arc::clone(self)))
    }

    /// The server's frame, into the room; `None` if it is too large.
    pub(super) fn put_answer(&self, frame: &OutFrame) -> Option<Lengths> {
        self.put(Half::Answer, frame)
    }

    /// The client's view of it.
    pub(super) fn take_answer(self: &Arc<Self>, lengths: Lengths) -> Result<InFrame> {
        self.take(Half::Answer, lengths)
    }
}

/// The numbers of a frame, where they lie; the room is not free while somebody has them.
struct Lent {
    #[allow(dead_code, reason = "held so that the room is not free")]
    room: Arc<Room>,
    from: *const u8,
    len: usize,
}

// SAFETY: memory of the room, which it keeps, and which anybody may read.
unsafe impl Send for Lent {}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: inside of the mapping, which `room` keeps; the other side, a task of the same job, does not write here
        // before this side's next message, which is not sent while this is alive.
        unsafe { std::slice::from_raw_parts(self.from, self.len) }
    }
}

/// A room's half for answers, as long as the server writes it: where the answer's numbers are sent from. The caller makes
/// one of it for a request.
pub(crate) struct AnswerHalf {
    room: Arc<Room>,
    len: usize,
}

impl AnswerHalf {
    /// The first so many bytes; `None` if there are fewer.
    pub(crate) fn new(room: Arc<Room>, len: usize) -> Option<Self> {
        (len <= HALF).then_some(Self { room, len })
    }
}

impl AsRef<[u8]> for AnswerHalf {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: inside of the half for answers, which is the server's until it answers, and this alone has it.
        unsafe { std::slice::from_raw_parts(self.room.at(Half::Answer), self.len) }
    }
}

impl AsMut<[u8]> for AnswerHalf {
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.room.at(Half::Answer), self.len) }
    }
}

impl From<AnswerHalf> for Bytes {
    fn from(AnswerHalf { room, len }: AnswerHalf) -> Self {
        let from = room.at(Half::Answer).cast_const();
        Self::from_owner(Lent { room, from, len })
    }
}
