//! The columns of a click log: their names, how many ids each has, and how ids are drawn.

use super::math::{exp2, log2, uniform};

/// How many columns hold numbers.
pub(super) const NUMBERS: usize = 13;

/// How many ids each categorical column of a public click log has (the display advertising challenge of 2014).
pub(super) const CARDINALITIES: [u64; 26] = [
    1_460, 583, 10_131_227, 2_202_608, 305, 24, 12_517, 633, 3, 93_145, 5_683, 8_351_593, 3_194, 27, 14_992, 5_461_306,
    10, 5_652, 2_173, 4, 7_046_547, 18, 15, 286_181, 105, 142_572,
];

/// How fast ids become rare: the id of rank r has a share like r to the power of minus this.
pub(super) const EXPONENT: f64 = 1.1;

/// Names as the public data has them: `I1` to `I13`.
pub(super) fn number_name(index: usize) -> String {
    format!("I{}", index + 1)
}

/// Names as the public data has them: `C1` to `C26`.
pub(super) fn category_name(index: usize) -> String {
    format!("C{}", index + 1)
}

/// Draws ids below a bound, the small ones most often.
///
/// The continuous power law between 1 and the bound + 1, cut to whole numbers: one logarithm and one power per id, and
/// no table, so that ten million ids cost no more than three.
#[derive(Clone, Copy, Debug)]
pub(super) struct PowerLaw {
    ids: u64,
    /// `bound ^ (1 - exponent) - 1`.
    slope: f64,
}

impl PowerLaw {
    pub(super) fn new(ids: u64) -> Self {
        Self { ids, slope: exp2(log2(ids as f64 + 1.0) * (1.0 - EXPONENT)) - 1.0 }
    }

    /// The id that a random word means.
    #[inline]
    pub(super) fn draw(&self, word: u64) -> i64 {
        let inside = 1.0 + uniform(word) * self.slope;
        let rank = exp2(log2(inside) * (1.0 / (1.0 - EXPONENT)));
        // Rounding may touch either end.
        (rank as i64 - 1).clamp(0, self.ids as i64 - 1)
    }

    /// The share of rows that have the id.
    #[cfg(test)]
    pub(super) fn share(&self, id: u64) -> f64 {
        let power = |x: f64| x.powf(1.0 - EXPONENT);
        (power(id as f64 + 1.0) - power(id as f64 + 2.0)) / -self.slope
    }
}

#[cfg(test)]
mod tests {
    use super::super::math::word;
    use super::*;

    #[test]
    fn ids_stay_below_their_bound_and_follow_the_law() {
        for ids in [1, 3, 24, 1_460, 10_131_227] {
            let law = PowerLaw::new(ids);
            let mut counts = [0_u32; 4];
            for i in 0..200_000 {
                let id = law.draw(word(5, i));
                assert!((0..ids as i64).contains(&id), "{id} of {ids}");
                if let Some(count) = counts.get_mut(id as usize) {
                    *count += 1;
                }
            }
            for (id, &count) in counts.iter().enumerate().take(ids as usize) {
                let (share, wanted) = (f64::from(count) / 2e5, law.share(id as u64));
                assert!((share - wanted).abs() < 0.005, "id {id} of {ids}: {share}, not {wanted}");
            }
        }
        let law = PowerLaw::new(10_131_227);
        assert_eq!(law.draw(0), 0);
        assert!(law.draw(u64::MAX) > 10_000_000);
    }
}
