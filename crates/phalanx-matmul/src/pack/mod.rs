//! Packing a factor: sixteen lanes, which are rows of a left factor or columns of a right one, step by step along the sum. A
//! line has a word for each lane: a number, or in bfloat16 the numbers of two steps.

#[cfg(target_arch = "x86_64")]
mod x86;

use crate::Level;
use crate::lanes::{self, padded};
use crate::level::leveled;
use crate::tile::Kernel;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Lanes of a line.
pub(crate) const LANES: usize = lanes::LANES;

/// One step along the sum, packed; in bfloat16 two.
pub(crate) type Line = [f32; LANES];

/// A factor to be packed: where a lane and a step are in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    numbers: &'a [f32],
    lanes: usize,
    /// The distance between lanes.
    across: usize,
    steps: usize,
    /// The distance between steps.
    along: usize,
}

impl<'a> Source<'a> {
    /// Returns the source of some lanes and steps of numbers in which lanes and steps have these distances.
    ///
    /// # Panics
    /// If it has none or too many lanes, or is not inside `numbers`.
    pub(crate) fn new(
        numbers: &'a [f32],
        lanes: Range<usize>,
        across: usize,
        steps: Range<usize>,
        along: usize,
    ) -> Self {
        assert!((1..=LANES).contains(&lanes.len()) && !steps.is_empty(), "a part of a matrix");
        assert!(across == 1 || along == 1, "rows or columns are contiguous");
        let at = lanes.start * across + steps.start * along;
        // Everything that will be read.
        let numbers = &numbers[at..=at + (lanes.len() - 1) * across + (steps.len() - 1) * along];
        Self { numbers, lanes: lanes.len(), across, steps: steps.len(), along }
    }

    /// Writes the lines. Lanes that the source does not have become anything.
    ///
    /// # Panics
    /// If there is not a line for every step, or for every two in bfloat16.
    pub(crate) fn pack(&self, kernel: Kernel, to: &mut [MaybeUninit<Line>]) {
        let to = &mut to[..self.steps.div_ceil(kernel.steps_per_word())];
        match (kernel, self.across == 1) {
            #[cfg(target_arch = "x86_64")]
            (Kernel::Bf16, straight) => x86::pairs(self, straight, to),
            #[cfg(target_arch = "x86_64")]
            (Kernel::Avx512, false) => x86::transposed_512(self, to),
            #[cfg(target_arch = "x86_64")]
            (Kernel::Avx2, false) => x86::transposed_256(self, to),
            (_, false) => self.transposed(to),
            (_, true) => self.straight(to),
        }
    }

    fn straight(&self, to: &mut [MaybeUninit<Line>]) {
        for (step, to) in to.iter_mut().enumerate() {
            let numbers = &self.numbers[step * self.along..];
            to.write(numbers.first_chunk().copied().unwrap_or_else(|| padded(&numbers[..self.lanes], 0.0)));
        }
    }

    fn transposed(&self, to: &mut [MaybeUninit<Line>]) {
        for (step, to) in to.iter_mut().enumerate() {
            let mut line = [0.0; LANES];
            for (lane, number) in line[..self.lanes].iter_mut().enumerate() {
                *number = self.numbers[lane * self.across + step];
            }
            to.write(line);
        }
    }
}

/// Panels that are written together. Lines of more of them, at the same distance, compete for the same places of a cache.
const TOGETHER: usize = 4;

leveled! {
    /// Packs rows of a right factor that are contiguous, `width` numbers each: panel after panel of [`LANES`] columns, each
    /// with a line for every row.
    pub(crate) fn rows(numbers: &[f32], width: usize, steps: Range<usize>, columns: Range<usize>, to: &mut [MaybeUninit<Line>])
        => rows_body;
}

#[inline(always)]
fn rows_body<const F: bool>(
    numbers: &[f32],
    width: usize,
    steps: Range<usize>,
    columns: Range<usize>,
    to: &mut [MaybeUninit<Line>],
) {
    let count = steps.len();
    for (block, start) in columns.clone().step_by(TOGETHER * LANES).enumerate() {
        let columns = start..columns.end.min(start + TOGETHER * LANES);
        let to = &mut to[block * TOGETHER * count..];
        for (step, row) in steps.clone().enumerate() {
            let (panels, rest) = numbers[row * width..][columns.clone()].as_chunks::<LANES>();
            for (panel, numbers) in panels.iter().enumerate() {
                to[panel * count + step].write(*numbers);
            }
            if !rest.is_empty() {
                to[panels.len() * count + step].write(padded(rest, 0.0));
            }
        }
    }
}

/// Packs part of a right factor: panels of [`LANES`] columns, each with a line for every word along the sum. `strides` are
/// the distances between columns and between steps.
///
/// # Panics
/// If the part is not inside `numbers`, or there are too few lines.
pub(crate) fn right(
    level: Level,
    kernel: Kernel,
    numbers: &[f32],
    (across, along): (usize, usize),
    (steps, columns): (Range<usize>, Range<usize>),
    to: &mut [MaybeUninit<Line>],
) {
    let words = steps.len().div_ceil(kernel.steps_per_word());
    if across == 1 && kernel.steps_per_word() == 1 {
        return rows(level, numbers, along, steps, columns, to);
    }
    for (panel, start) in columns.clone().step_by(LANES).enumerate() {
        let lanes = start..columns.end.min(start + LANES);
        Source::new(numbers, lanes, across, steps.clone(), along).pack(kernel, &mut to[panel * words..][..words]);
    }
}
