//! A hint to the processor.

#![allow(unsafe_code)]

/// Says that these values will be needed soon, so that they are on their way when they are. Looking rows up at random
/// is otherwise one wait for memory after the other.
///
/// ```
/// phalanx_base::prefetch(&[1.0, 2.0]);
/// ```
#[inline]
pub fn prefetch<T>(values: &[T]) {
    /// Bytes of a cache line.
    const LINE: usize = 64;
    /// More than this the processor fetches by itself once it has seen the beginning.
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
