//! Loops over rows that may be part of wider ones.

use crate::op::{Out, RowLayout};
use rayon::prelude::*;

/// Loops over fewer numbers than this run on one thread: it is done before a second one would have started.
const PARALLEL_THRESHOLD: usize = 1 << 15;

/// Calls `work` for every row.
pub(crate) fn for_each_row(out: Out<'_>, work: impl Fn(usize, &mut [f32]) + Sync) {
    let RowLayout { stride, start, width } = out.layout;
    let stride = stride.max(1);
    let part = |first: usize, rows: &mut [f32]| {
        for (row, out) in rows.chunks_exact_mut(stride).enumerate() {
            work(first + row, &mut out[start..start + width]);
        }
    };
    let rows = out.values.len() / stride;
    if rows * width <= PARALLEL_THRESHOLD {
        return part(0, out.values);
    }
    let each = (PARALLEL_THRESHOLD / width.max(1)).max(1);
    out.values.par_chunks_mut(each * stride).enumerate().for_each(|(at, rows)| part(at * each, rows));
}
