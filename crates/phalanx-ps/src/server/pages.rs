//! Large pages for large tables.

#![allow(unsafe_code)]

/// The size of one large page; smaller memory is not worth it.
#[cfg(target_os = "linux")]
const LARGE: usize = 2 << 20;

/// Requests large pages, before the memory is first touched. Without them, nearly every access to a random row of many
/// gigabytes is a TLB miss too. This is a hint: where the system ignores it, only time is lost.
pub(super) fn request_large_pages<T>(memory: &[T]) {
    #[cfg(target_os = "linux")]
    {
        let start = memory.as_ptr() as usize;
        let (first, last) = (start.next_multiple_of(LARGE), (start + size_of_val(memory)) / LARGE * LARGE);
        if first < last {
            let from = memory.as_ptr().wrapping_byte_add(first - start).cast_mut().cast();
            // SAFETY: the range is inside memory that the caller borrows, and its contents stay.
            let _ = unsafe { rustix::mm::madvise(from, last - first, rustix::mm::Advice::LinuxHugepage) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = memory;
}
