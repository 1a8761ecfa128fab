//! A slot of shared memory: one half for the frame of a request, one for the frame of its reply.
//!
//! Between the two processes, messages decide whose turn it is: the request's half belongs to the client until the request is
//! sent and to the server until it is answered; the reply's half the other way round. Within a process, the code that
//! accesses a half holds its [`Loan`] (`half.rs`), and no message passes a half on while it is lent.
//!
//! `memory.rs` justifies the unsafe code. It trusts that the peer, which has the job's token and this user's rights, keeps
//! to its turns. A peer that does not can change numbers that are being read. Lengths and headers are copied before they
//! are checked; numbers are only ever read as numbers.

#![allow(unsafe_code)]

use super::half::{self, Loan};
use crate::frame::{InFrame, OutFrame};
use crate::limits;
use crate::memory::{self, Mapping};
use bytes::Bytes;
use phalanx_base::{Code, Error, Result};
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The number of replies of one connection that may be in use at once.
const SLOTS: usize = 4;
const HALF: usize = limits::FRAME_BYTES;
const SIZE: usize = SLOTS * 2 * HALF;

/// The lengths of a frame in a slot. The body comes first, then the header.
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
pub(crate) struct SharedSlot {
    request: SharedHalf,
    answer: SharedHalf,
}

/// Maps the slots of one connection.
pub(super) fn slots(file: &OwnedFd) -> io::Result<Vec<SharedSlot>> {
    let mapping = Arc::new(Mapping::new(file, SIZE)?);
    let half = |start| SharedHalf { mapping: Arc::clone(&mapping), start, owner: half::Half::new() };
    Ok((0..SLOTS).map(|i| SharedSlot { request: half(2 * i * HALF), answer: half((2 * i + 1) * HALF) }).collect())
}

/// Creates the memory for the slots of one connection.
pub(super) fn file() -> io::Result<OwnedFd> {
    memory::file(SIZE)
}

/// Why a frame could not be put into a slot.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    /// The frame is too large.
    TooLarge,
    /// An earlier frame in this slot is still in use.
    InUse,
}

impl SharedSlot {
    /// Whether nothing in this process holds any of the slot.
    pub(super) fn is_free(&self) -> bool {
        self.request.owner.is_free() && self.answer.owner.is_free()
    }

    /// Copies the client's request into the slot.
    pub(super) fn put_request(&self, frame: &OutFrame) -> Result<Lengths, Unfit> {
        self.request.lend().ok_or(Unfit::InUse)?.write(frame)
    }

    /// Returns the server's view of the request, whose reply can be written into this slot directly.
    pub(super) fn take_request(&self, lengths: Lengths) -> Result<InFrame> {
        let frame = self.request.take(lengths)?;
        Ok(match self.answer.lend() {
            Some(view) => frame.with_answer(view),
            None => frame,
        })
    }

    /// Puts the server's reply into the slot: only its header, if its body was written here.
    pub(super) fn put_answer(&self, frame: OutFrame) -> Result<Lengths, Unfit> {
        match frame.into_reply() {
            Ok((header, mut view)) if view.loan.is_of(&self.answer.owner) => {
                let body = view.len;
                let lengths = Lengths::new(header.len(), body).ok_or(Unfit::TooLarge)?;
                view.len = body + header.len();
                view[body..].copy_from_slice(&header);
                Ok(lengths)
            }
            // The body is in the slot of another request.
            Ok((header, elsewhere)) => {
                self.put_answer(OutFrame::from_parts(header, Bytes::copy_from_slice(&elsewhere)))
            }
            Err(frame) => self.answer.lend().ok_or(Unfit::InUse)?.write(&frame),
        }
    }

    /// Returns the client's view of the reply.
    pub(super) fn take_answer(&self, lengths: Lengths) -> Result<InFrame> {
        self.answer.take(lengths)
    }
}

/// One half of a slot.
#[derive(Debug)]
struct SharedHalf {
    mapping: Arc<Mapping>,
    /// The offset in the mapping. The half is `HALF` bytes long.
    start: usize,
    owner: Arc<half::Half>,
}

impl SharedHalf {
    /// Borrows the half; `None` while it is borrowed.
    fn lend(&self) -> Option<BorrowedHalf> {
        let loan = half::Half::lend(&self.owner)?;
        // SAFETY: `start + HALF` is at most the mapping's size.
        let address = unsafe { self.mapping.address().add(self.start) };
        Some(BorrowedHalf { mapping: Arc::clone(&self.mapping), address, len: HALF, loan })
    }

    fn take(&self, lengths: Lengths) -> Result<InFrame> {
        let broken = |why: String| Error::new(Code::BadMessage, "a frame is malformed").because(why);
        if !lengths.fit() {
            return Err(broken(format!("{lengths:?}")));
        }
        let mut view = self.lend().ok_or_else(|| broken("the frame before it is still in use".into()))?;
        let (header, body) = (lengths.header as usize, lengths.body as usize);
        // Copied, so that the peer cannot change it while it is decoded.
        let header = Bytes::copy_from_slice(&view[body..body + header]);
        view.len = body;
        Ok(InFrame::from_parts(header, Bytes::from_owner(view)))
    }
}

/// An exclusive view of the first `len` bytes of a half.
#[derive(Debug)]
pub(crate) struct BorrowedHalf {
    /// Keeps the memory mapped.
    #[allow(dead_code, reason = "held so that the address stays valid")]
    mapping: Arc<Mapping>,
    address: *mut u8,
    /// At most `HALF`.
    len: usize,
    /// Dropped after the last access.
    loan: Loan,
}

// SAFETY: a view is the only holder of its memory in this process, on whatever thread.
unsafe impl Send for BorrowedHalf {}
// SAFETY: a shared view is only read.
unsafe impl Sync for BorrowedHalf {}

impl BorrowedHalf {
    /// Shortens it to the first `len` bytes; `None` if there are fewer.
    pub(crate) fn first(mut self, len: usize) -> Option<Self> {
        (len <= HALF).then(|| {
            self.len = len;
            self
        })
    }

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

impl Deref for BorrowedHalf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: inside of the mapping, which `mapping` keeps alive. `loan` is the only one of this half, so nothing else in
        // this process writes here. The peer does not write here before this side's next message, which is not sent while
        // a half is lent.
        unsafe { std::slice::from_raw_parts(self.address, self.len) }
    }
}

impl DerefMut for BorrowedHalf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed for this alone.
        unsafe { std::slice::from_raw_parts_mut(self.address, self.len) }
    }
}

impl AsRef<[u8]> for BorrowedHalf {
    fn as_ref(&self) -> &[u8] {
        self
    }
}
