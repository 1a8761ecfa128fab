//! How many shards a variable is split into along axis 0, by TensorFlow's formulas.

use phalanx_base::{Code, Error, Result, Shape};
use std::ops::Range;

const F32_BYTES: usize = 4;

/// Splits variables along axis 0, as `tf.distribute.experimental.partitioners` does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Partitioner {
    /// Variables are not split.
    #[default]
    Whole,
    /// `FixedShardsPartitioner`: this many, or one for each row if there are fewer rows.
    FixedShards(usize),
    /// `MinSizePartitioner`. TensorFlow rounds the count up, so shards may be smaller than the minimum; so do we.
    MinSize {
        /// What a shard should at least have (TensorFlow's default: 256 KiB).
        min_shard_bytes: usize,
        /// At most this many shards (TensorFlow's default is 1, which splits nothing).
        max_shards: usize,
    },
    /// `MaxSizePartitioner`.
    MaxSize {
        /// What a shard may at most have.
        max_shard_bytes: usize,
        /// At most this many shards, if given.
        max_shards: Option<usize>,
    },
}

impl Partitioner {
    /// How many shards a variable of this shape gets.
    ///
    /// ```
    /// use phalanx_base::Shape;
    /// use phalanx_ps::Partitioner;
    /// let shape = Shape::new([9, 20]).unwrap();
    /// assert_eq!(Partitioner::FixedShards(2).shards(&shape).unwrap(), 2);
    /// ```
    ///
    /// # Errors
    /// When a setting is zero.
    pub fn shards(self, shape: &Shape) -> Result<usize> {
        let rows = shape.rows();
        if shape.dims().is_empty() || rows == 0 {
            return Ok(1);
        }
        let row_bytes = shape.row_elements() * F32_BYTES;
        let zero = |what: &str| Error::new(Code::BadSetting, format!("a partitioner's {what} must be greater than 0"));
        match self {
            Self::Whole => Ok(1),
            Self::FixedShards(0) => Err(zero("number of shards")),
            Self::FixedShards(shards) => Ok(shards.min(rows)),
            Self::MinSize { min_shard_bytes: 0, .. } => Err(zero("min_shard_bytes")),
            Self::MinSize { max_shards: 0, .. } => Err(zero("max_shards")),
            Self::MinSize { min_shard_bytes, max_shards } => {
                Ok((rows * row_bytes).div_ceil(min_shard_bytes).min(max_shards).min(rows).max(1))
            }
            Self::MaxSize { max_shard_bytes: 0, .. } => Err(zero("max_shard_bytes")),
            Self::MaxSize { max_shards: Some(0), .. } => Err(zero("max_shards")),
            Self::MaxSize { max_shard_bytes, max_shards } => {
                let rows_per_shard = (max_shard_bytes / row_bytes.max(1)).max(1);
                Ok(rows.div_ceil(rows_per_shard).min(max_shards.unwrap_or(usize::MAX)))
            }
        }
    }
}

/// The rows of each of `shards` shards: TensorFlow's "div" rule, in which the first ones get the remainder.
///
/// ```
/// assert_eq!(phalanx_ps::plan::split(9, 2), [0..5, 5..9]);
/// ```
#[must_use]
pub fn split(rows: usize, shards: usize) -> Vec<Range<usize>> {
    let (base, extra) = (rows / shards, rows % shards);
    (0..shards).map(|i| i * base + i.min(extra)..(i + 1) * base + (i + 1).min(extra)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shards(partitioner: Partitioner, dims: &[usize]) -> usize {
        partitioner.shards(&Shape::new(dims).unwrap()).unwrap()
    }

    #[test]
    fn counts_are_tensorflows() {
        assert_eq!(shards(Partitioner::FixedShards(5), &[3, 2]), 3);
        // 24 bytes with a minimum of 16 make two shards of 12 bytes: the count is rounded up.
        assert_eq!(shards(Partitioner::MinSize { min_shard_bytes: 16, max_shards: 9 }, &[6]), 2);
        assert_eq!(shards(Partitioner::MinSize { min_shard_bytes: 256 << 10, max_shards: 1 }, &[1 << 20]), 1);
        assert_eq!(shards(Partitioner::MaxSize { max_shard_bytes: 16, max_shards: None }, &[10]), 3);
        assert_eq!(shards(Partitioner::MaxSize { max_shard_bytes: 1, max_shards: None }, &[10, 4]), 10);
        assert_eq!(shards(Partitioner::MaxSize { max_shard_bytes: 16, max_shards: Some(2) }, &[10]), 2);
        assert_eq!(shards(Partitioner::FixedShards(2), &[]), 1);
    }

    #[test]
    fn zero_settings_are_refused() {
        let shape = Shape::new([4]).unwrap();
        assert_eq!(Partitioner::FixedShards(0).shards(&shape).unwrap_err().code(), Code::BadSetting);
    }

    #[test]
    fn splits_are_tensorflows() {
        let lengths = |rows, shards| split(rows, shards).into_iter().map(|rows| rows.len()).collect::<Vec<_>>();
        assert_eq!(lengths(10, 4), [3, 3, 2, 2]);
        assert_eq!(lengths(13, 5), [3, 3, 3, 2, 2]);
    }

    proptest! {
        #[test]
        fn shards_cover_every_row_once(rows in 0_usize..10_000, shards in 1_usize..64) {
            let parts = split(rows, shards);
            let mut next = 0;
            for part in &parts {
                prop_assert_eq!(part.start, next);
                next = part.end;
            }
            prop_assert_eq!((next, parts.len()), (rows, shards));
        }
    }
}
