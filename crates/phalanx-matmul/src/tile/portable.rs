//! Tiles in arrays, which the compiler turns into whatever vectors the target has.

use super::Tile;
use super::body::{self, Vectors, compute};
use crate::level::PORTABLE_FMA;
use crate::math::fma;

/// Numbers of a vector: two registers of 128 bits.
pub(super) const LANES: usize = 8;
/// Rows of a tile: with two registers each, half of the sixteen registers of SSE2, or of the 32 of NEON.
pub(super) const ROWS: usize = if cfg!(target_arch = "aarch64") { 8 } else { 4 };

struct Arrays;

impl Vectors for Arrays {
    type Vector = [f32; LANES];
    const LANES: usize = LANES;

    #[inline(always)]
    unsafe fn zero() -> Self::Vector {
        [0.0; LANES]
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self::Vector {
        // SAFETY: the caller promises that all lanes can be read.
        unsafe { from.cast::<Self::Vector>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn load_part(from: *const f32, count: usize) -> Self::Vector {
        let mut vector = [0.0; LANES];
        for (i, lane) in vector.iter_mut().enumerate().take(count) {
            // SAFETY: the caller promises that the first `count` lanes can be read.
            *lane = unsafe { from.add(i).read() };
        }
        vector
    }

    #[inline(always)]
    unsafe fn store(to: *mut f32, vector: Self::Vector) {
        // SAFETY: the caller promises that all lanes can be written.
        unsafe { to.cast::<Self::Vector>().write_unaligned(vector) };
    }

    #[inline(always)]
    unsafe fn store_part(to: *mut f32, count: usize, vector: Self::Vector) {
        for (i, &lane) in vector.iter().enumerate().take(count) {
            // SAFETY: the caller promises that the first `count` lanes can be written.
            unsafe { to.add(i).write(lane) };
        }
    }

    #[inline(always)]
    unsafe fn splat(from: *const f32) -> Self::Vector {
        // SAFETY: the caller promises that the number can be read.
        [unsafe { from.read() }; LANES]
    }

    #[inline(always)]
    unsafe fn multiply_add(mut sum: Self::Vector, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        for i in 0..LANES {
            sum[i] = fma::<PORTABLE_FMA>(a[i], b[i], sum[i]);
        }
        sum
    }

    #[inline(always)]
    unsafe fn add(mut a: Self::Vector, b: Self::Vector) -> Self::Vector {
        for i in 0..LANES {
            a[i] += b[i];
        }
        a
    }

    #[inline(always)]
    unsafe fn where_positive(y: Self::Vector, mut x: Self::Vector) -> Self::Vector {
        for i in 0..LANES {
            x[i] = if y[i] <= 0.0 { 0.0 } else { x[i] };
        }
        x
    }
}

#[cfg(target_arch = "aarch64")]
compute!(Arrays, [], two: false, rows: 1 2 3 4 5 6 7 8);
#[cfg(not(target_arch = "aarch64"))]
compute!(Arrays, [], two: false, rows: 1 2 3 4);
