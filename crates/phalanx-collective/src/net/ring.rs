//! A lock-free ring of bytes with one producer and one consumer.
//!
//! Each end owns its position and needs `&mut self` to move bytes, so one end cannot be used by two threads at once.
//! `tests/loom` checks this file under every interleaving of both ends.

#![allow(unsafe_code)]

use crate::sync::atomic::{AtomicU64, Ordering, fence};
use std::io;

/// The words that both ends of a ring share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// Bytes written since the beginning. Only the producer changes it.
    Written,
    /// Bytes read since the beginning. Only the consumer changes it.
    Read,
    /// Not zero while the consumer sleeps until there are bytes.
    ConsumerWaits,
    /// Not zero while the producer sleeps until there is free capacity.
    ProducerWaits,
}

/// The memory of one ring.
///
/// # Safety
/// [`Self::word`] returns the same atomic for the same word every time. The bytes that [`Self::write`] stores at a position
/// are those that [`Self::read`] loads from it. Both may be called at the same time for different positions.
pub(super) unsafe trait RingMemory {
    /// The capacity in bytes; a power of two.
    const CAPACITY: usize;

    /// Returns a word that both ends share.
    fn word(&self, word: Word) -> &AtomicU64;

    /// Stores `bytes` at position `at`.
    ///
    /// # Safety
    /// `at + bytes.len() <= CAPACITY`, and no other thread of this process reads or writes these positions meanwhile.
    unsafe fn write(&self, at: usize, bytes: &[u8]);

    /// Loads bytes from position `at`.
    ///
    /// # Safety
    /// `at + into.len() <= CAPACITY`, and no other thread of this process writes these positions meanwhile.
    unsafe fn read(&self, at: usize, into: &mut [u8]);
}

/// The writing end of a ring. There is one, and it cannot be cloned.
pub(super) struct Producer<M> {
    memory: M,
    /// Bytes written since the beginning. The shared word is for the consumer and never read back.
    written: u64,
}

/// The reading end of a ring. There is one, and it cannot be cloned.
pub(super) struct Consumer<M> {
    memory: M,
    /// Bytes read since the beginning.
    read: u64,
}

/// Returns the number of bytes between two positions.
///
/// # Errors
/// When there are more than the capacity: the other end has corrupted the ring.
fn unread<M: RingMemory>(written: u64, read: u64) -> io::Result<usize> {
    match usize::try_from(written.wrapping_sub(read)) {
        Ok(unread) if unread <= M::CAPACITY => Ok(unread),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Returns the index of a position, and how many of `count` bytes from there come before the end of the ring.
fn span<M: RingMemory>(position: u64, count: usize) -> (usize, usize) {
    const { assert!(M::CAPACITY.is_power_of_two()) };
    let at = position as usize % M::CAPACITY;
    (at, count.min(M::CAPACITY - at))
}

/// Publishes whether an end sleeps. The end must check for progress once more before it sleeps.
fn set_waits(word: &AtomicU64, waits: bool) {
    word.store(waits.into(), Ordering::SeqCst);
    fence(Ordering::SeqCst);
}

/// Whether the other end must be woken after bytes were moved; true once for each time it waits.
fn must_wake(word: &AtomicU64) -> bool {
    // Either this sees that the other end waits, or the other end sees the bytes that were moved before.
    fence(Ordering::SeqCst);
    word.load(Ordering::SeqCst) != 0 && word.swap(0, Ordering::SeqCst) != 0
}

impl<M: RingMemory> Producer<M> {
    /// Creates the producer of an empty ring.
    ///
    /// # Safety
    /// It is the only producer of this memory in this process, and the consumer of this memory, if it is in this process
    /// too, is a [`Consumer`].
    pub(super) unsafe fn new(memory: M) -> Self {
        Self { memory, written: 0 }
    }

    /// Returns the number of bytes that can be written now.
    fn free(&self) -> io::Result<usize> {
        Ok(M::CAPACITY - unread::<M>(self.written, self.memory.word(Word::Read).load(Ordering::Acquire))?)
    }

    /// Whether [`Self::put`] would move bytes or fail.
    pub(super) fn is_ready(&self) -> bool {
        self.free().map_or(true, |free| free > 0)
    }

    /// Writes as many bytes as fit, and returns how many.
    ///
    /// # Errors
    /// When the other end has corrupted the ring.
    pub(super) fn put(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(self.free()?);
        let (at, first) = span::<M>(self.written, count);
        // SAFETY: both pieces end inside of the ring, since `first <= CAPACITY - at` and `count <= CAPACITY`. They are
        // free: the consumer's release of `Read` happened before `free` loaded it, and the consumer does not access
        // them until `Written` covers them. This is the only producer, and `&mut self` makes this its only call. A peer
        // in another process that violates this can only corrupt bytes.
        unsafe {
            self.memory.write(at, &bytes[..first]);
            self.memory.write(0, &bytes[first..count]);
        }
        self.written = self.written.wrapping_add(count as u64);
        self.memory.word(Word::Written).store(self.written, Ordering::Release);
        Ok(count)
    }

    /// Publishes whether this end sleeps until there is free capacity. Check [`Self::is_ready`] once more after this.
    pub(super) fn set_waits(&self, waits: bool) {
        set_waits(self.memory.word(Word::ProducerWaits), waits);
    }

    /// Whether the consumer must be woken after a [`Self::put`].
    pub(super) fn must_wake(&self) -> bool {
        must_wake(self.memory.word(Word::ConsumerWaits))
    }
}

impl<M: RingMemory> Consumer<M> {
    /// Creates the consumer of an empty ring.
    ///
    /// # Safety
    /// It is the only consumer of this memory in this process, and the producer of this memory, if it is in this process
    /// too, is a [`Producer`].
    pub(super) unsafe fn new(memory: M) -> Self {
        Self { memory, read: 0 }
    }

    /// Returns the number of bytes that can be read now.
    fn available(&self) -> io::Result<usize> {
        unread::<M>(self.memory.word(Word::Written).load(Ordering::Acquire), self.read)
    }

    /// Whether [`Self::take`] would move bytes or fail.
    pub(super) fn is_ready(&self) -> bool {
        self.available().map_or(true, |available| available > 0)
    }

    /// Reads the available bytes, and returns how many.
    ///
    /// # Errors
    /// When the other end has corrupted the ring.
    pub(super) fn take(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = into.len().min(self.available()?);
        let (at, first) = span::<M>(self.read, count);
        let (one, other) = into[..count].split_at_mut(first);
        // SAFETY: both pieces end inside of the ring, as in `put`. They are written: the producer's release of
        // `Written` happened before `available` loaded it, and the producer does not access them until `Read` covers
        // them.
        unsafe {
            self.memory.read(at, one);
            self.memory.read(0, other);
        }
        self.read = self.read.wrapping_add(count as u64);
        self.memory.word(Word::Read).store(self.read, Ordering::Release);
        Ok(count)
    }

    /// Publishes whether this end sleeps until there are bytes. Check [`Self::is_ready`] once more after this.
    pub(super) fn set_waits(&self, waits: bool) {
        set_waits(self.memory.word(Word::ConsumerWaits), waits);
    }

    /// Whether the producer must be woken after a [`Self::take`].
    pub(super) fn must_wake(&self) -> bool {
        must_wake(self.memory.word(Word::ProducerWaits))
    }
}
