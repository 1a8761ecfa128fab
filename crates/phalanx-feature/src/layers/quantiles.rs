//! Keras' quantile estimation for streams: a weighted summary, merged batch by batch.
//!
//! Rounding follows numpy: sums of weights in single precision, interpolation in double precision.

/// Values in increasing order, each with the number of values it represents.
#[derive(Clone, Debug, Default)]
pub(super) struct Summary {
    values: Vec<f32>,
    weights: Vec<f32>,
}

impl Summary {
    /// Adds a batch.
    pub(super) fn add(&mut self, mut batch: Vec<f32>, epsilon: f64) {
        // NaN sorts last, as in numpy.
        batch.sort_by(f32::total_cmp);
        let increment = (batch.len() as f32 / (1.0 / epsilon) as f32) as usize;
        let step = increment.max(1);
        let values: Vec<f32> = batch.into_iter().skip(increment).step_by(step).collect();
        let weights = vec![step as f32; values.len()];
        let merged = Self { values, weights }.merge(std::mem::take(self));
        *self = merged.compress(epsilon);
    }

    /// Returns the boundaries of `bins` bins that hold about the same number of values.
    pub(super) fn boundaries(&self, bins: usize) -> Vec<f32> {
        let mut values = self.clone().compress(1.0 / bins as f64).values;
        values.pop();
        values
    }

    fn merge(self, other: Self) -> Self {
        let mut pairs: Vec<(f32, f32)> = self.pairs().chain(other.pairs()).collect();
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (values, weights) = pairs.into_iter().unzip();
        Self { values, weights }
    }

    fn pairs(self) -> impl Iterator<Item = (f32, f32)> {
        self.values.into_iter().zip(self.weights)
    }

    fn compress(self, epsilon: f64) -> Self {
        if (self.values.len() as f64) * epsilon < 1.0 {
            return self;
        }
        let mut total = 0.0_f32;
        let sums: Vec<f32> = self
            .weights
            .iter()
            .map(|weight| {
                total += weight;
                total
            })
            .collect();
        let shares: Vec<f64> = sums.iter().map(|sum| f64::from(sum / total)).collect();
        let sums: Vec<f64> = sums.into_iter().map(f64::from).collect();
        let values: Vec<f64> = self.values.iter().map(|&value| f64::from(value)).collect();
        let steps = (1.0 / epsilon).ceil() as usize;
        let mut out = Self::default();
        let mut before = 0.0;
        for step in 0..steps {
            let share = epsilon + step as f64 * epsilon;
            let sum = interpolate(share, &shares, &sums);
            out.values.push(interpolate(share, &shares, &values) as f32);
            out.weights.push((sum - before) as f32);
            before = sum;
        }
        out
    }
}

/// numpy's `interp` at one point.
fn interpolate(at: f64, points: &[f64], values: &[f64]) -> f64 {
    let after = points.partition_point(|&point| point <= at);
    let Some(last) = after.checked_sub(1) else { return values.first().copied().unwrap_or_default() };
    if after == points.len() || points[last] == at {
        return values[last];
    }
    let slope = (values[after] - values[last]) / (points[after] - points[last]);
    slope * (at - points[last]) + values[last]
}
