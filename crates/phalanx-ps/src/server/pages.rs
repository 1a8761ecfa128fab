//! Large pages for large tables.

#![allow(unsafe_code)]

/// Smaller memory is not worth it: one large page has this many bytes.
#[cfg(target_os = "linux")]
const LARGE: usize = 2 << 20;

/// Asks for large pages, before the memory is first touched. Rows at random places of many gigabytes are otherwise looked
/// for twice: where their page is, and then themselves. A hint; where it is not taken nothing is lost but time.
pub(super) fn in_large_pages<T>(memory: &[T]) {
    #[cfg(target_os = "linux")]
    {
        let start = memory.as_ptr() as usize;
        let (first, last) = (start.next_multiple_of(LARGE), (start + size_of_val(memory)) / LARGE * LARGE);
        if first < last {
            let from = memory.as_ptr().wrapping_byte_add(first - start).cast_mut().cast();
            // SAFETY: the range is inside of memory that is the caller's, and what is in it stays.
            let _ = unsafe { rustix::mm::madvise(from, last - first, rustix::mm::Advice::LinuxHugepage) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = memory;
}
