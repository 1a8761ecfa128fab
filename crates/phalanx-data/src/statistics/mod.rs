//! Statistics of a column, in one pass, in bounded memory, and mergeable: each thread or worker counts its share.

mod distinct;
mod moments;
mod quantiles;

use crate::{Column, ValuesView};
use distinct::Distinct;
use moments::Moments;
use phalanx_formats::fingerprint::fingerprint64;
pub use quantiles::QuantileSketch;

/// The statistics of one column: rows, missing values, distinct values, and for numbers also minimum, mean, standard
/// deviation, maximum and quantiles.
///
/// Missing are NaN, the empty text, and a ragged row without values. Infinite numbers are counted, and left out of the
/// statistics of numbers. A column needs at most 400 kB, whatever its length.
///
/// ```
/// use phalanx_data::{Column, ColumnStatistics};
/// let mut ages = ColumnStatistics::new();
/// ages.add(&Column::f32(vec![20.0, 30.0, f32::NAN]));
/// let mut others = ColumnStatistics::new();
/// others.add(&Column::i64(vec![40, 30]));
/// ages.merge(&others);
/// assert_eq!((ages.rows(), ages.missing(), ages.distinct()), (5, 1, 3));
/// assert_eq!((ages.min(), ages.mean(), ages.max()), (Some(20.0), Some(30.0), Some(40.0)));
/// assert_eq!(ages.quantile(0.5), Some(30.0));
/// ```
#[derive(Clone, Debug, Default)]
pub struct ColumnStatistics {
    rows: u64,
    missing: u64,
    infinite: u64,
    texts: u64,
    moments: Moments,
    distinct: Distinct,
    quantiles: QuantileSketch,
}

impl ColumnStatistics {
    /// Returns the statistics of no rows.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the rows of a column.
    pub fn add(&mut self, column: &Column) {
        self.rows += column.rows() as u64;
        if let Some(splits) = column.splits() {
            self.missing += splits.windows(2).filter(|ends| ends[0] == ends[1]).count() as u64;
        }
        match column.values() {
            ValuesView::F32(values) => {
                for &value in values {
                    match value {
                        _ if value.is_nan() => self.missing += 1,
                        _ if value.is_infinite() => self.infinite += 1,
                        _ => self.number(f64::from(value)),
                    }
                }
            }
            ValuesView::I64(values) => values.iter().for_each(|&value| {
                self.moments.add(value as f64);
                self.quantiles.add(value as f64);
                self.distinct.add(hash(value));
            }),
            ValuesView::U8(values) => values.iter().for_each(|&value| self.number(f64::from(value))),
            ValuesView::Bytes(texts) => {
                for text in texts.iter() {
                    if text.is_empty() {
                        self.missing += 1;
                    } else {
                        self.texts += 1;
                        self.distinct.add(fingerprint64(text));
                    }
                }
            }
        }
    }

    /// Adds rows whose value is missing and was not read into a column.
    pub fn add_missing(&mut self, rows: u64) {
        self.rows += rows;
        self.missing += rows;
    }

    fn number(&mut self, value: f64) {
        self.moments.add(value);
        self.quantiles.add(value);
        // Zeros of either sign are one value, and a whole number counts as the same value as that integer.
        let is_whole = value.fract() == 0.0 && value.abs() < 9e15;
        self.distinct.add(hash(if is_whole { value as i64 } else { value.to_bits().cast_signed() }));
    }

    /// Adds the statistics of other rows.
    pub fn merge(&mut self, other: &Self) {
        self.rows += other.rows;
        self.missing += other.missing;
        self.infinite += other.infinite;
        self.texts += other.texts;
        self.moments.merge(&other.moments);
        self.distinct.merge(&other.distinct);
        self.quantiles.merge(&other.quantiles);
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the number of values: numbers and texts that are neither missing nor infinite.
    #[must_use]
    pub fn values(&self) -> u64 {
        self.moments.count() + self.texts
    }

    /// Returns the number of missing values.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// Returns the number of infinite values.
    #[must_use]
    pub fn infinite(&self) -> u64 {
        self.infinite
    }

    /// Returns the number of distinct values: exact up to 4096, above that within about 2 %.
    #[must_use]
    pub fn distinct(&self) -> u64 {
        self.distinct.count()
    }

    /// Returns whether [`Self::distinct`] is exact.
    #[must_use]
    pub fn is_distinct_exact(&self) -> bool {
        self.distinct.is_exact()
    }

    /// Returns the smallest number.
    #[must_use]
    pub fn min(&self) -> Option<f64> {
        self.moments.min()
    }

    /// Returns the mean of the numbers.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        self.moments.mean()
    }

    /// Returns the standard deviation of the numbers (of the population: divided by their number).
    #[must_use]
    pub fn deviation(&self) -> Option<f64> {
        self.moments.deviation()
    }

    /// Returns the largest number.
    #[must_use]
    pub fn max(&self) -> Option<f64> {
        self.moments.max()
    }

    /// Returns the number below or at which the share `share` (0 to 1) of the numbers lies: see [`QuantileSketch`].
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<f64> {
        match share {
            _ if share <= 0.0 => self.min(),
            _ if share >= 1.0 => self.max(),
            _ => self.quantiles.quantile(share),
        }
    }
}

fn hash(value: i64) -> u64 {
    phalanx_base::mix(value.cast_unsigned().wrapping_add(phalanx_base::STRIDE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Strings;

    #[test]
    fn texts_and_bags_count_what_is_missing() {
        let mut tags = ColumnStatistics::new();
        tags.add(&Column::text(["a", "", "b", "a"]));
        assert_eq!((tags.rows(), tags.values(), tags.missing(), tags.distinct()), (4, 3, 1, 2));
        assert_eq!((tags.min(), tags.quantile(0.5)), (None, None));
        let bags = Column::bytes(["x", "y", "x"].map(str::as_bytes).into_iter().collect::<Strings>());
        tags.add(&bags.with_splits(vec![0, 2, 2, 3]).unwrap());
        assert_eq!((tags.rows(), tags.missing(), tags.distinct()), (7, 2, 4));
    }

    #[test]
    fn infinite_numbers_are_counted_and_left_out() {
        let mut numbers = ColumnStatistics::new();
        numbers.add(&Column::f32(vec![1.0, f32::INFINITY, f32::NAN, 3.0]));
        assert_eq!((numbers.values(), numbers.infinite(), numbers.missing()), (2, 1, 1));
        assert_eq!((numbers.mean(), numbers.deviation(), numbers.max()), (Some(2.0), Some(1.0), Some(3.0)));
    }

    #[test]
    fn shares_merge_to_the_statistics_of_the_whole() {
        let values: Vec<f32> = (0..50_000).map(|row| ((row * 7919) % 10_007) as f32 * 0.25 + 1e6).collect();
        let mut whole = ColumnStatistics::new();
        whole.add(&Column::f32(values.clone()));
        let mut merged = ColumnStatistics::new();
        for share in values.chunks(7_777) {
            let mut part = ColumnStatistics::new();
            part.add(&Column::f32(share.to_vec()));
            merged.merge(&part);
        }
        assert_eq!((merged.rows(), merged.min(), merged.max()), (whole.rows(), whole.min(), whole.max()));
        assert_eq!(merged.distinct(), whole.distinct());
        assert!((merged.mean().unwrap() - whole.mean().unwrap()).abs() < 1e-6);
        assert!((merged.deviation().unwrap() / whole.deviation().unwrap() - 1.0).abs() < 1e-9);
        let (low, high) = (whole.quantile(0.49).unwrap(), whole.quantile(0.51).unwrap());
        assert!((low..=high).contains(&merged.quantile(0.5).unwrap()));
    }
}
