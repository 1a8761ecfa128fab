//! Memory shared by two processes: a ring of bytes in each direction.
//!
//! The reason for the unsafe code here and in `ring`: an all-reduce of 5 MiB between two processes takes half as long
//! as over Unix sockets (docs/decisions/010-collectives.md).

#![allow(unsafe_code)]

use super::ring::{Consumer, Producer, RingMemory, Word};
use crate::sync::Arc;
use crate::sync::atomic::AtomicU64;
use phalanx_wire::memory::Mapping;
use std::io;
use std::os::fd::OwnedFd;
use std::ptr;

/// The size of the header with the shared words, each in a cache line of its own.
const HEAD: usize = 4096;
const RING: usize = HEAD + Shared::CAPACITY;
/// The size of a file with both rings.
pub(super) const SIZE: usize = 2 * RING;

/// One ring of a mapped file, which one process writes and the other reads.
pub(super) struct Shared {
    mapping: Arc<Mapping>,
    start: usize,
}

// SAFETY: the words and the bytes are at fixed offsets of a mapping that lives as long as `self`; different positions
// are different memory.
unsafe impl RingMemory for Shared {
    /// Small enough to stay in the L2 cache.
    const CAPACITY: usize = 256 << 10;

    fn word(&self, word: Word) -> &AtomicU64 {
        // SAFETY: inside of the mapping, since there are four words and `HEAD` is larger than four cache lines; aligned to a
        // cache line; alive as long as `self`; accessed by both processes as an atomic only.
        unsafe { AtomicU64::from_ptr(self.mapping.address().add(self.start + 64 * word as usize).cast()) }
    }

    unsafe fn write(&self, at: usize, bytes: &[u8]) {
        // SAFETY: the caller guarantees that the bytes end inside of the ring, which ends inside of the mapping, and
        // that nothing else in this process accesses them. `bytes` is not in the mapping: no reference into it is ever
        // made.
        unsafe {
            let to = self.mapping.address().add(self.start + HEAD + at);
            ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
    }

    unsafe fn read(&self, at: usize, into: &mut [u8]) {
        // SAFETY: as in `write`; every byte of the mapping is initialised, by the kernel at first.
        unsafe {
            let from = self.mapping.address().add(self.start + HEAD + at);
            ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len());
        }
    }
}

/// Which of the two processes this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The process that created and offered the file. It writes to the first ring.
    Offering,
    /// The process that accepted the file. It writes to the second ring.
    Accepting,
}

/// This process's ends of the two rings of a file: the one it writes to, and the one it reads from.
pub(super) type Ends = (Producer<Shared>, Consumer<Shared>);

/// Maps a file of [`SIZE`] bytes and returns this side's ends of its rings.
///
/// # Errors
/// When it is not such a file, or cannot be mapped.
pub(super) fn ends(file: &OwnedFd, side: Side) -> io::Result<Ends> {
    let mapping = Arc::new(Mapping::new(file, SIZE)?);
    let ring = |start| Shared { mapping: Arc::clone(&mapping), start };
    let (out, coming) = match side {
        Side::Offering => (ring(0), ring(RING)),
        Side::Accepting => (ring(RING), ring(0)),
    };
    // SAFETY: the mapping was created here, so these are its only ends. Another mapping of the file is like another
    // process: it can only corrupt bytes.
    unsafe { Ok((Producer::new(out), Consumer::new(coming))) }
}

/// Fails to compile if two threads could use one end at the same time: moving bytes must take `&mut`, and an end must
/// not be `Clone`.
const _: () = {
    trait AmbiguousIfClone<A> {
        fn check() {}
    }
    impl<T> AmbiguousIfClone<()> for T {}
    impl<T: Clone> AmbiguousIfClone<u8> for T {}
    let _: fn(&mut Producer<Shared>, &[u8]) -> io::Result<usize> = Producer::put;
    let _: fn(&mut Consumer<Shared>, &mut [u8]) -> io::Result<usize> = Consumer::take;
    let _ = <Producer<Shared> as AmbiguousIfClone<_>>::check;
    let _ = <Consumer<Shared> as AmbiguousIfClone<_>>::check;
    const fn is_send<T: Send>() {}
    is_send::<Ends>();
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::atomic::Ordering;
    use phalanx_wire::memory::file;

    #[test]
    fn bytes_come_out_in_order_whatever_the_portions() {
        let shared = file(SIZE).unwrap();
        let (mut near, _) = ends(&shared, Side::Offering).unwrap();
        let (_, mut far) = ends(&shared, Side::Accepting).unwrap();
        let all: Vec<u8> = (0..3_000_000_u32).map(|i| (i % 251) as u8).collect();
        let wanted = all.clone();
        let writer = std::thread::spawn(move || {
            let (mut rest, mut portion) = (&all[..], 1);
            while !rest.is_empty() {
                rest = &rest[near.put(&rest[..portion.min(rest.len())]).unwrap()..];
                portion = portion * 7 % 100_003;
            }
            near
        });
        let (mut got, mut portion, mut buffer) = (Vec::new(), 3, vec![0; 100_003]);
        while got.len() < wanted.len() {
            let count = far.take(&mut buffer[..portion]).unwrap();
            got.extend_from_slice(&buffer[..count]);
            portion = portion * 5 % 100_003;
        }
        let near = writer.join().unwrap();
        assert!(got == wanted);
        assert!(!far.is_ready() && near.is_ready());
    }

    #[test]
    fn each_direction_has_a_ring_of_its_own() {
        let shared = file(SIZE).unwrap();
        let (mut near_out, mut near_in) = ends(&shared, Side::Offering).unwrap();
        let (mut far_out, mut far_in) = ends(&shared, Side::Accepting).unwrap();
        assert_eq!((near_out.put(&[1, 2]).unwrap(), far_out.put(&[3]).unwrap()), (2, 1));
        let (mut there, mut back) = ([0; 4], [0; 4]);
        assert_eq!((far_in.take(&mut there).unwrap(), near_in.take(&mut back).unwrap()), (2, 1));
        assert_eq!((there, back), ([1, 2, 0, 0], [3, 0, 0, 0]));
    }

    #[test]
    fn a_ring_that_the_other_side_broke_is_an_error() {
        let shared = file(SIZE).unwrap();
        let (mut out, mut coming) = ends(&shared, Side::Offering).unwrap();
        let broken = |start, word, value| {
            let mapping = Arc::new(Mapping::new(&shared, SIZE).unwrap());
            Shared { mapping, start }.word(word).store(value, Ordering::SeqCst);
        };
        for value in [1, u64::MAX / 2, u64::MAX - Shared::CAPACITY as u64] {
            broken(0, Word::Read, value);
            assert!(out.put(&[1]).is_err() && out.is_ready(), "{value}");
        }
        for value in [Shared::CAPACITY as u64 + 1, u64::MAX / 2, u64::MAX] {
            broken(RING, Word::Written, value);
            assert!(coming.take(&mut [0]).is_err() && coming.is_ready(), "{value}");
        }
    }
}
