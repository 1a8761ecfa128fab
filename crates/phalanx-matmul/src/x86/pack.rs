//! Packing a factor: sixteen lanes, rows of the left one or columns of the right one, step by step along the sum.

use super::{COLUMNS, CacheLine, Kernel};
use crate::{Matrix, Precision};
use std::arch::x86_64::*;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Packs rows of the left factor: a cache line for each step, or for each pair of steps.
pub(super) fn left(
    a: Matrix<'_>,
    rows: Range<usize>,
    sum: Range<usize>,
    to: &mut [MaybeUninit<CacheLine>],
    kernel: Kernel,
) {
    let (along, across) = a.strides();
    let source = Source::new(a, rows.start * across + sum.start * along, rows.len(), across, sum.len(), along);
    source.pack(to, 1, kernel);
}

/// Packs columns of the right factor, 32 at most: cache lines of the first sixteen and of the others alternate.
pub(super) fn right(
    b: Matrix<'_>,
    sum: Range<usize>,
    columns: Range<usize>,
    to: &mut [MaybeUninit<CacheLine>],
    kernel: Kernel,
) {
    let (across, along) = b.strides();
    let halves = columns.len().div_ceil(16);
    for half in 0..halves {
        let first = columns.start + 16 * half;
        let lanes = 16.min(columns.end - first);
        let source = Source::new(b, first * across + sum.start * along, lanes, across, sum.len(), along);
        source.pack(&mut to[half..], halves, kernel);
    }
}

/// Packs complete panels of the right factor with contiguous rows, which are read sequentially. `to` has all cache lines of
/// the first panel, then all of the next one.
///
/// # Panics
/// When `to` has too few lines, or rows are not contiguous.
pub(super) fn right_by_rows(
    b: Matrix<'_>,
    sum: Range<usize>,
    columns: Range<usize>,
    to: &mut [MaybeUninit<CacheLine>],
    _: Kernel,
) {
    let (across, along) = b.strides();
    assert!(columns.is_empty() || across == 1, "rows are contiguous");
    let steps = sum.len();
    assert!(to.len() >= 2 * (columns.len() / COLUMNS) * steps, "two lines for every step of a panel");
    let to = to.as_mut_ptr().cast::<CacheLine>();
    for (step, row) in sum.enumerate() {
        let numbers = &b.numbers[row * along..][columns.clone()];
        for (panel, numbers) in numbers.as_chunks::<COLUMNS>().0.iter().enumerate() {
            // SAFETY: there is a kernel, so the CPU has its instructions. `panel` is less than `columns.len() / COLUMNS` and
            // `step` less than `steps`, so that both lines are inside `to`, by the assertion above.
            unsafe { copy(numbers, to.add(2 * (panel * steps + step))) };
        }
    }
}

/// Copies one row of a panel.
///
/// # Safety
/// The CPU has AVX-512F, and two lines can be written at `to`.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn copy(numbers: &[f32; COLUMNS], to: *mut CacheLine) {
    // SAFETY: `numbers` has twice sixteen numbers; the caller promises the rest.
    unsafe {
        store(to, _mm512_loadu_si512(numbers.as_ptr().cast()));
        store(to.add(1), _mm512_loadu_si512(numbers.as_ptr().add(16).cast()));
    }
}

/// A part of a matrix that is packed at once. It lies inside the matrix: [`Self::new`] has checked it.
struct Source<'a> {
    numbers: &'a [f32],
    lanes: usize,
    /// The distance between lanes.
    across: usize,
    steps: usize,
    /// The distance between steps.
    along: usize,
}

impl<'a> Source<'a> {
    fn new(matrix: Matrix<'a>, at: usize, lanes: usize, across: usize, steps: usize, along: usize) -> Self {
        assert!(lanes <= 16 && lanes > 0 && steps > 0, "a part of a matrix");
        // Everything that will be read.
        let numbers = &matrix.numbers[at..=at + (lanes - 1) * across + (steps - 1) * along];
        assert!(across == 1 || along == 1, "rows or columns are contiguous");
        Self { numbers, lanes, across, steps, along }
    }

    /// Writes every `stride`th line of `to` from the first one on: one for each step, or for each pair of steps.
    ///
    /// # Panics
    /// When `to` has too few lines.
    fn pack(&self, to: &mut [MaybeUninit<CacheLine>], stride: usize, kernel: Kernel) {
        let lines = self.steps.div_ceil(kernel.each());
        assert!((lines - 1) * stride < to.len(), "a line for every step");
        let to = to.as_mut_ptr().cast();
        // SAFETY: there is a kernel for this precision, so the CPU has its instructions; `to` has a line for the last step,
        // and so for all before.
        unsafe {
            match (kernel.0, self.across == 1) {
                (Precision::F32, true) => self.straight(to, stride),
                (Precision::F32, false) => self.transposed(to, stride),
                (Precision::Bf16, true) => self.straight_pairs(to, stride),
                (Precision::Bf16, false) => self.transposed_pairs(to, stride),
            }
        }
    }

    /// Returns the first number.
    fn at(&self) -> *const f32 {
        self.numbers.as_ptr()
    }

    fn mask(&self) -> __mmask16 {
        first(self.lanes)
    }

    /// Packs a source in which the lanes of a step are contiguous.
    ///
    /// # Safety
    /// The CPU has the features that are enabled here, and every `stride`th line from `to` on can be written, one for each step.
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn straight(&self, to: *mut CacheLine, stride: usize) {
        let (at, mask) = (self.at(), self.mask());
        for step in 0..self.steps {
            // SAFETY: `new` has checked that every lane of every step is inside the matrix; masked lanes are not read. The
            // caller has a line for every step.
            unsafe { store(to.add(step * stride), _mm512_maskz_loadu_epi32(mask, at.add(step * self.along).cast())) };
        }
    }

    /// Packs a source in which the steps of a lane are contiguous.
    ///
    /// # Safety
    /// The CPU has the features that are enabled here, and every `stride`th line from `to` on can be written, one for each step.
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn transposed(&self, to: *mut CacheLine, stride: usize) {
        let at = self.at();
        for from in (0..self.steps).step_by(16) {
            let count = 16.min(self.steps - from);
            let mask = first(count);
            // SAFETY: as in `straight`; steps beyond the last one are masked.
            unsafe {
                let lines = transpose(|lane| match lane < self.lanes {
                    true => _mm512_maskz_loadu_epi32(mask, at.add(lane * self.across + from).cast()),
                    false => _mm512_setzero_si512(),
                });
                for (i, &line) in lines.iter().enumerate().take(count) {
                    store(to.add((from + i) * stride), line);
                }
            }
        }
    }

    /// Like [`Self::straight`], with pairs of steps in bfloat16.
    ///
    /// # Safety
    /// The CPU has the features that are enabled here, and every `stride`th line from `to` on can be written, one for each pair of steps.
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    unsafe fn straight_pairs(&self, to: *mut CacheLine, stride: usize) {
        let (at, mask) = (self.at(), self.mask());
        // For each lane: the number of the first step, then that of the second.
        let order = _mm512_set_epi16(
            31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17,
            1, 16, 0,
        );
        for (pair, step) in (0..self.steps).step_by(2).enumerate() {
            // SAFETY: as in `straight`; the caller has a line for every pair.
            unsafe {
                let one = _mm512_maskz_loadu_ps(mask, at.add(step * self.along));
                let other = match step + 1 < self.steps {
                    true => _mm512_maskz_loadu_ps(mask, at.add((step + 1) * self.along)),
                    false => _mm512_setzero_ps(),
                };
                let both: __m512i = std::mem::transmute(_mm512_cvtne2ps_pbh(other, one));
                store(to.add(pair * stride), _mm512_permutexvar_epi16(order, both));
            }
        }
    }

    /// Like [`Self::transposed`], with pairs of steps in bfloat16.
    ///
    /// # Safety
    /// The CPU has the features that are enabled here, and every `stride`th line from `to` on can be written, one for each pair of steps.
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    unsafe fn transposed_pairs(&self, to: *mut CacheLine, stride: usize) {
        let start = self.at();
        for from in (0..self.steps).step_by(32) {
            let count = 32.min(self.steps - from);
            let (low, high) = (first(count.min(16)), first(count.saturating_sub(16)));
            // SAFETY: as in `straight_pairs`; steps beyond the last one are masked, and where a mask is empty nothing is read.
            unsafe {
                let lines = transpose(|lane| match lane < self.lanes {
                    true => {
                        let at = start.add(lane * self.across + from);
                        let (low, high) =
                            (_mm512_maskz_loadu_ps(low, at), _mm512_maskz_loadu_ps(high, at.wrapping_add(16)));
                        std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(high, low))
                    }
                    false => _mm512_setzero_si512(),
                });
                for (i, &line) in lines.iter().enumerate().take(count.div_ceil(2)) {
                    store(to.add((from / 2 + i) * stride), line);
                }
            }
        }
    }
}

fn first(count: usize) -> __mmask16 {
    ((1_u32 << count) - 1) as __mmask16
}

/// Writes one line.
///
/// # Safety
/// The CPU has AVX-512F, and a line can be written at `to`.
#[target_feature(enable = "avx512f")]
unsafe fn store(to: *mut CacheLine, line: __m512i) {
    // SAFETY: the caller promises that the line can be written; lines are aligned to 64 bytes.
    unsafe { _mm512_store_si512(to.cast(), line) };
}

/// Transposes sixteen rows of sixteen words.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose(row: impl Fn(usize) -> __m512i) -> [__m512i; 16] {
    let zero = _mm512_setzero_si512();
    let (mut pairs, mut fours, mut out) = ([zero; 16], [zero; 16], [zero; 16]);
    for i in (0..16).step_by(2) {
        let (a, b) = (row(i), row(i + 1));
        pairs[i] = _mm512_unpacklo_epi32(a, b);
        pairs[i + 1] = _mm512_unpackhi_epi32(a, b);
    }
    for i in (0..16).step_by(4) {
        fours[i] = _mm512_unpacklo_epi64(pairs[i], pairs[i + 2]);
        fours[i + 1] = _mm512_unpackhi_epi64(pairs[i], pairs[i + 2]);
        fours[i + 2] = _mm512_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
        fours[i + 3] = _mm512_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
    }
    for i in 0..4 {
        let (a, b) = (fours[i], fours[4 + i]);
        let (c, d) = (fours[8 + i], fours[12 + i]);
        let (even, odd) = (_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
        let (evens, odds) = (_mm512_shuffle_i32x4(c, d, 0x88), _mm512_shuffle_i32x4(c, d, 0xdd));
        out[i] = _mm512_shuffle_i32x4(even, evens, 0x88);
        out[4 + i] = _mm512_shuffle_i32x4(odd, odds, 0x88);
        out[8 + i] = _mm512_shuffle_i32x4(even, evens, 0xdd);
        out[12 + i] = _mm512_shuffle_i32x4(odd, odds, 0xdd);
    }
    out
}
