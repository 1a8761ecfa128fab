//! A slot of shared memory: one half for the frame of a request, one for the frame of its answer.
//!
//! Between the two processes, messages decide whose turn it is: a request's half is the client's until the request is sent
//! and the server's until it is answered; the answer's half the other way round. Inside of a process, whoever touches a
//! half holds the half's [`Loan`] (`slot.rs`), and no message gives a half away while it is lent.
//!
//! What justifies the unsafe code is said in `memory.rs`. Its trust: the peer, which has the job's token and this user's
//! rights, keeps to its turns. The other side writes into this memory from another process, so a peer that does not keep to
//! them can change numbers that are being read. Lengths and headers are copied before they are checked; numbers are only
//! ever read as numbers.

#![allow(unsafe_code)]

use super::slot::{self, Loan};
use crate::frame::{InFrame, OutFrame};
use crate::limits;
use crate::memory::{self, Mapping};
use bytes::Bytes;
use phalanx_base::{Code, Error, Result};
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
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
    fn new(header: usize, body: usize) -> Option<Self> {
        let fit = header <= limits::HEADER_BYTES && body <= HALF && header + body <= HALF;
        fit.then_some(Self { header: header as u32, body: body as u32 })
    }

    fn fit(self) -> bool {
        Self::new(self.header as usize, self.body as usize).is_some()
    }
}

#[derive(Debug)]
pub(crate) struct Room {
    request: Half,
    answer: Half,
}

/// The rooms of one connection.
pub(super) fn rooms(file: &OwnedFd) -> io::Result<Vec<Room>> {
    let mapping = Arc::new(Mapping::new(file, SIZE)?);
    let half = |start| Half { mapping: Arc::clone(&mapping), start, owner: slot::Half::new() };
    Ok((0..ROOMS).map(|i| Room { request: half(2 * i * HALF), answer: half((2 * i + 1) * HALF) }).collect())
}

/// Memory for the rooms of one connection.
pub(super) fn file() -> io::Result<OwnedFd> {
    memory::file(SIZE)
}

/// Why a frame is not in its room.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    /// It is too large.
    TooLarge,
    /// Somebody holds what an earlier frame lent out.
    Lent,
}

impl Room {
    /// Whether nobody in this process holds anything of the room.
    pub(super) fn is_free(&self) -> bool {
        self.request.owner.is_free() && self.answer.owner.is_free()
    }

    /// Copies the client's frame into the room.
    pub(super) fn put_request(&self, frame: &OutFrame) -> Result<Lengths, Unfit> {
        self.request.lend().ok_or(Unfit::Lent)?.write(frame)
    }

    /// The server's view of it. Its answer can be written into this room at once.
    pub(super) fn take_request(&self, lengths: Lengths) -> Result<InFrame> {
        let frame = self.request.take(lengths)?;
        Ok(match self.answer.lend() {
            Some(part) => frame.with_answer(AnswerHalf(part)),
            None => frame,
        })
    }

    /// Puts the server's frame into the room: its header only, where its body was written here.
    pub(super) fn put_answer(&self, frame: OutFrame) -> Result<Lengths, Unfit> {
        match frame.into_reply() {
            Ok((header, AnswerHalf(mut part))) if part.loan.is_of(&self.answer.owner) => {
                let body = part.len;
                let lengths = Lengths::new(header.len(), body).ok_or(Unfit::TooLarge)?;
                part.len = body + header.len();
                part[body..].copy_from_slice(&header);
                Ok(lengths)
            }
            // Written into the room of another request.
            Ok((header, elsewhere)) => {
                self.put_answer(OutFrame::from_parts(header, Bytes::copy_from_slice(&elsewhere)))
            }
            Err(frame) => self.answer.lend().ok_or(Unfit::Lent)?.write(&frame),
        }
    }

    /// The client's view of it.
    pub(super) fn take_answer(&self, lengths: Lengths) -> Result<InFrame> {
        self.answer.take(lengths)
    }
}

/// Half of a room.
#[derive(Debug)]
struct Half {
    mapping: Arc<Mapping>,
    /// Where it begins in the mapping; `HALF` bytes are its own.
    start: usize,
    owner: Arc<slot::Half>,
}

impl Half {
    /// All of the half, for one holder at a time.
    fn lend(&self) -> Option<Part> {
        let loan = slot::Half::lend(&self.owner)?;
        // SAFETY: `start + HALF` is at most the mapping's size.
        let address = unsafe { self.mapping.address().add(self.start) };
        Some(Part { mapping: Arc::clone(&self.mapping), address, len: HALF, loan })
    }

    fn take(&self, lengths: Lengths) -> Result<InFrame> {
        let broken = |why: String| Error::new(Code::BadMessage, "a frame is malformed").because(why);
        if !lengths.fit() {
            return Err(broken(format!("{lengths:?}")));
        }
        let mut part = self.lend().ok_or_else(|| broken("the frame before it is still in use".into()))?;
        let (header, body) = (lengths.header as usize, lengths.body as usize);
        // Copied, because it is decoded.
        let header = Bytes::copy_from_slice(&part[body..body + header]);
        part.len = body;
        Ok(InFrame::from_parts(header, Bytes::from_owner(part)))
    }
}

/// The first `len` bytes of a half, held alone by whoever has this.
#[derive(Debug)]
struct Part {
    /// Keeps the memory mapped.
    #[allow(dead_code, reason = "held so that the address stays valid")]
    mapping: Arc<Mapping>,
    address: *mut u8,
    /// At most `HALF`.
    len: usize,
    /// Dropped with the rest, after the last access.
    loan: Loan,
}

// SAFETY: a part is the only holder of its memory in this process; which thread has it does not matter.
unsafe impl Send for Part {}
// SAFETY: a shared part can only be read.
unsafe impl Sync for Part {}

impl Part {
    /// Copies a frame in: body first, then the header.
    fn write(&mut self, frame: &OutFrame) -> Result<Lengths, Unfit> {
        let body = frame.slices().map(<[u8]>::len).sum();
        let lengths = Lengths::new(frame.header().len(), body).ok_or(Unfit::TooLarge)?;
        let mut rest = &mut self[..];
        for slice in frame.slices().chain([frame.header()]) {
            let (to, behind) = rest.split_at_mut(slice.len());
            to.copy_from_slice(slice);
            rest = behind;
        }
        Ok(lengths)
    }
}

impl Deref for Part {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: inside of the mapping, which `mapping` keeps. `loan` is the only one of this half, so nobody else in this
        // process writes here. The peer does not write here before this side's next message, which is not sent while a
        // half is lent.
        unsafe { std::slice::from_raw_parts(self.address, self.len) }
    }
}

impl DerefMut for Part {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed for this alone.
        unsafe { std::slice::from_raw_parts_mut(self.address, self.len) }
    }
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// The half that an answer is sent from, while the server writes it.
#[derive(Debug)]
pub(crate) struct AnswerHalf(Part);

impl AnswerHalf {
    /// Its first `len` bytes; `None` if there are fewer.
    pub(crate) fn first(mut self, len: usize) -> Option<Self> {
        (len <= HALF).then(|| {
            self.0.len = len;
            self
        })
    }
}

impl Deref for AnswerHalf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for AnswerHalf {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}
