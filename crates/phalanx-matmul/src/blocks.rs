//! Products split into parts that fit into caches, and into tiles.
//!
//! The right factor is packed first, by all threads together, unless it can be read where it stands. A thread computes some
//! rows or some columns of the product. It goes through the sum in parts, through the columns in blocks, whose share of the
//! right factor stays in the L2 cache, and through the rows in tiles, whose share of the left factor stays in the L1 cache.

#![allow(unsafe_code)]

use crate::pack::{self, LANES, Line, Source};
use crate::parallel::{Out, by_rows};
use crate::tile::{Factors, Kernel, Repeat, Sums, Tile};
use crate::{Activation, Epilogue, Level, Matrix, activation};
use std::mem::MaybeUninit;
use std::ops::Range;

/// The most words along the sum in one part: a tile's share of the left factor then fits into an L1 cache.
const DEPTH: usize = 512;
/// The columns of a block: with [`DEPTH`], half of an L2 cache.
const BLOCK: usize = 256;
/// The number of multiplications from which a product is worth a second thread.
const PARALLEL_FROM: usize = 1 << 20;

/// Numbers by which scratch is longer than its content, so that lines can be aligned.
const SLACK: usize = LANES - 1;

/// Returns the scratch of a product: the packed right factor.
pub(crate) fn scratch(kernel: Kernel, length: usize, columns: usize) -> usize {
    let words = length.div_ceil(kernel.steps_per_word());
    columns.div_ceil(LANES).saturating_mul(LANES).saturating_mul(words).saturating_add(SLACK)
}

/// Returns the lines in scratch memory that are aligned to cache lines. Nobody reads what was in them.
///
/// # Panics
/// If there are fewer than `count`.
pub(crate) fn aligned(scratch: &mut [MaybeUninit<f32>], count: usize) -> &mut [MaybeUninit<Line>] {
    let skipped = scratch.as_ptr().align_offset(64).min(scratch.len());
    let (lines, _) = scratch[skipped..].as_chunks_mut::<LANES>();
    assert!(lines.len() >= count, "the scratch has {} lines of {count}", lines.len());
    // SAFETY: an array of numbers that need not be initialized is laid out as an array that need not be.
    unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), count) }
}

/// Returns memory as what need not be initialized.
pub(crate) fn uninit(numbers: &mut [f32]) -> &mut [MaybeUninit<f32>] {
    // SAFETY: the crate writes only numbers to such memory, so it stays initialized.
    unsafe { std::slice::from_raw_parts_mut(numbers.as_mut_ptr().cast(), numbers.len()) }
}

/// A pointer into outputs, of which threads write different parts.
#[derive(Clone, Copy)]
pub(crate) struct Shared(*mut f32);

// SAFETY: whoever writes through the pointer sees to it that no other thread uses the same numbers.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    pub(crate) fn new(numbers: &mut [MaybeUninit<f32>]) -> Self {
        Self(numbers.as_mut_ptr().cast())
    }

    /// Returns the address of a number, which need not be one of the slice.
    pub(crate) fn at(self, place: usize) -> *mut f32 {
        self.0.wrapping_add(place)
    }
}

/// A product whose right factor can be read.
struct Product<'a> {
    level: Level,
    kernel: Kernel,
    a: Matrix<'a>,
    right: Right<'a>,
    epilogue: Epilogue<'a>,
    out: Shared,
    columns: usize,
    /// Words in each part of the sum; the last one may have fewer.
    depth: usize,
}

/// The right factor.
#[derive(Clone, Copy)]
enum Right<'a> {
    /// Rows that are contiguous, of this width.
    Rows(&'a [f32], usize),
    /// For each part of the sum, panels of [`LANES`] columns with a line for each word.
    Packed(&'a [MaybeUninit<Line>]),
}

/// Computes a product that has at least one number.
///
/// # Safety
/// The shapes of all that `epilogue` has fit. `out` can be written for the whole product, which nobody else uses meanwhile; it
/// is initialized if `epilogue` adds to it.
pub(crate) unsafe fn matmul(
    level: Level,
    kernel: Kernel,
    a: Matrix<'_>,
    b: Matrix<'_>,
    epilogue: Epilogue<'_>,
    out: Shared,
    scratch: &mut [MaybeUninit<f32>],
) {
    let (rows, columns) = (a.rows(), b.columns());
    let words = a.columns().div_ceil(kernel.steps_per_word());
    // Parts of equal length: for a short last part, tiles would be read and written for little work.
    let depth = words.div_ceil(words.div_ceil(DEPTH).max(1)).max(1);
    let multiplications = rows.saturating_mul(columns).saturating_mul(a.columns());
    let is_small = multiplications < PARALLEL_FROM;
    let readable = !b.transposed && kernel.steps_per_word() == 1;
    let narrow = columns <= 64 && (kernel.has_masks() || columns.is_multiple_of(LANES));
    let in_place = readable && (rows <= 2 * kernel.rows() || narrow);
    let right = if in_place {
        Right::Rows(b.numbers, columns)
    } else {
        let lines = aligned(scratch, columns.div_ceil(LANES) * words);
        pack_right(level, kernel, b, depth, is_small, lines);
        Right::Packed(lines)
    };
    let product = Product { level, kernel, a, right, epilogue, out, columns, depth };
    // Along the side that has more tiles.
    let by_columns = rows / kernel.rows() < columns / kernel.columns();
    let (side, tile) = if by_columns { (columns, kernel.columns()) } else { (rows, kernel.rows()) };
    let tiles = side.div_ceil(tile);
    let grain = if is_small { tiles } else { 1 };
    by_rows(tiles, grain, 0..tiles, &|tiles: Range<usize>| {
        let part = tiles.start * tile..side.min(tiles.end * tile);
        let (rows, columns) = if by_columns { (0..rows, part) } else { (part, 0..columns) };
        // SAFETY: the ranges lie inside the product and do not overlap; columns begin where a tile does. The caller promises
        // the rest.
        unsafe { product.compute(rows, columns) };
    });
}

/// Packs the right factor: for each part of the sum, panel after panel.
fn pack_right(
    level: Level,
    kernel: Kernel,
    b: Matrix<'_>,
    depth: usize,
    is_small: bool,
    lines: &mut [MaybeUninit<Line>],
) {
    let mut rest = lines;
    let panels = b.columns().div_ceil(LANES);
    for steps in parts(0..b.rows(), depth * kernel.steps_per_word()) {
        let words = steps.len().div_ceil(kernel.steps_per_word());
        let (part, others) = rest.split_at_mut(panels * words);
        rest = others;
        let grain = if is_small { panels } else { 2 };
        by_rows(panels, grain, (0..panels, Out(part, words)), &|(panels, to)| {
            let columns = panels.start * LANES..b.columns().min(panels.end * LANES);
            pack::right(level, kernel, b.numbers, b.strides(), (steps.clone(), columns), to.0);
        });
    }
}

impl Product<'_> {
    /// Computes some rows and columns.
    ///
    /// # Safety
    /// They lie inside the product, and no other thread uses that part of it. Columns begin where a panel does.
    unsafe fn compute(&self, rows: Range<usize>, columns: Range<usize>) {
        let per_word = self.kernel.steps_per_word();
        let mut packed = [const { MaybeUninit::uninit() }; DEPTH];
        // Tiles of equal height, rather than a last one of a row or two.
        let height = rows.len().div_ceil(rows.len().div_ceil(self.kernel.rows()));
        // A sum of no terms has one part, too.
        let length = self.a.columns();
        for start in (0..length.max(1)).step_by(self.depth * per_word) {
            let steps = start..length.min(start + self.depth * per_word);
            for block in parts(columns.clone(), BLOCK) {
                for rows in parts(rows.clone(), height) {
                    let left = self.left(&rows, &steps, &mut packed);
                    for columns in parts(block.clone(), self.kernel.columns()) {
                        let factors = self.right(left, &steps, columns.start);
                        let sums = self.sums(&rows, &columns, &steps);
                        // SAFETY: the factors can be read for these rows, columns and steps. The sums are this thread's own, by
                        // the caller's promise; where they are added to, the part before has written them.
                        unsafe {
                            self.kernel.compute(&Tile { rows: rows.len(), columns: columns.len(), factors, sums })
                        };
                    }
                    if steps.end == length {
                        // SAFETY: as above; all parts of these sums are done.
                        unsafe { self.activate(&rows, &block) };
                    }
                }
            }
        }
    }

    /// Returns where the left factor of a tile stands: its own memory, or `packed`, which bfloat16 needs.
    fn left(&self, rows: &Range<usize>, steps: &Range<usize>, packed: &mut [MaybeUninit<Line>; DEPTH]) -> Factors {
        let (step, row) = self.a.strides();
        let factors = Factors {
            repeats: [Repeat::ONCE; 2],
            steps: steps.len().div_ceil(self.kernel.steps_per_word()),
            left: self.a.numbers.as_ptr().wrapping_add(rows.start * row + steps.start * step),
            left_row: row,
            left_step: step,
            right: std::ptr::null(),
            right_vector: 0,
            right_step: 0,
            right_padded: false,
        };
        // What many tiles read is packed: numbers that stand one after the other stay in the L1 cache.
        let tiles = if self.a.transposed { 2 } else { 4 };
        let scattered = self.columns > tiles * self.kernel.columns();
        if steps.is_empty() || self.kernel.steps_per_word() == 1 && !scattered {
            return factors;
        }
        Source::new(self.a.numbers, rows.clone(), row, steps.clone(), step).pack(self.kernel, packed);
        Factors { left: packed.as_ptr().cast(), left_row: 1, left_step: LANES, ..factors }
    }

    /// Completes factors by where the right one stands.
    fn right(&self, left: Factors, steps: &Range<usize>, column: usize) -> Factors {
        match self.right {
            Right::Rows(numbers, width) => Factors {
                right: numbers.as_ptr().wrapping_add(steps.start * width + column),
                right_vector: self.kernel.lanes(),
                right_step: width,
                ..left
            },
            Right::Packed(lines) => {
                let panels = self.columns.div_ceil(LANES);
                let line = steps.start / self.kernel.steps_per_word() * panels + column / LANES * left.steps;
                let next = if self.kernel.lanes() == LANES { LANES * left.steps } else { self.kernel.lanes() };
                let right = lines.as_ptr().cast::<f32>().wrapping_add(line * LANES + column % LANES);
                Factors { right, right_vector: next, right_step: LANES, right_padded: true, ..left }
            }
        }
    }

    fn sums(&self, rows: &Range<usize>, columns: &Range<usize>, steps: &Range<usize>) -> Sums {
        let is_last = steps.end == self.a.columns();
        let place = rows.start * self.columns + columns.start;
        let null = std::ptr::null();
        Sums {
            out: self.out.at(place),
            row: self.columns,
            add: self.epilogue.add || steps.start > 0,
            bias: self.epilogue.bias.filter(|_| is_last).map_or(null, |bias| bias[columns.start..].as_ptr()),
            relu: is_last && self.epilogue.activation == Activation::Relu,
            relu_outputs: self.epilogue.relu_outputs.filter(|_| is_last).map_or(null, |y| y[place..].as_ptr()),
        }
    }

    /// Applies an activation that is not fused with the tiles.
    ///
    /// # Safety
    /// As for [`Self::compute`]; all parts of these sums are done.
    unsafe fn activate(&self, rows: &Range<usize>, columns: &Range<usize>) {
        if matches!(self.epilogue.activation, Activation::Linear | Activation::Relu) {
            return;
        }
        for row in rows.clone() {
            // SAFETY: the numbers lie inside the product and belong to this thread; they are initialized.
            let sums = unsafe {
                std::slice::from_raw_parts_mut(self.out.at(row * self.columns + columns.start), columns.len())
            };
            activation::forward(self.level, self.epilogue.activation, sums);
        }
    }
}

/// Splits a range into parts of a length; the last one may be shorter.
pub(crate) fn parts(range: Range<usize>, length: usize) -> impl Iterator<Item = Range<usize>> {
    range.clone().step_by(length).map(move |start| start..range.end.min(start + length))
}
