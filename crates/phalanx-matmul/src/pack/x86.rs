//! Packing in the vectors of AVX2 and AVX-512. Each kernel proves that the CPU has its instructions.

#![allow(unsafe_code)]

use super::{LANES, Line, Source};
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// Packs numbers of which the steps of a lane are contiguous, for [`Kernel::Avx512`](crate::tile::Kernel::Avx512).
pub(super) fn transposed_512(source: &Source<'_>, to: &mut [MaybeUninit<Line>]) {
    // SAFETY: the kernel was made from a level that has these instructions.
    unsafe { by_sixteen(source, to) }
}

/// Packs numbers of which the steps of a lane are contiguous, for [`Kernel::Avx2`](crate::tile::Kernel::Avx2).
pub(super) fn transposed_256(source: &Source<'_>, to: &mut [MaybeUninit<Line>]) {
    // SAFETY: the kernel was made from a level that has these instructions.
    unsafe { by_eight(source, to) }
}

/// Packs pairs of steps, rounded to bfloat16, for [`Kernel::Bf16`](crate::tile::Kernel::Bf16).
pub(super) fn pairs(source: &Source<'_>, straight: bool, to: &mut [MaybeUninit<Line>]) {
    // SAFETY: the kernel was made from a level that has these instructions.
    unsafe { if straight { straight_pairs(source, to) } else { transposed_pairs(source, to) } }
}

fn first(count: usize) -> __mmask16 {
    ((1_u32 << count) - 1) as __mmask16
}

/// Sixteen steps at a time.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn by_sixteen(source: &Source<'_>, to: &mut [MaybeUninit<Line>]) {
    for (at, to) in to.chunks_mut(LANES).enumerate() {
        let mask = first(to.len());
        let lines = transpose(|lane| match lane < source.lanes {
            // SAFETY: the lane is one of the source, and steps beyond the last one are masked.
            true => unsafe {
                let from = source.numbers.as_ptr().add(lane * source.across + at * LANES);
                _mm512_maskz_loadu_epi32(mask, from.cast())
            },
            false => _mm512_setzero_si512(),
        });
        for (to, line) in to.iter_mut().zip(lines) {
            store(to, line);
        }
    }
}

/// Eight steps of eight lanes at a time.
#[target_feature(enable = "avx2,fma")]
fn by_eight(source: &Source<'_>, to: &mut [MaybeUninit<Line>]) {
    let (blocks, rest) = to.as_chunks_mut::<8>();
    for (at, to) in blocks.iter_mut().enumerate() {
        for half in 0..2 {
            let row = |lane: usize| match half * 8 + lane < source.lanes {
                // SAFETY: the lane is one of the source, which has these eight steps.
                true => unsafe {
                    _mm256_loadu_ps(source.numbers.as_ptr().add((half * 8 + lane) * source.across + at * 8))
                },
                false => _mm256_setzero_ps(),
            };
            for (to, line) in to.iter_mut().zip(transpose_eight([0, 1, 2, 3, 4, 5, 6, 7].map(row))) {
                // SAFETY: half of a line has eight numbers.
                unsafe { _mm256_storeu_ps(to.as_mut_ptr().cast::<f32>().add(half * 8), line) };
            }
        }
    }
    for (step, line) in rest.iter_mut().enumerate() {
        let step = blocks.len() * 8 + step;
        line.write(std::array::from_fn(|lane| {
            if lane < source.lanes { source.numbers[lane * source.across + step] } else { 0.0 }
        }));
    }
}

/// Transposes eight rows of eight numbers.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn transpose_eight(rows: [__m256; 8]) -> [__m256; 8] {
    let [a, b, c, d, e, f, g, h] = rows;
    let pairs = |a, b, c, d| {
        let (low, high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
        let (lows, highs) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
        [
            _mm256_shuffle_ps::<0x44>(low, lows),
            _mm256_shuffle_ps::<0xee>(low, lows),
            _mm256_shuffle_ps::<0x44>(high, highs),
            _mm256_shuffle_ps::<0xee>(high, highs),
        ]
    };
    let (low, high) = (pairs(a, b, c, d), pairs(e, f, g, h));
    [
        _mm256_permute2f128_ps::<0x20>(low[0], high[0]),
        _mm256_permute2f128_ps::<0x20>(low[1], high[1]),
        _mm256_permute2f128_ps::<0x20>(low[2], high[2]),
        _mm256_permute2f128_ps::<0x20>(low[3], high[3]),
        _mm256_permute2f128_ps::<0x31>(low[0], high[0]),
        _mm256_permute2f128_ps::<0x31>(low[1], high[1]),
        _mm256_permute2f128_ps::<0x31>(low[2], high[2]),
        _mm256_permute2f128_ps::<0x31>(low[3], high[3]),
    ]
}

/// Pairs of steps of which the lanes are contiguous.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
fn straight_pairs(source: &Source<'_>, to: &mut [MaybeUninit<Line>]) {
    let (start, mask) = (source.numbers.as_ptr(), first(source.lanes));
    // For each lane: the number of the first step, then that of the second.
    let order = _mm512_set_epi16(
        31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1,
        16, 0,
    );
    for (pair, to) in to.iter_mut().enumerate() {
        // SAFETY: `Source::new` has checked that every lane of every step is inside the numbers; masked lanes are not read.
        let load = |step: usize| match step < source.steps {
            true => unsafe { _mm512_maskz_loadu_ps(mask, start.add(step * source.along)) },
            false => _mm512_setzero_ps(),
        };
        // SAFETY: both types have 512 bits.
        let both: __m512i = unsafe { std::mem::transmute(_mm512_cvtne2ps_pbh(load(2 * pair + 1), load(2 * pair))) };
        store(to, _mm512_permutexvar_epi16(order, both));
    }
}

/// Pairs of steps of which those of a lane are contiguous.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
fn transposed_pairs(source: &Source<'_>, to: &mut [MaybeUninit<Line>]) {
    for (at, to) in to.chunks_mut(LANES).enumerate() {
        let count = (source.steps - at * 32).min(32);
        let (low, high) = (first(count.min(16)), first(count.saturating_sub(16)));
        let lines = transpose(|lane| match lane < source.lanes {
            // SAFETY: the lane is one of the source; steps beyond the last one are masked, and where a mask is empty nothing is
            // read. Both types have 512 bits.
            true => unsafe {
                let from = source.numbers.as_ptr().add(lane * source.across + at * 32);
                let (low, high) =
                    (_mm512_maskz_loadu_ps(low, from), _mm512_maskz_loadu_ps(high, from.wrapping_add(16)));
                std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(high, low))
            },
            false => _mm512_setzero_si512(),
        });
        for (to, line) in to.iter_mut().zip(lines) {
            store(to, line);
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(to: &mut MaybeUninit<Line>, line: __m512i) {
    // SAFETY: a line has sixteen words.
    unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), line) };
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
