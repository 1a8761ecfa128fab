//! Memory prefetching.

#![allow(unsafe_code)]

/// Hints to the CPU that these values will be read soon. Without it, random row lookups wait for memory one after the
/// other.
///
/// ```
/// phalanx_base::prefetch(&[1.0, 2.0]);
/// ```
#[inline]
pub fn prefetch<T>(values: &[T]) {
    /// Bytes of a cache line.
    const LINE: usize = 64;
    /// Beyond this, the hardware prefetcher has recognised the sequence and continues by itself.
    const LINES: usize = 4;
    #[cfg(target_arch = "x86_64")]
    for line in 0..size_of_val(values).div_ceil(LINE).min(LINES) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint about memory that may be read; it changes nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(values.as_ptr().cast::<i8>().wrapping_add(line * LINE)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (values, LINE, LINES);
}
