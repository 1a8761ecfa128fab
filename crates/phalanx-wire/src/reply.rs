//! The output buffer of a reply. Whenever possible it is the memory the reply is sent from, so nothing is copied.

use crate::neighbour::AnswerHalf;
use crate::spares::{Spare, Spares};
use bytes::Bytes;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// The memory for the body of one reply, made by [`InFrame::reply`](crate::InFrame::reply).
///
/// It owns its memory alone, and there is one way to use it: fill it and hand it to
/// [`OutFrame::reply`](crate::OutFrame::reply), which takes it as the whole body.
///
/// ```
/// # use phalanx_wire::{OutFrame, proto::params::Handles};
/// # let mut request = OutFrame::default().to_in_frame().unwrap();
/// let mut buffer = request.reply(4);
/// buffer.copy_from_slice(b"abcd");
/// let answer = OutFrame::reply(&Handles::default(), buffer);
/// assert_eq!(&answer.to_in_frame().unwrap().body()[..], b"abcd");
/// ```
///
/// No part of it can outlive the reply: it does not turn into `Bytes`,
///
/// ```compile_fail,E0277
/// # use phalanx_wire::OutFrame;
/// # let mut request = OutFrame::default().to_in_frame().unwrap();
/// let buffer = request.reply(4);
/// let mut answer = OutFrame::default();
/// answer.push(bytes::Bytes::from_static(b"first"));
/// answer.push(buffer.into()); // was written over memory that the `Bytes` aliased
/// ```
///
/// and nobody can write to it once it is part of a frame.
///
/// ```compile_fail,E0382
/// # use phalanx_wire::{OutFrame, proto::params::Handles};
/// # let mut request = OutFrame::default().to_in_frame().unwrap();
/// let mut buffer = request.reply(4);
/// let answer = OutFrame::reply(&Handles::default(), buffer);
/// buffer[0] = 1;
/// ```
#[derive(Debug)]
pub struct ReplyBuffer(Memory);

#[derive(Debug)]
enum Memory {
    Own(Vec<u8>),
    Spare(Spare),
    Slot(AnswerHalf),
}

impl ReplyBuffer {
    pub(crate) fn own(len: usize) -> Self {
        Self(Memory::Own(vec![0; len]))
    }

    /// A pooled buffer, for a caller in this process, where `len` is worth pooling.
    pub(crate) fn pooled(spares: &Arc<Spares>, len: usize) -> Self {
        spares.take(len).map_or_else(|| Self::own(len), |spare| Self(Memory::Spare(spare)))
    }

    /// The first `len` bytes of the memory shared with the caller, where there are so many.
    pub(crate) fn shared(half: AnswerHalf, len: usize) -> Self {
        half.first(len).map_or_else(|| Self::own(len), |half| Self(Memory::Slot(half)))
    }

    /// The shared memory that the bytes lie in, or the bytes.
    pub(crate) fn into_slot(self) -> Result<AnswerHalf, Bytes> {
        match self.0 {
            Memory::Slot(half) => Ok(half),
            Memory::Own(bytes) => Err(bytes.into()),
            Memory::Spare(spare) => Err(Bytes::from_owner(spare)),
        }
    }

    /// The bytes, for a receiver other than the one whose memory they may lie in: copied out of a slot, which may not
    /// be held longer than its request.
    pub(crate) fn into_bytes(self) -> Bytes {
        self.into_slot().map_or_else(|bytes| bytes, |half| Bytes::copy_from_slice(&half))
    }
}

impl Deref for ReplyBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Memory::Own(bytes) => bytes,
            Memory::Spare(spare) => spare.as_ref(),
            Memory::Slot(half) => half,
        }
    }
}

impl DerefMut for ReplyBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Memory::Own(bytes) => bytes,
            Memory::Spare(spare) => spare.as_mut(),
            Memory::Slot(half) => half,
        }
    }
}
