//! A hint to the processor.

#![allow(unsafe_code)]

/// Says that these numbers will be needed soon, so that they are on their way when they are. Looking rows up at random
/// is otherwise one wait for memory after the other.
///
/// ```
/// phalanx_base::prefetch(&[1.0, 2.0]);
/// ```
#[inline]
pub fn prefetch(numbers: &[f32]) {
    /// Numbers in a cache line.
    const LINE: usize = 16;
    /// More than this the processor fetches by itself once it has seen the beginning.
    const LINES: usize = 4;
    #[cfg(target_arch = "x86_64")]
    for first in numbers.iter().step_by(LINE).take(LINES) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint about memory that may be read; it changes nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(first).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (numbers, LINE, LINES);
}
