//! The thresholds above which a prediction is positive.

use phalanx_base::{Code, Error, Result};

use super::regression::EPSILON;

/// Thresholds in increasing order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Thresholds {
    sorted: Vec<f32>,
    /// The index in `sorted` of each threshold in the given order.
    places: Vec<usize>,
    spacing: Spacing,
}

/// The method to find the bucket of a prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spacing {
    /// Binary search.
    Any,
    /// Multiplication, as in Keras for thresholds that are evenly spaced over [0, 1].
    Even,
    /// Multiplication, with the outer thresholds moved out by an epsilon: every prediction is above the first.
    EvenBeyond,
}

impl Thresholds {
    /// The user's thresholds, in any order.
    pub(crate) fn given(thresholds: &[f32]) -> Result<Self> {
        check(thresholds)?;
        let spacing = if is_even(thresholds) { Spacing::Even } else { Spacing::Any };
        Ok(Self::sort(thresholds, spacing))
    }

    /// A single threshold, which may be outside [0, 1].
    pub(crate) fn one(threshold: f32) -> Self {
        Self { sorted: vec![threshold], places: vec![0], spacing: Spacing::Any }
    }

    /// `count` thresholds from 0 to 1; a single one is 0.5.
    pub(crate) fn spread(count: usize) -> Result<Self> {
        check_count(count, 1)?;
        Ok(if count == 1 { Self::one(0.5) } else { Self::evenly(count) })
    }

    /// Keras' default: 200 thresholds.
    pub(crate) fn usual() -> Self {
        Self::evenly(USUAL)
    }

    fn evenly(count: usize) -> Self {
        let last = count.saturating_sub(1) as f64;
        let sorted = (0..count).map(|index| (index as f64 / last) as f32).collect();
        Self { sorted, places: (0..count).collect(), spacing: Spacing::Even }
    }

    /// `count` thresholds from just below 0 to just above 1, for the area under a curve.
    pub(crate) fn spread_beyond(count: usize) -> Result<Self> {
        check_count(count, 2)?;
        Ok(Self::evenly(count).beyond())
    }

    /// The user's thresholds between one just below 0 and one just above 1.
    pub(crate) fn given_beyond(inner: &[f32]) -> Result<Self> {
        check(inner)?;
        let mut thresholds = vec![0.0];
        thresholds.extend_from_slice(inner);
        thresholds.push(1.0);
        thresholds.sort_by(f32::total_cmp);
        let spacing = if is_even(&thresholds) { Spacing::Even } else { Spacing::Any };
        Ok(Self::sort(&thresholds, spacing).beyond())
    }

    fn sort(thresholds: &[f32], spacing: Spacing) -> Self {
        let mut order: Vec<usize> = (0..thresholds.len()).collect();
        order.sort_by(|&a, &b| thresholds[a].total_cmp(&thresholds[b]));
        let mut places = vec![0; order.len()];
        for (place, &given) in order.iter().enumerate() {
            places[given] = place;
        }
        Self { sorted: order.iter().map(|&given| thresholds[given]).collect(), places, spacing }
    }

    /// Moves the outer thresholds just below 0 and just above 1.
    pub(crate) fn beyond(mut self) -> Self {
        if let [first, .., last] = self.sorted.as_mut_slice() {
            (*first, *last) = (0.0 - EPSILON, 1.0 + EPSILON);
        }
        if self.spacing == Spacing::Even {
            self.spacing = Spacing::EvenBeyond;
        }
        self
    }

    /// The number of thresholds.
    pub(crate) fn len(&self) -> usize {
        self.sorted.len()
    }

    /// The index in increasing order of each threshold in the given order.
    pub(crate) fn places(&self) -> &[usize] {
        &self.places
    }

    /// The number of thresholds below the prediction, 0 for NaN.
    #[inline]
    pub(crate) fn below(&self, prediction: f32) -> usize {
        let even = || (prediction.clamp(0.0, 1.0) * (self.sorted.len() - 1) as f32).ceil() as usize;
        match self.spacing {
            Spacing::Any => self.sorted.partition_point(|&threshold| threshold < prediction),
            Spacing::Even => even(),
            Spacing::EvenBeyond if prediction.is_nan() => 0,
            Spacing::EvenBeyond => even().max(1),
        }
    }
}

/// Keras' test for even spacing, with its tolerances.
fn is_even(thresholds: &[f32]) -> bool {
    let last = thresholds.len().saturating_sub(1) as f32;
    thresholds.len() >= 3
        && thresholds.iter().enumerate().all(|(index, &threshold)| {
            let even = index as f32 / last;
            f64::from((threshold - even).abs()) <= f64::from(EPSILON) + 1e-5 * f64::from(even)
        })
}

fn check(thresholds: &[f32]) -> Result<()> {
    let bad = || Error::new(Code::BadSetting, "the thresholds are not valid");
    if thresholds.is_empty() {
        return Err(bad().because("the list of thresholds is empty").help("give at least one threshold"));
    }
    match thresholds.iter().find(|threshold| !(0.0..=1.0).contains(*threshold)) {
        Some(threshold) => {
            Err(bad().because(format!("{threshold} is not in [0, 1]")).help("give thresholds between 0 and 1"))
        }
        None => Ok(()),
    }
}

/// Keras' default number of thresholds.
const USUAL: usize = 200;

/// The maximum number of thresholds, which limits the memory.
const MOST: usize = 10_000_000;

fn check_count(count: usize, least: usize) -> Result<()> {
    if (least..=MOST).contains(&count) {
        return Ok(());
    }
    Err(Error::new(Code::BadSetting, format!("{count} thresholds"))
        .because(format!("there must be {least} to {MOST}"))
        .help("leave num_thresholds at 200"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prediction_on_a_threshold_is_not_above_it() {
        for thresholds in [Thresholds::spread(3).unwrap(), Thresholds::given(&[0.0, 0.5, 1.0]).unwrap()] {
            let below = |p| thresholds.below(p);
            assert_eq!([-1.0, 0.0, 0.2, 0.5, 0.7, 1.0, 7.0, f32::NAN].map(below), [0, 0, 1, 1, 2, 2, 2, 0]);
        }
        let any = Thresholds::given(&[0.9, 0.1, 0.5]).unwrap();
        assert_eq!([0.1, 0.2, 0.9, 2.0, f32::NAN].map(|p| any.below(p)), [0, 1, 2, 3, 0]);
        assert_eq!(any.places(), [2, 0, 1]);
        let beyond = Thresholds::spread_beyond(3).unwrap();
        assert_eq!([0.0, 0.5, 0.6, 1.0, f32::NAN].map(|p| beyond.below(p)), [1, 1, 2, 2, 0]);
    }

    #[test]
    fn thresholds_out_of_range_are_refused() {
        for bad in [&[0.5, 1.5][..], &[f32::NAN], &[]] {
            assert_eq!(Thresholds::given(bad).unwrap_err().code(), Code::BadSetting);
        }
        assert!(Thresholds::spread(0).is_err() && Thresholds::spread(usize::MAX).is_err());
        assert!(Thresholds::spread_beyond(1).is_err());
    }
}
