//! Quantiles of a stream in bounded memory.

/// The capacity of a level. More levels of this size bring less error: the rank is off by at most
/// `levels / (2 · CAPACITY)` of the numbers, 0.5 % of a billion.
const CAPACITY: usize = 2048;

/// A sketch of a distribution: quantiles of any number of values from at most a few hundred kilobytes.
///
/// Up to 2047 values it is exact: the quantile of share `s` is the smallest value such that at least `s` of all values
/// are at or below it (numpy's `inverted_cdf`). Above that, its rank is off by at most 0.5 % for a billion values, and
/// typically by a tenth of that. The result depends on the values and their order only.
///
/// ```
/// use phalanx_data::QuantileSketch;
/// let mut sketch = QuantileSketch::default();
/// (1..=100).for_each(|value| sketch.add(f64::from(value)));
/// assert_eq!((sketch.quantile(0.25), sketch.quantile(0.5)), (Some(25.0), Some(50.0)));
/// ```
#[derive(Clone, Debug, Default)]
pub struct QuantileSketch {
    /// A value of level `n` stands for `2^n` values.
    levels: Vec<Vec<f64>>,
    /// Whether the next compaction keeps the values of odd rank. Alternating cancels the error of each choice.
    keep_odd: bool,
}

impl QuantileSketch {
    /// Adds a value; NaN is ignored.
    pub fn add(&mut self, value: f64) {
        if value.is_nan() {
            return;
        }
        if self.levels.is_empty() {
            self.levels.push(Vec::new());
        }
        self.levels[0].push(value);
        if self.levels[0].len() >= CAPACITY {
            self.compact();
        }
    }

    /// Adds the values of another sketch.
    pub fn merge(&mut self, other: &Self) {
        for (level, values) in other.levels.iter().enumerate() {
            if self.levels.len() == level {
                self.levels.push(Vec::new());
            }
            self.levels[level].extend_from_slice(values);
        }
        self.compact();
    }

    /// Halves every level that is full into the level above.
    fn compact(&mut self) {
        let mut level = 0;
        while level < self.levels.len() {
            if self.levels[level].len() >= CAPACITY {
                let mut values = std::mem::take(&mut self.levels[level]);
                values.sort_unstable_by(f64::total_cmp);
                // An odd one out stays, so that no value is lost.
                let rest = if values.len() % 2 == 1 { values.pop() } else { None };
                let kept = values.iter().skip(usize::from(self.keep_odd)).step_by(2).copied().collect::<Vec<_>>();
                self.keep_odd = !self.keep_odd;
                self.levels[level].extend(rest);
                if self.levels.len() == level + 1 {
                    self.levels.push(Vec::new());
                }
                self.levels[level + 1].extend(kept);
            }
            level += 1;
        }
    }

    /// Returns the values in increasing order, each with the number of values up to and including it.
    fn ranks(&self) -> Vec<(f64, u64)> {
        let weighted = self.levels.iter().enumerate();
        let mut values: Vec<(f64, u64)> =
            weighted.flat_map(|(level, values)| values.iter().map(move |&value| (value, 1 << level))).collect();
        values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let mut total = 0;
        values.iter_mut().for_each(|(_, weight)| {
            total += *weight;
            *weight = total;
        });
        values
    }

    /// Returns the value at or below which the share `share` of all values lies; `None` if there are no values.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<f64> {
        self.quantiles(&[share]).pop()
    }

    /// Returns several quantiles at the cost of one; none if there are no values.
    #[must_use]
    pub fn quantiles(&self, shares: &[f64]) -> Vec<f64> {
        let ranks = self.ranks();
        let Some(&(_, total)) = ranks.last() else { return Vec::new() };
        let at = |&share: &f64| {
            let wanted = ((share * total as f64).ceil() as u64).clamp(1, total);
            ranks[ranks.partition_point(|&(_, rank)| rank < wanted)].0
        };
        shares.iter().map(at).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARES: [f64; 7] = [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99];

    /// The largest error of rank, as a share of all values, of a permutation of `0..count`.
    fn error(sketch: &QuantileSketch, count: u64) -> f64 {
        let found = sketch.quantiles(&SHARES);
        let off = SHARES.iter().zip(found).map(|(share, value)| ((value + 1.0) / count as f64 - share).abs());
        off.fold(0.0, f64::max)
    }

    #[test]
    fn ranks_are_close_in_every_order() {
        const COUNT: u64 = 300_000;
        let orders: [fn(u64) -> u64; 3] = [|at| at, |at| COUNT - 1 - at, |at| at * 7919 % COUNT];
        for order in orders {
            let mut sketch = QuantileSketch::default();
            (0..COUNT).for_each(|at| sketch.add(order(at) as f64));
            assert!(error(&sketch, COUNT) < 0.003, "{}", error(&sketch, COUNT));
            assert!(sketch.levels.iter().map(Vec::len).sum::<usize>() < 12 * CAPACITY);
            assert_eq!(sketch.ranks().last().map(|last| last.1), Some(COUNT));
        }
    }

    #[test]
    fn merging_loses_no_value() {
        let mut merged = QuantileSketch::default();
        for part in 0..100_u64 {
            let mut sketch = QuantileSketch::default();
            (0..3001).for_each(|at| sketch.add(((part * 3001 + at) * 7919 % 300_100) as f64));
            merged.merge(&sketch);
        }
        assert_eq!(merged.ranks().last().map(|last| last.1), Some(300_100));
        assert!(error(&merged, 300_100) < 0.003, "{}", error(&merged, 300_100));
    }

    #[test]
    fn no_values_have_no_quantiles() {
        let mut empty = QuantileSketch::default();
        empty.add(f64::NAN);
        assert_eq!(empty.quantile(0.5), None);
    }
}
