//! Tiles in the vectors of AVX2 and AVX-512.

use super::Tile;
use super::body::{self, Vectors, compute};
use std::arch::x86_64::*;

pub(super) mod avx2 {
    use super::*;

    struct Eights;

    /// A mask of the first lanes.
    ///
    /// # Safety
    /// The CPU has AVX2.
    #[inline(always)]
    unsafe fn first(count: usize) -> __m256i {
        // SAFETY: the caller promises AVX2.
        unsafe { _mm256_cmpgt_epi32(_mm256_set1_epi32(count as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)) }
    }

    // SAFETY (of the blocks below): the caller promises AVX2 and FMA, and what the addresses are used for.
    impl Vectors for Eights {
        type Vector = __m256;
        const LANES: usize = 8;

        #[inline(always)]
        unsafe fn zero() -> __m256 {
            unsafe { _mm256_setzero_ps() }
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> __m256 {
            unsafe { _mm256_loadu_ps(from) }
        }
        #[inline(always)]
        unsafe fn load_part(from: *const f32, count: usize) -> __m256 {
            unsafe { _mm256_maskload_ps(from, first(count)) }
        }
        #[inline(always)]
        unsafe fn store(to: *mut f32, vector: __m256) {
            unsafe { _mm256_storeu_ps(to, vector) }
        }
        #[inline(always)]
        unsafe fn store_part(to: *mut f32, count: usize, vector: __m256) {
            unsafe { _mm256_maskstore_ps(to, first(count), vector) }
        }
        #[inline(always)]
        unsafe fn splat(from: *const f32) -> __m256 {
            unsafe { _mm256_broadcast_ss(&*from) }
        }
        #[inline(always)]
        unsafe fn multiply_add(sum: __m256, a: __m256, b: __m256) -> __m256 {
            unsafe { _mm256_fmadd_ps(a, b, sum) }
        }
        #[inline(always)]
        unsafe fn add(a: __m256, b: __m256) -> __m256 {
            unsafe { _mm256_add_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn where_positive(y: __m256, x: __m256) -> __m256 {
            unsafe { _mm256_andnot_ps(_mm256_cmp_ps::<_CMP_LE_OQ>(y, _mm256_setzero_ps()), x) }
        }
    }

    compute!(Eights, [target_feature(enable = "avx2,fma")], two: true, rows: 1 2 3 4 5 6);
}

/// Makes the vectors of AVX-512 for one way to multiply.
macro_rules! sixteens {
    ($name:ident, |$sum:ident, $a:ident, $b:ident| $multiply:expr) => {
        struct $name;

        // SAFETY (of the blocks below): the caller promises the instructions, and what the addresses are used for.
        impl Vectors for $name {
            type Vector = __m512;
            const LANES: usize = 16;

            #[inline(always)]
            unsafe fn zero() -> __m512 {
                unsafe { _mm512_setzero_ps() }
            }
            #[inline(always)]
            unsafe fn load(from: *const f32) -> __m512 {
                unsafe { _mm512_loadu_ps(from) }
            }
            #[inline(always)]
            unsafe fn load_part(from: *const f32, count: usize) -> __m512 {
                unsafe { _mm512_maskz_loadu_ps(first(count), from) }
            }
            #[inline(always)]
            unsafe fn store(to: *mut f32, vector: __m512) {
                unsafe { _mm512_storeu_ps(to, vector) }
            }
            #[inline(always)]
            unsafe fn store_part(to: *mut f32, count: usize, vector: __m512) {
                unsafe { _mm512_mask_storeu_ps(to, first(count), vector) }
            }
            #[inline(always)]
            unsafe fn splat(from: *const f32) -> __m512 {
                unsafe { _mm512_set1_ps(from.read()) }
            }
            #[inline(always)]
            unsafe fn multiply_add($sum: __m512, $a: __m512, $b: __m512) -> __m512 {
                unsafe { $multiply }
            }
            #[inline(always)]
            unsafe fn add(a: __m512, b: __m512) -> __m512 {
                unsafe { _mm512_add_ps(a, b) }
            }
            #[inline(always)]
            unsafe fn where_positive(y: __m512, x: __m512) -> __m512 {
                unsafe {
                    let not = _mm512_cmp_ps_mask::<_CMP_LE_OQ>(y, _mm512_setzero_ps());
                    _mm512_mask_mov_ps(x, not, _mm512_setzero_ps())
                }
            }
        }
    };
}

/// A mask of the first lanes.
#[inline(always)]
fn first(count: usize) -> __mmask16 {
    ((1_u32 << count) - 1) as __mmask16
}

pub(super) mod avx512 {
    use super::*;

    sixteens!(Sixteens, |sum, a, b| _mm512_fmadd_ps(a, b, sum));
    compute!(
        Sixteens, [target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")],
        two: true, rows: 1 2 3 4 5 6 7 8 9 10 11 12 13 14
    );
}

pub(super) mod bf16 {
    use super::*;

    sixteens!(Pairs, |sum, a, b| _mm512_dpbf16_ps(
        sum,
        std::mem::transmute::<__m512, __m512bh>(a),
        std::mem::transmute::<__m512, __m512bh>(b)
    ));
    compute!(
        Pairs, [target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")],
        two: true, rows: 1 2 3 4 5 6 7 8 9 10 11 12 13 14
    );
}
