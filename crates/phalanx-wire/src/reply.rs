//! The output buffer of a reply. Whenever possible it is the memory the reply is sent from, so nothing is copied.

use crate::buffer_pool::{BufferPool, PooledBuffer};
use crate::same_host::BorrowedHalf;
use bytes::Bytes;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// The memory for the body of one reply, created by [`InFrame::reply`](crate::InFrame::reply).
///
/// It owns its memory exclusively. Fill it and pass it to [`OutFrame::reply`](crate::OutFrame::reply), which sends it as the
/// entire body.
///
/// ```
/// # use phalanx_wire::{OutFrame, proto::control::Identity};
/// # let mut request = OutFrame::default().to_in_frame().unwrap();
/// let mut buffer = request.reply(4);
/// buffer.copy_from_slice(b"abcd");
/// let answer = OutFrame::reply(&Identity::default(), buffer);
/// assert_eq!(&answer.to_in_frame().unwrap().body()[..], b"abcd");
/// ```
///
/// No part of it can outlive the reply: it does not convert to `Bytes`,
///
/// ```compile_fail,E0277
/// # use phalanx_wire::OutFrame;
/// # let mut request = OutFrame::default().to_in_frame().unwrap();
/// let buffer = request.reply(4);
/// let mut answer = OutFrame::default();
/// answer.push(bytes::Bytes::from_static(b"first"));
/// answer.push(buffer.into()); // would write over memory that the `Bytes` aliases
/// ```
///
/// and it cannot be written to once it is part of a frame.
///
/// ```compile_fail,E0382
/// # use phalanx_wire::{OutFrame, proto::control::Identity};
/// # let mut request = OutFrame::default().to_in_frame().unwrap();
/// let mut buffer = request.reply(4);
/// let answer = OutFrame::reply(&Identity::default(), buffer);
/// buffer[0] = 1;
/// ```
#[derive(Debug)]
pub struct ReplyBuffer(Memory);

#[derive(Debug)]
enum Memory {
    Own(Vec<u8>),
    Pooled(PooledBuffer),
    Slot(BorrowedHalf),
}

impl ReplyBuffer {
    pub(crate) fn own(len: usize) -> Self {
        Self(Memory::Own(vec![0; len]))
    }

    /// Returns a pooled buffer if `len` is worth pooling. For a caller in this process.
    pub(crate) fn pooled(pool: &Arc<BufferPool>, len: usize) -> Self {
        pool.take(len).map_or_else(|| Self::own(len), |buffer| Self(Memory::Pooled(buffer)))
    }

    /// Returns the first `len` bytes of the memory shared with the caller, if it is large enough.
    pub(crate) fn shared(half: BorrowedHalf, len: usize) -> Self {
        half.first(len).map_or_else(|| Self::own(len), |half| Self(Memory::Slot(half)))
    }

    /// Returns the shared memory that holds the bytes, else the bytes.
    pub(crate) fn into_slot(self) -> Result<BorrowedHalf, Bytes> {
        match self.0 {
            Memory::Slot(half) => Ok(half),
            Memory::Own(bytes) => Err(bytes.into()),
            Memory::Pooled(buffer) => Err(Bytes::from_owner(buffer)),
        }
    }

    /// Returns the bytes for any receiver. Bytes in a slot are copied, because a slot may not be held longer than its
    /// request.
    pub(crate) fn into_bytes(self) -> Bytes {
        self.into_slot().map_or_else(|bytes| bytes, |half| Bytes::copy_from_slice(&half))
    }
}

impl Deref for ReplyBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Memory::Own(bytes) => bytes,
            Memory::Pooled(buffer) => buffer.as_ref(),
            Memory::Slot(half) => half,
        }
    }
}

impl DerefMut for ReplyBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Memory::Own(bytes) => bytes,
            Memory::Pooled(buffer) => buffer.as_mut(),
            Memory::Slot(half) => half,
        }
    }
}
