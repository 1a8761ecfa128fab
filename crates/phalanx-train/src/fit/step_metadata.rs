//! What workers exchange together with the gradients of a step, which saves a round trip.

use phalanx_base::{Code, Error, Result};

/// The numbers of one step; they are summed over the workers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct StepMetadata {
    /// Rows in this step.
    rows: f32,
    /// Workers that still have data.
    with_data: f32,
    /// Rows of a full step, by each worker's settings.
    nominal: f32,
    /// Workers whose callbacks want to stop.
    asked: f32,
    /// Workers that were interrupted by a signal or an `Interrupt`.
    interrupted: f32,
}

impl StepMetadata {
    pub(super) fn new(rows: usize, with_data: bool, nominal: f32, asked: bool, interrupted: bool) -> Self {
        let flag = |yes: bool| f32::from(u8::from(yes));
        Self {
            rows: rows as f32,
            with_data: flag(with_data),
            nominal,
            asked: flag(asked),
            interrupted: flag(interrupted),
        }
    }

    pub(super) fn words(self) -> [f32; 5] {
        [self.rows, self.with_data, self.nominal, self.asked, self.interrupted]
    }

    pub(super) fn read(words: &[f32; 5]) -> Self {
        let [rows, with_data, nominal, asked, interrupted] = *words;
        Self { rows, with_data, nominal, asked, interrupted }
    }

    /// Returns the factor that turns gradients divided by `nominal` into the mean over the step's rows, or `None` if
    /// there is nothing to apply.
    pub(super) fn scale(self, nominal: f32) -> Option<f32> {
        (self.rows > 0.0).then(|| nominal / self.rows)
    }

    pub(super) fn anybody_has_data(self) -> bool {
        self.with_data > 0.0
    }

    pub(super) fn anybody_stops(self) -> bool {
        self.asked > 0.0 || self.interrupted > 0.0
    }

    pub(super) fn interrupted(self) -> bool {
        self.interrupted > 0.0
    }

    /// Fails unless all workers divide by the same number.
    pub(super) fn check(self, nominal: f32, workers: usize) -> Result<()> {
        if (self.nominal - nominal * workers as f32).abs() < 0.5 {
            return Ok(());
        }
        Err(Error::new(Code::BadSetting, "the workers have different batch sizes")
            .because(format!("this one has {nominal}, all {workers} together {}", self.nominal))
            .help("start the same program with the same settings on every worker"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_step_is_scaled_to_its_own_mean() {
        let all = StepMetadata::new(6, true, 8.0, false, false).words();
        assert_eq!(StepMetadata::read(&all).scale(8.0), Some(8.0 / 6.0));
        assert_eq!(StepMetadata::new(0, false, 8.0, false, false).scale(8.0), None);
    }

    #[test]
    fn other_batch_sizes_are_noticed() {
        let sum = StepMetadata { nominal: 24.0, ..StepMetadata::default() };
        assert!(sum.check(12.0, 2).is_ok());
        assert!(sum.check(8.0, 2).is_err());
    }
}
