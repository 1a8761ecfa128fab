//! One pass over a dataset, for layers that learn from it.

use phalanx_base::Result;
use phalanx_data::{Batch, Dataset};

/// Calls a function with batches that together hold every row once.
///
/// Rows that are not in batches yet are read many at a time: a call per row would cost more than the work.
pub(crate) fn each_batch(data: &Dataset, mut f: impl FnMut(Batch) -> Result<()>) -> Result<()> {
    let batches = if data.is_batched() { data.iter()? } else { data.clone().batch(1024).iter()? };
    for batch in batches {
        f(batch?)?;
    }
    Ok(())
}
