//! One pass over a dataset, for layers that adapt to it.

use phalanx_base::Result;
use phalanx_data::{Batch, Dataset};

/// Calls `f` with the batches of a dataset. Unbatched rows are grouped first, because a call per row is expensive.
pub(crate) fn each_batch(data: &Dataset, mut f: impl FnMut(Batch) -> Result<()>) -> Result<()> {
    let batches = if data.is_batched() { data.iter()? } else { data.clone().batch(1024).iter()? };
    for batch in batches {
        f(batch?)?;
    }
    Ok(())
}
