//! Which gradients workers sum together.

use phalanx_nn::HostBuffer;
use std::ops::Range;

/// Returns ranges of adjacent gradients to sum together: up to a megabyte, or a single larger one.
pub(super) fn bucketed(gradients: &[Option<HostBuffer>]) -> Vec<Range<usize>> {
    const BYTES: usize = 1 << 20;
    let mut buckets: Vec<Range<usize>> = Vec::new();
    let mut bytes = 0;
    for (number, gradient) in gradients.iter().enumerate() {
        let own = 4 * gradient.as_ref().map_or(0, |flat| flat.len());
        match buckets.last_mut() {
            Some(bucket) if bytes + own <= BYTES => {
                bucket.end = number + 1;
                bytes += own;
            }
            _ => {
                buckets.push(number..number + 1);
                bytes = own;
            }
        }
    }
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_small_neighbours_or_one_large_one() {
        let lengths = [10, 300_000, 5, 200_000, 70_000, 7];
        let gradients: Vec<_> = lengths.iter().map(|&length| Some(HostBuffer::zeros(length))).collect();
        assert_eq!(bucketed(&gradients), [0..1, 1..2, 2..4, 4..6]);
    }
}
