//! A split of rows into two parts by the hash of a column.

use crate::{Batch, Column, Dataset, ValuesView};
use phalanx_base::{Code, Error, Result, mix};
use phalanx_formats::fingerprint::fingerprint64;

/// One of the two parts of a [`HashSplit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitPart {
    /// The rows to train on.
    Train,
    /// The rows to evaluate on.
    Eval,
}

/// A split of rows into a part to train on and a part to evaluate on, by the hash of a column.
///
/// All rows with the same value, such as all of a user, are in the same part. The split depends on the values only: it is
/// the same in every run, format and worker, and rows that are added later do not move others. Whole numbers are hashed
/// by their decimal digits, so that they are in the same part whether they are read as texts, integers or floats.
///
/// ```
/// use phalanx_data::{Batch, Column, HashSplit, SplitPart};
/// let split = HashSplit::new("user", 0.25)?;
/// let rows = Batch::new([("user", Column::i64((0..1000).collect()))])?;
/// let eval = split.keep(&rows, SplitPart::Eval)?.iter().filter(|keep| **keep).count();
/// assert!((200..300).contains(&eval));
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct HashSplit {
    column: String,
    share: f64,
}

impl HashSplit {
    /// Returns a split by `column` with about the share `eval` of its values in the part to evaluate on.
    ///
    /// # Errors
    /// If `eval` is not between 0 and 1.
    pub fn new(column: impl Into<String>, eval: f64) -> Result<Self> {
        if !(eval > 0.0 && eval < 1.0) {
            return Err(Error::new(Code::BadSetting, format!("the share {eval} of a split is not between 0 and 1"))
                .help("give the share of rows to evaluate on, such as 0.1"));
        }
        Ok(Self { column: column.into(), share: eval })
    }

    /// Returns the column whose values decide.
    #[must_use]
    pub fn column(&self) -> &str {
        &self.column
    }

    /// Returns the share of the part to evaluate on.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.share
    }

    /// Returns whether each row is in a part.
    ///
    /// # Errors
    /// If the column is missing, or has several values per row.
    pub fn keep(&self, rows: &Batch, part: SplitPart) -> Result<Vec<bool>> {
        let column = rows.column(&self.column)?;
        let hashes = hashes(column).ok_or_else(|| {
            Error::new(Code::ShapeMismatch, format!("the column {:?} has several values per row", self.column))
                .at("split")
                .help("split by a column of one value per row, such as an id")
        })?;
        // The share of the 2^64 hashes; exact to 53 bits.
        let limit = (self.share * 2.0_f64.powi(64)) as u64;
        Ok(hashes.into_iter().map(|hash| (hash < limit) == (part == SplitPart::Eval)).collect())
    }
}

/// The hash of the value of each row; `None` if a row has several. A row without a value counts as the empty text.
fn hashes(column: &Column) -> Option<Vec<u64>> {
    if column.width() != 1 {
        return None;
    }
    let texts = |index: usize| match column.values() {
        ValuesView::Bytes(texts) => fingerprint64(texts.get(index)),
        ValuesView::I64(values) => fingerprint64(values[index].to_string().as_bytes()),
        ValuesView::U8(values) => fingerprint64(values[index].to_string().as_bytes()),
        // Rust writes whole numbers without a point.
        ValuesView::F32(values) => fingerprint64(values[index].to_string().as_bytes()),
    };
    let hash = |index| mix(texts(index));
    let Some(splits) = column.splits() else { return Some((0..column.rows()).map(hash).collect()) };
    let of_row = |ends: &[usize]| match ends[1] - ends[0] {
        0 => Some(mix(fingerprint64(b""))),
        1 => Some(hash(ends[0] - splits[0])),
        _ => None,
    };
    splits.windows(2).map(of_row).collect()
}

impl Dataset {
    /// Keeps the rows of one part of a split.
    #[must_use]
    pub fn filter_split(self, split: HashSplit, part: SplitPart) -> Self {
        self.filter_rows(move |rows| split.keep(rows, part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_in_one_part_whatever_its_type() {
        let split = HashSplit::new("user", 0.3).unwrap();
        let part = |column: Column| split.keep(&Batch::new([("user", column)]).unwrap(), SplitPart::Eval).unwrap();
        let integers = part(Column::i64((0..500).collect()));
        assert_eq!(integers, part(Column::text((0..500).map(|user: i32| user.to_string()))));
        assert_eq!(integers, part(Column::f32((0..500).map(|user| user as f32).collect())));
        let bags = Column::i64((0..500).collect()).with_splits((0..=500).collect()).unwrap();
        assert_eq!(integers, part(bags));
        let share = integers.iter().filter(|eval| **eval).count();
        assert!((120..180).contains(&share), "{share}");
        let train = split.keep(&Batch::new([("user", Column::i64((0..500).collect()))]).unwrap(), SplitPart::Train);
        assert!(train.unwrap().iter().zip(&integers).all(|(train, eval)| train != eval));
        // Fixed for good: a split must not move between versions.
        assert_eq!(
            integers[..12].iter().map(|eval| u8::from(*eval)).collect::<Vec<_>>(),
            [0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0]
        );
    }

    #[test]
    fn bags_and_shares_out_of_range_are_refused() {
        let split = HashSplit::new("tags", 0.3).unwrap();
        let tags = Column::i64(vec![1, 2, 3]).with_splits(vec![0, 2, 3]).unwrap();
        let error = split.keep(&Batch::new([("tags", tags)]).unwrap(), SplitPart::Eval).unwrap_err();
        assert!(error.to_string().contains("several values per row"), "{error}");
        assert!(HashSplit::new("x", 0.0).is_err() && HashSplit::new("x", f64::NAN).is_err());
    }
}
