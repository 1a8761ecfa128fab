//! Packs a factor: sixteen lanes, rows of the left one or columns of the right one, step by step along the sum.

use super::{COLUMNS, Line};
use crate::{Matrix, Precision};
use std::arch::x86_64::*;
use std::ops::Range;

/// Rows of the left factor.
pub(super) fn left(a: Matrix<'_>, rows: Range<usize>, sum: Range<usize>, to: *mut Line, precision: Precision) {
    let (along, across) = a.strides();
    let source = Source::new(a, rows.start * across + sum.start * along, rows.len(), across, sum.len(), along);
    source.pack(to, 1, precision);
}

/// Columns of the right factor, 32 at most: lines of the first sixteen and of the others by turns.
pub(super) fn right(b: Matrix<'_>, sum: Range<usize>, columns: Range<usize>, to: *mut Line, precision: Precision) {
    let (across, along) = b.strides();
    let halves = columns.len().div_ceil(16);
    for half in 0..halves {
        let first = columns.start + 16 * half;
        let lanes = 16.min(columns.end - first);
        let source = Source::new(b, first * across + sum.start * along, lanes, across, sum.len(), along);
        source.pack(to.wrapping_add(half), halves, precision);
    }
}

/// Whole panels of the right factor, 32-bit numbers that lie side by side: its rows are read from front to back, which is
/// how memory likes it.
pub(super) fn right_by_rows(
    b: Matrix<'_>,
    sum: Range<usize>,
    columns: Range<usize>,
    panel: impl Fn(usize) -> *mut Line,
) {
    let (across, along) = b.strides();
    assert!(columns.is_empty() || across == 1, "columns lie side by side");
    for (step, row) in sum.enumerate() {
        let numbers = &b.numbers[row * along..][columns.clone()];
        for (column, numbers) in columns.clone().step_by(COLUMNS).zip(numbers.as_chunks::<COLUMNS>().0) {
            // SAFETY: the processor is supported, and a panel has two lines for every step.
            unsafe { copy(numbers, panel(column).add(2 * step)) };
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn copy(numbers: &[f32; COLUMNS], to: *mut Line) {
    // SAFETY: the caller has room for two lines.
    unsafe {
        store(to, _mm512_loadu_si512(numbers.as_ptr().cast()));
        store(to.add(1), _mm512_loadu_si512(numbers.as_ptr().add(16).cast()));
    }
}

struct Source {
    at: *const f32,
    lanes: usize,
    /// How far lanes are apart.
    across: usize,
    steps: usize,
    /// How far steps are apart.
    along: usize,
}

impl Source {
    fn new(matrix: Matrix<'_>, at: usize, lanes: usize, across: usize, steps: usize, along: usize) -> Self {
        assert!(lanes <= 16 && lanes > 0 && steps > 0, "a part of a matrix");
        // All that will be read.
        let numbers = &matrix.numbers[at..=at + (lanes - 1) * across + (steps - 1) * along];
        assert!(across == 1 || along == 1, "rows or columns are contiguous");
        Self { at: numbers.as_ptr(), lanes, across, steps, along }
    }

    /// Writes every `stride`th line from `to` on: one for each step, or for each pair of steps.
    fn pack(&self, to: *mut Line, stride: usize, precision: Precision) {
        // SAFETY: the processor is supported; what is read is inside of the matrix (see `new`), and the caller has room for
        // all lines.
        unsafe {
            match (precision, self.across == 1) {
                (Precision::F32, true) => self.straight(to, stride),
                (Precision::F32, false) => self.turned(to, stride),
                (Precision::Bf16, true) => self.straight_pairs(to, stride),
                (Precision::Bf16, false) => self.turned_pairs(to, stride),
            }
        }
    }

    fn mask(&self) -> __mmask16 {
        first(self.lanes)
    }

    /// The lanes of a step lie side by side.
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn straight(&self, to: *mut Line, stride: usize) {
        let mask = self.mask();
        for step in 0..self.steps {
            // SAFETY: as `pack` says.
            unsafe {
                store(to.add(step * stride), _mm512_maskz_loadu_epi32(mask, self.at.add(step * self.along).cast()))
            };
        }
    }

    /// The steps of a lane lie side by side.
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn turned(&self, to: *mut Line, stride: usize) {
        for from in (0..self.steps).step_by(16) {
            let count = 16.min(self.steps - from);
            let mask = first(count);
            // SAFETY: as `pack` says.
            unsafe {
                let lines = turn(|lane| match lane < self.lanes {
                    true => _mm512_maskz_loadu_epi32(mask, self.at.add(lane * self.across + from).cast()),
                    false => _mm512_setzero_si512(),
                });
                for (i, &line) in lines.iter().enumerate().take(count) {
                    store(to.add((from + i) * stride), line);
                }
            }
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    unsafe fn straight_pairs(&self, to: *mut Line, stride: usize) {
        let mask = self.mask();
        // Lane by lane: the first one's number, the second one's.
        let order = _mm512_set_epi16(
            31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17,
            1, 16, 0,
        );
        for (pair, step) in (0..self.steps).step_by(2).enumerate() {
            // SAFETY: as `pack` says.
            unsafe {
                let one = _mm512_maskz_loadu_ps(mask, self.at.add(step * self.along));
                let other = match step + 1 < self.steps {
                    true => _mm512_maskz_loadu_ps(mask, self.at.add((step + 1) * self.along)),
                    false => _mm512_setzero_ps(),
                };
                let both: __m512i = std::mem::transmute(_mm512_cvtne2ps_pbh(other, one));
                store(to.add(pair * stride), _mm512_permutexvar_epi16(order, both));
            }
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    unsafe fn turned_pairs(&self, to: *mut Line, stride: usize) {
        for from in (0..self.steps).step_by(32) {
            let count = 32.min(self.steps - from);
            let (low, high) = (first(count.min(16)), first(count.saturating_sub(16)));
            // SAFETY: as `pack` says; where a mask is empty nothing is read.
            unsafe {
                let lines = turn(|lane| match lane < self.lanes {
                    true => {
                        let at = self.at.add(lane * self.across + from);
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

#[target_feature(enable = "avx512f")]
unsafe fn store(to: *mut Line, line: __m512i) {
    // SAFETY: the caller's.
    unsafe { _mm512_store_si512(to.cast(), line) };
}

/// Sixteen rows of sixteen words become sixteen columns.
#[inline]
#[target_feature(enable = "avx512f")]
fn turn(row: impl Fn(usize) -> __m512i) -> [__m512i; 16] {
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
