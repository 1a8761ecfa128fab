//! Memory of a fixed size that a log is written to.
//!
//! The reason for the unsafe code: records are copied once, straight into memory that outlives the process. A `write` into
//! the page cache costs two to three times as much.

#![allow(unsafe_code)]

use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fs::File;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes in a word. Words are read and written as a whole.
pub const WORD: usize = 8;

/// A piece of a log's memory. Whoever appends owns the bytes it has reserved; words at their edges are atomic.
#[derive(Debug)]
pub struct Segment {
    address: NonNull<u8>,
    size: usize,
    mapped: bool,
}

// SAFETY: the memory is valid until the value is dropped, on whatever thread; each access justifies itself.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

impl Segment {
    /// Allocates a segment of zeros on the heap, for simulations.
    ///
    /// ```
    /// let segment = phalanx_wal::Segment::heap(4096);
    /// assert_eq!(segment.word(8), 0);
    /// ```
    ///
    /// # Panics
    /// When `size` is 0 or no multiple of [`WORD`].
    #[must_use]
    pub fn heap(size: usize) -> Self {
        let layout = layout(size);
        // SAFETY: the layout has a size, which is checked in `layout`.
        let memory = unsafe { alloc_zeroed(layout) };
        let Some(address) = NonNull::new(memory) else { handle_alloc_error(layout) };
        Self { address, size, mapped: false }
    }

    /// Maps a file of exactly this size, whose pages exist: accessing a page that the file system cannot provide would kill
    /// the process.
    ///
    /// # Errors
    /// When it has another size, or cannot be mapped.
    pub fn map(file: &File, size: usize) -> io::Result<Self> {
        if size == 0 || !size.is_multiple_of(WORD) || file.metadata()?.len() != size as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("it is not of {size} bytes")));
        }
        // Populated now: a page fault for every four KiB of a first append would cost more than the copy.
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address that the kernel chooses; it aliases nothing in this process. Only this task's
        // user can open the file, and no task of a job shrinks it.
        let address = unsafe { mmap(ptr::null_mut(), size, ProtFlags::READ | ProtFlags::WRITE, flags, file, 0)? };
        let address = NonNull::new(address.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Self { address, size, mapped: true })
    }

    /// Returns its size in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns the word at this byte.
    #[must_use]
    pub fn word(&self, at: usize) -> u64 {
        self.atomic(at).load(Ordering::Acquire)
    }

    /// Writes the word at this byte, after everything that this thread has written before.
    pub fn set_word(&self, at: usize, value: u64) {
        #[cfg(test)]
        if !fuel::burn() {
            return;
        }
        self.atomic(at).store(value, Ordering::Release);
    }

    /// Returns the bytes of a record that was committed, or whose process is gone.
    #[must_use]
    pub fn bytes(&self, at: usize, len: usize) -> &[u8] {
        self.check(at, len);
        // SAFETY: inside of the memory, which is initialised. Bytes of a record do not change after it was committed, until
        // the segment is recycled, which needs all of its records to be truncated.
        unsafe { std::slice::from_raw_parts(self.address.as_ptr().add(at), len) }
    }

    /// Copies bytes into the body of a record that only the caller writes.
    pub(crate) fn copy(&self, at: usize, bytes: &[u8]) {
        #[cfg(test)]
        if !fuel::burn() {
            return;
        }
        self.check(at, bytes.len());
        // SAFETY: inside of the memory; the caller has reserved these bytes, so nobody else reads or writes them.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.address.as_ptr().add(at), bytes.len()) }
    }

    /// Has `write` fill bytes of a record that only the caller writes.
    pub(crate) fn fill(&self, at: usize, len: usize, write: impl FnOnce(&mut [u8])) {
        self.check(at, len);
        // SAFETY: as in `copy`; the reference does not leave `write`.
        write(unsafe { std::slice::from_raw_parts_mut(self.address.as_ptr().add(at), len) });
    }

    /// Writes everything to the disk that the segment's file lies on.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn sync(&self) -> io::Result<()> {
        if self.mapped {
            // SAFETY: the range is this mapping.
            unsafe { msync(self.address.as_ptr().cast(), self.size, MsyncFlags::SYNC)? };
        }
        Ok(())
    }

    fn atomic(&self, at: usize) -> &AtomicU64 {
        self.check(at, WORD);
        assert!(at.is_multiple_of(WORD), "{at} is not the place of a word");
        // SAFETY: inside of the memory, and aligned, as the memory is. Words at such places are accessed as atomics only,
        // except in bodies, which have one writer and are read after they were committed.
        unsafe { AtomicU64::from_ptr(self.address.as_ptr().add(at).cast()) }
    }

    fn check(&self, at: usize, len: usize) {
        assert!(at.checked_add(len).is_some_and(|end| end <= self.size), "{len} bytes at {at} of {}", self.size);
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if self.mapped {
            // SAFETY: mapped in `map` with this size, and no access to it remains.
            let _ = unsafe { munmap(self.address.as_ptr().cast(), self.size) };
        } else {
            // SAFETY: allocated in `heap` with this layout, and no access to it remains.
            unsafe { dealloc(self.address.as_ptr(), layout(self.size)) };
        }
    }
}

fn layout(size: usize) -> Layout {
    assert!(size > 0 && size.is_multiple_of(WORD), "a segment of {size} bytes");
    Layout::from_size_align(size, 64).unwrap_or_else(|_| panic!("a segment of {size} bytes"))
}

/// A test's process dies after a number of stores: what it stores then reaches no memory.
#[cfg(test)]
pub(crate) mod fuel {
    use std::cell::Cell;

    thread_local!(static LEFT: Cell<Option<u64>> = const { Cell::new(None) });

    pub(crate) fn set(stores: Option<u64>) {
        LEFT.set(stores);
    }

    pub(super) fn burn() -> bool {
        let left = LEFT.get();
        LEFT.set(left.map(|stores| stores.saturating_sub(1)));
        left != Some(0)
    }

    /// Whether the process lives.
    pub(crate) fn is_left() -> bool {
        LEFT.get() != Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_mapping_writes_the_next_one_reads() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8192).unwrap();
        let first = Segment::map(&file, 8192).unwrap();
        first.copy(4096, b"acknowledged");
        first.set_word(16, 7);
        first.sync().unwrap();
        drop(first);
        let next = Segment::map(&file, 8192).unwrap();
        assert_eq!((next.bytes(4096, 12), next.word(16), next.size()), (&b"acknowledged"[..], 7, 8192));
    }

    #[test]
    fn a_file_of_another_size_is_refused() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        assert!(Segment::map(&file, 8192).is_err() && Segment::map(&file, 0).is_err());
    }

    #[test]
    #[should_panic(expected = "bytes at")]
    fn nothing_outside_of_a_segment_is_read() {
        let _ = Segment::heap(64).bytes(60, 8);
    }
}
