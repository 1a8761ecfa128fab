//! Output buffers that threads initialize in parallel, which avoids zeroing them on one thread first.

#![allow(unsafe_code)]

use crate::threads::PARALLEL_THRESHOLD;
use rayon::prelude::*;
use std::mem::MaybeUninit;

/// A writer that initializes a slice from front to back.
pub(crate) struct UninitWriter<'a> {
    buffer: &'a mut [MaybeUninit<f32>],
    /// The length of the initialized prefix.
    written: usize,
}

impl UninitWriter<'_> {
    /// Appends `numbers`, dropping those that exceed the capacity.
    pub(crate) fn append(&mut self, numbers: &[f32]) {
        let rest = &mut self.buffer[self.written..];
        let count = numbers.len().min(rest.len());
        rest[..count].write_copy_of_slice(&numbers[..count]);
        self.written += count;
    }

    /// Appends zeros until `count` numbers are written.
    pub(crate) fn append_zeros_until(&mut self, count: usize) {
        let count = count.min(self.buffer.len());
        if count > self.written {
            self.buffer[self.written..count].fill(MaybeUninit::new(0.0));
            self.written = count;
        }
    }

    /// Returns the initialized prefix.
    pub(crate) fn written(&mut self) -> &mut [f32] {
        let written = &mut self.buffer[..self.written];
        // SAFETY: `append` and `append_zeros_until` initialize everything below `written` before they raise it.
        unsafe { written.assume_init_mut() }
    }
}

/// Returns `count` numbers, written by `write` in chunks of `part` numbers; it is given the index of each chunk. Large
/// buffers are written by all threads. Numbers that `write` leaves out become zero.
pub(crate) fn fill_parallel(
    count: usize,
    part: usize,
    write: impl Fn(usize, &mut UninitWriter<'_>) + Sync,
) -> Vec<f32> {
    let mut numbers = Vec::with_capacity(count);
    let each = |(number, buffer): (usize, &mut [MaybeUninit<f32>])| {
        let mut writer = UninitWriter { written: 0, buffer };
        write(number, &mut writer);
        writer.append_zeros_until(usize::MAX);
    };
    let (part, buffer) = (part.max(1), &mut numbers.spare_capacity_mut()[..count]);
    if count < PARALLEL_THRESHOLD {
        buffer.chunks_mut(part).enumerate().for_each(each);
    } else {
        buffer.par_chunks_mut(part).enumerate().with_min_len((PARALLEL_THRESHOLD / 2 / part).max(1)).for_each(each);
    }
    // SAFETY: the capacity is at least `count`, the chunks cover all of it, and each was initialized to its end.
    unsafe { numbers.set_len(count) };
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_written_is_zero() {
        for (count, part) in [(0, 1), (1, 0), (7, 3), (9, 3), (100_003, 17), (40_000, 100_000)] {
            let numbers = fill_parallel(count, part, |number, writer| {
                writer.append(&[number as f32 + 1.0, 2.0, 3.0][..number % 3]);
                writer.written().iter_mut().for_each(|x| *x *= 2.0);
            });
            let at = |i: usize| match (i / part.max(1), i % part.max(1)) {
                (number, 0) if number % 3 > 0 => 2.0 * (number as f32 + 1.0),
                (number, 1) if number % 3 > 1 => 4.0,
                _ => 0.0,
            };
            assert_eq!(numbers, (0..count).map(at).collect::<Vec<_>>(), "{count} in parts of {part}");
        }
    }

    #[test]
    fn nothing_is_written_beyond_the_end() {
        let numbers = fill_parallel(5, 2, |_, writer| {
            writer.append_zeros_until(1);
            writer.append(&[1.0; 9]);
            writer.append_zeros_until(1);
        });
        assert_eq!(numbers, [0.0, 1.0, 0.0, 1.0, 0.0]);
    }
}
