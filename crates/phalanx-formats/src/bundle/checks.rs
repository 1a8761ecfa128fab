//! What must hold between the entries of an index.

use super::{BundleIndex, Span, TensorInfo, TensorLocation, malformed};
use phalanx_base::Result;

/// How many pairs of slices are compared before an index is given up: honest ones need one per slice.
const MAX_COMPARISONS: usize = 50_000_000;

/// Checks that no bytes belong to two tensors, and no element of a tensor to two slices.
pub(super) fn check(index: &BundleIndex) -> Result<()> {
    let mut comparisons = MAX_COMPARISONS;
    for (name, info) in index.tensors() {
        slices_are_disjoint(info, &mut comparisons).map_err(|error| error.at(format!("tensor {name:?}")))?;
    }
    let mut spans: Vec<&Span> = index.tensors().values().flat_map(TensorInfo::spans).collect();
    spans.retain(|span| span.size > 0);
    spans.sort_unstable_by_key(|span| (span.shard, span.offset));
    for pair in spans.windows(2) {
        let (before, after) = (pair[0], pair[1]);
        if before.shard == after.shard && before.offset.saturating_add(before.size) > after.offset {
            let Span { shard, offset, .. } = after;
            return Err(malformed(format!("byte {offset} of shard {shard} belongs to two tensors")));
        }
    }
    Ok(())
}

/// Sweeps over the slices by their first row; those of a variable cut into rows then meet their neighbour only.
fn slices_are_disjoint(info: &TensorInfo, comparisons: &mut usize) -> Result<()> {
    let TensorLocation::Sliced(parts) = &info.location else { return Ok(()) };
    let mut regions = Vec::with_capacity(parts.len());
    for (slice, _) in parts {
        regions.push(slice.region(&info.shape).map_err(malformed)?);
    }
    regions.retain(|region| region.elements() > 0);
    regions.sort_unstable_by_key(super::region::Region::first_row);
    for (i, region) in regions.iter().enumerate() {
        for other in &regions[i + 1..] {
            *comparisons = comparisons.checked_sub(1).ok_or_else(|| malformed("it has too many slices"))?;
            if other.first_row() >= region.end_row() {
                break;
            }
            if region.intersection(other).is_some() {
                return Err(malformed("two of its slices overlap"));
            }
        }
    }
    Ok(())
}
