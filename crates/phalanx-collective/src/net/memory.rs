//! Memory that two processes share: a ring of bytes in each direction.
//!
//! The only unsafe code here. What justifies it: an all-reduce of 5 MiB between two processes takes half the time it takes
//! over Unix sockets (docs/decisions/010-collectives.md).

#![allow(unsafe_code)]
#![cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "nothing is shared there"))]

use phalanx_wire::memory::Mapping;
use std::io;
use std::os::fd::OwnedFd;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// What a ring holds; a power of two, and small enough to stay in the second-level cache.
const CAPACITY: usize = 256 << 10;
/// Before the bytes: four words, each in a cache line of its own.
const HEAD: usize = 4096;
const RING: usize = HEAD + CAPACITY;
/// The bytes of a file with both rings.
pub(super) const SIZE: usize = 2 * RING;

/// Bytes written since the beginning; only the writer changes it.
const WRITTEN: usize = 0;
/// Bytes read since the beginning; only the reader changes it.
const READ: usize = 1;
const READER_WAITS: usize = 2;
const WRITER_WAITS: usize = 3;

/// One direction: bytes that one process writes and the other reads, without a lock.
pub(super) struct Ring {
    mapping: Arc<Mapping>,
    start: usize,
}

impl Ring {
    /// Both rings of a file of [`SIZE`] bytes.
    pub(super) fn pair(file: &OwnedFd) -> io::Result<[Self; 2]> {
        let mapping = Arc::new(Mapping::new(file, SIZE)?);
        Ok([0, RING].map(|start| Self { mapping: Arc::clone(&mapping), start }))
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        // SAFETY: inside of the mapping (`index` is one of the four above), aligned to a cache line, alive as long as
        // `self`, and accessed by both processes as an atomic only.
        unsafe { AtomicU64::from_ptr(self.mapping.address().add(self.start + 64 * index).cast()) }
    }

    /// How many bytes were written and how many of them are unread.
    fn state(&self) -> io::Result<(u64, usize)> {
        let written = self.word(WRITTEN).load(Ordering::Acquire);
        let unread = written.wrapping_sub(self.word(READ).load(Ordering::Acquire));
        match usize::try_from(unread) {
            Ok(unread) if unread <= CAPACITY => Ok((written, unread)),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    pub(super) fn has_bytes(&self) -> bool {
        self.state().map_or(true, |(_, unread)| unread > 0)
    }

    pub(super) fn has_room(&self) -> bool {
        self.state().map_or(true, |(_, unread)| unread < CAPACITY)
    }

    /// Puts in as much as there is room for.
    ///
    /// # Errors
    /// When the other process has broken the ring.
    pub(super) fn put(&self, bytes: &[u8]) -> io::Result<usize> {
        let (written, unread) = self.state()?;
        let count = bytes.len().min(CAPACITY - unread);
        let at = written as usize % CAPACITY;
        let first = count.min(CAPACITY - at);
        // SAFETY: both copies end inside of the ring, `first <= CAPACITY - at` and `count <= CAPACITY`; the reader keeps
        // off these bytes until `WRITTEN` says that they are there. A peer that does not can only spoil bytes.
        unsafe {
            let ring = self.mapping.address().add(self.start + HEAD);
            ptr::copy_nonoverlapping(bytes.as_ptr(), ring.add(at), first);
            ptr::copy_nonoverlapping(bytes.as_ptr().add(first), ring, count - first);
        }
        self.word(WRITTEN).store(written.wrapping_add(count as u64), Ordering::Release);
        Ok(count)
    }

    /// Takes out as much as is there.
    ///
    /// # Errors
    /// When the other process has broken the ring.
    pub(super) fn take(&self, into: &mut [u8]) -> io::Result<usize> {
        let (written, unread) = self.state()?;
        let read = written.wrapping_sub(unread as u64);
        let count = into.len().min(unread);
        let at = read as usize % CAPACITY;
        let first = count.min(CAPACITY - at);
        // SAFETY: as in `put`; the writer keeps off these bytes until `READ` says that they are taken.
        unsafe {
            let ring = self.mapping.address().add(self.start + HEAD);
            ptr::copy_nonoverlapping(ring.add(at), into.as_mut_ptr(), first);
            ptr::copy_nonoverlapping(ring, into.as_mut_ptr().add(first), count - first);
        }
        self.word(READ).store(read.wrapping_add(count as u64), Ordering::Release);
        Ok(count)
    }

    /// Says whether the reader sleeps until there are bytes. It must look once more after it has said so.
    pub(super) fn set_reader_waits(&self, waits: bool) {
        self.word(READER_WAITS).store(waits.into(), Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// The same for the writer, and room.
    pub(super) fn set_writer_waits(&self, waits: bool) {
        self.word(WRITER_WAITS).store(waits.into(), Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Whether the reader must be woken after a `put`; once for each time it waits.
    pub(super) fn must_wake_reader(&self) -> bool {
        self.must_wake(READER_WAITS)
    }

    /// Whether the writer must be woken after a `take`.
    pub(super) fn must_wake_writer(&self) -> bool {
        self.must_wake(WRITER_WAITS)
    }

    fn must_wake(&self, waits: usize) -> bool {
        // Either this sees that the other waits, or the other sees what was put or taken before.
        fence(Ordering::SeqCst);
        self.word(waits).load(Ordering::SeqCst) != 0 && self.word(waits).swap(0, Ordering::SeqCst) != 0
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use phalanx_wire::memory::file;

    #[test]
    fn bytes_come_out_in_order_whatever_the_portions() {
        let shared = file(SIZE).unwrap();
        let ([near, _], [far, _]) = (Ring::pair(&shared).unwrap(), Ring::pair(&shared).unwrap());
        let all: Vec<u8> = (0..3_000_000_u32).map(|i| (i % 251) as u8).collect();
        let wanted = all.clone();
        let writer = std::thread::spawn(move || {
            let (mut rest, mut portion) = (&all[..], 1);
            while !rest.is_empty() {
                rest = &rest[near.put(&rest[..portion.min(rest.len())]).unwrap()..];
                portion = portion * 7 % 100_003;
            }
        });
        let (mut got, mut portion, mut buffer) = (Vec::new(), 3, vec![0; 100_003]);
        while got.len() < wanted.len() {
            let count = far.take(&mut buffer[..portion]).unwrap();
            got.extend_from_slice(&buffer[..count]);
            portion = portion * 5 % 100_003;
        }
        writer.join().unwrap();
        assert!(got == wanted);
        assert!(!far.has_bytes() && far.has_room());
    }

    #[test]
    fn a_ring_that_the_other_side_broke_is_an_error() {
        let [ring, _] = Ring::pair(&file(SIZE).unwrap()).unwrap();
        ring.word(READ).store(1, Ordering::SeqCst);
        assert!(ring.put(&[1]).is_err() && ring.take(&mut [0]).is_err());
        ring.word(READ).store(0, Ordering::SeqCst);
        ring.word(WRITTEN).store(u64::MAX / 2, Ordering::SeqCst);
        assert!(ring.put(&[1]).is_err() && ring.take(&mut [0]).is_err());
    }
}
