//! Sums and extremes of slices, in sixteen lanes that become vectors at every level.
//!
//! The order of a sum depends on nothing but its length.

use crate::math::fma;

/// The lanes of a sum.
pub(crate) const LANES: usize = 16;

/// Combines the lanes pairwise. Not one loop over halves: the compiler would not unroll it.
#[inline(always)]
fn join(lanes: [f32; LANES], both: impl Fn(f32, f32) -> f32) -> f32 {
    let eight: [f32; 8] = std::array::from_fn(|i| both(lanes[i], lanes[i + 8]));
    let four: [f32; 4] = std::array::from_fn(|i| both(eight[i], eight[i + 4]));
    both(both(four[0], four[2]), both(four[1], four[3]))
}

#[inline(always)]
fn add(a: f32, b: f32) -> f32 {
    a + b
}

/// NaN wins, so that it is not lost.
#[inline(always)]
pub(crate) fn larger(a: f32, b: f32) -> f32 {
    if a > b || a.is_nan() { a } else { b }
}

/// The sum of the products of two slices of the same length.
#[inline(always)]
pub(crate) fn dot<const F: bool>(a: &[f32], b: &[f32]) -> f32 {
    // Twice as many lanes while the slice is long: a sum waits for the one before.
    let (twos, a_rest) = a.as_chunks::<{ 2 * LANES }>();
    let (others, b_rest) = b.as_chunks::<{ 2 * LANES }>();
    let (mut lanes, mut more) = ([0.0; LANES], [0.0; LANES]);
    for (a, b) in twos.iter().zip(others) {
        for i in 0..LANES {
            lanes[i] = fma::<F>(a[i], b[i], lanes[i]);
            more[i] = fma::<F>(a[LANES + i], b[LANES + i], more[i]);
        }
    }
    let (a, a_rest) = a_rest.as_chunks::<LANES>();
    let (b, b_rest) = b_rest.as_chunks::<LANES>();
    for (a, b) in a.iter().zip(b) {
        for i in 0..LANES {
            lanes[i] = fma::<F>(a[i], b[i], lanes[i]);
        }
    }
    for ((lane, &a), &b) in more.iter_mut().zip(a_rest).zip(b_rest) {
        *lane = fma::<F>(a, b, *lane);
    }
    for i in 0..LANES {
        lanes[i] += more[i];
    }
    join(lanes, add)
}

/// The sum of a slice.
#[inline(always)]
pub(crate) fn sum(x: &[f32]) -> f32 {
    let (chunks, rest) = x.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for chunk in chunks {
        for i in 0..LANES {
            lanes[i] += chunk[i];
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane += x;
    }
    join(lanes, add)
}

/// The largest number of a slice; NaN if there is one.
#[inline(always)]
pub(crate) fn max(x: &[f32]) -> f32 {
    let (chunks, rest) = x.as_chunks::<LANES>();
    let mut lanes = [f32::NEG_INFINITY; LANES];
    for chunk in chunks {
        for i in 0..LANES {
            lanes[i] = larger(lanes[i], chunk[i]);
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane = larger(*lane, x);
    }
    join(lanes, larger)
}
