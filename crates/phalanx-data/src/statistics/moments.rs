//! Count, minimum, mean, variance and maximum, after Welford and Chan.

/// The moments of numbers that were seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moments {
    count: u64,
    mean: f64,
    /// The sum of squared differences from the mean.
    squares: f64,
    min: f64,
    max: f64,
}

impl Default for Moments {
    fn default() -> Self {
        Self { count: 0, mean: 0.0, squares: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY }
    }
}

impl Moments {
    pub(super) fn add(&mut self, value: f64) {
        self.count += 1;
        let before = value - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (value - self.mean);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        let (ours, theirs) = (self.count as f64, other.count as f64);
        let apart = other.mean - self.mean;
        self.count += other.count;
        self.mean += apart * theirs / self.count as f64;
        self.squares += other.squares + apart * apart * ours * theirs / self.count as f64;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    fn known(&self, value: f64) -> Option<f64> {
        (self.count > 0).then_some(value)
    }

    pub(super) fn min(&self) -> Option<f64> {
        self.known(self.min)
    }

    pub(super) fn mean(&self) -> Option<f64> {
        self.known(self.mean)
    }

    pub(super) fn max(&self) -> Option<f64> {
        self.known(self.max)
    }

    pub(super) fn deviation(&self) -> Option<f64> {
        self.known((self.squares / self.count as f64).sqrt())
    }
}
