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
    fold(x, 0.0, add)
}

/// The largest number of a slice; NaN if there is one.
#[inline(always)]
pub(crate) fn max(x: &[f32]) -> f32 {
    fold(x, f32::NEG_INFINITY, larger)
}

/// Combines all numbers of a slice with one that changes nothing.
#[inline(always)]
fn fold(x: &[f32], nothing: f32, both: impl Fn(f32, f32) -> f32 + Copy) -> f32 {
    let (mut lanes, mut more) = ([nothing; LANES], [nothing; LANES]);
    let (twos, rest) = x.as_chunks::<{ 2 * LANES }>();
    for two in twos {
        for i in 0..LANES {
            lanes[i] = both(two[i], lanes[i]);
            more[i] = both(two[LANES + i], more[i]);
        }
    }
    for part in rest.chunks(LANES) {
        let part = padded(part, nothing);
        for i in 0..LANES {
            lanes[i] = both(part[i], lanes[i]);
        }
    }
    for i in 0..LANES {
        lanes[i] = both(more[i], lanes[i]);
    }
    join(lanes, both)
}

/// The first lanes from a slice, the others from a number: one vector is faster than a loop over a few numbers.
#[inline(always)]
pub(crate) fn padded(x: &[f32], otherwise: f32) -> [f32; LANES] {
    match x.first_chunk() {
        Some(x) => *x,
        None => {
            let mut lanes = [otherwise; LANES];
            copy_part(x, &mut lanes[..x.len()]);
            lanes
        }
    }
}

/// Copies fewer than [`LANES`] numbers, without calling a function for that.
#[inline(always)]
pub(crate) fn copy_part(from: &[f32], to: &mut [f32]) {
    if !copy_ends::<8>(from, to) && !copy_ends::<4>(from, to) {
        to.iter_mut().zip(from).for_each(|(to, &from)| *to = from);
    }
}

/// Copies `N` to `2 N` numbers as the first and the last `N`, which may overlap.
#[inline(always)]
fn copy_ends<const N: usize>(from: &[f32], to: &mut [f32]) -> bool {
    let (Some(first), Some(last)) = (from.first_chunk::<N>(), from.last_chunk::<N>()) else { return false };
    if let Some(to) = to.first_chunk_mut::<N>() {
        *to = *first;
    }
    if let Some(to) = to.last_chunk_mut::<N>() {
        *to = *last;
    }
    true
}
