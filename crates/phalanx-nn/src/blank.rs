//! Memory that threads write for the first time: filling it with zeros beforehand would be one thread's work.

#![allow(unsafe_code)]

use crate::threads::WORTH_SHARING;
use rayon::prelude::*;
use std::mem::MaybeUninit;

/// Numbers that are written from front to back.
pub(crate) struct Blank<'a> {
    room: &'a mut [MaybeUninit<f32>],
    /// So many from the front are written.
    written: usize,
}

impl Blank<'_> {
    /// Writes numbers behind those that are written; what there is no room for is left out.
    pub(crate) fn append(&mut self, numbers: &[f32]) {
        let rest = &mut self.room[self.written..];
        let count = numbers.len().min(rest.len());
        rest[..count].write_copy_of_slice(&numbers[..count]);
        self.written += count;
    }

    /// Writes zeros until so many numbers are written.
    pub(crate) fn append_zeros_until(&mut self, count: usize) {
        let count = count.min(self.room.len());
        if count > self.written {
            self.room[self.written..count].fill(MaybeUninit::new(0.0));
            self.written = count;
        }
    }

    /// What is written.
    pub(crate) fn written(&mut self) -> &mut [f32] {
        let written = &mut self.room[..self.written];
        // SAFETY: both ways of raising `written` have written everything below it.
        unsafe { written.assume_init_mut() }
    }
}

/// So many numbers, of which `write` writes each part of `part`, given its number; by all threads where that is worth it.
/// What it does not write becomes zero.
pub(crate) fn in_parts(count: usize, part: usize, write: impl Fn(usize, &mut Blank<'_>) + Sync) -> Vec<f32> {
    let mut numbers = Vec::with_capacity(count);
    let each = |(number, room): (usize, &mut [MaybeUninit<f32>])| {
        let mut blank = Blank { written: 0, room };
        write(number, &mut blank);
        blank.append_zeros_until(usize::MAX);
    };
    let (part, room) = (part.max(1), &mut numbers.spare_capacity_mut()[..count]);
    if count < WORTH_SHARING {
        room.chunks_mut(part).enumerate().for_each(each);
    } else {
        room.par_chunks_mut(part).enumerate().with_min_len((WORTH_SHARING / 2 / part).max(1)).for_each(each);
    }
    // SAFETY: there is room for as many, and all parts together, which are all of it, were written to their ends.
    unsafe { numbers.set_len(count) };
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_written_is_zero() {
        for (count, part) in [(0, 1), (1, 0), (7, 3), (9, 3), (100_003, 17), (40_000, 100_000)] {
            let numbers = in_parts(count, part, |number, blank| {
                blank.append(&[number as f32 + 1.0, 2.0, 3.0][..number % 3]);
                blank.written().iter_mut().for_each(|x| *x *= 2.0);
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
        let numbers = in_parts(5, 2, |_, blank| {
            blank.append_zeros_until(1);
            blank.append(&[1.0; 9]);
            blank.append_zeros_until(1);
        });
        assert_eq!(numbers, [0.0, 1.0, 0.0, 1.0, 0.0]);
    }
}
