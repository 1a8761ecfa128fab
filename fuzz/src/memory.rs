//! An allocator that measures peak memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator with counters for current and peak use. Exact while only one thread works.
pub struct Counting {
    now: AtomicUsize,
    peak: AtomicUsize,
}

impl Default for Counting {
    fn default() -> Self {
        Self::new()
    }
}

impl Counting {
    /// Creates an allocator with nothing in use.
    #[must_use]
    pub const fn new() -> Self {
        Self { now: AtomicUsize::new(0), peak: AtomicUsize::new(0) }
    }

    /// Calls `work`; returns its result and by how many bytes memory use rose at its peak.
    pub fn peak_of<T>(&self, work: impl FnOnce() -> T) -> (T, usize) {
        let before = self.now.load(Relaxed);
        self.peak.store(before, Relaxed);
        let done = work();
        (done, self.peak.load(Relaxed).saturating_sub(before))
    }

    fn add(&self, bytes: usize) {
        let now = self.now.fetch_add(bytes, Relaxed) + bytes;
        self.peak.fetch_max(now, Relaxed);
    }
}

// SAFETY: every call goes to `System` as it came; the counters own no memory.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.add(layout.size());
        // SAFETY: the caller's promise is `System`'s.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.add(layout.size());
        // SAFETY: the caller's promise is `System`'s.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        self.now.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise is `System`'s.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Old and new block count together, because both exist while the bytes are moved.
        self.add(size);
        self.now.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise is `System`'s.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
