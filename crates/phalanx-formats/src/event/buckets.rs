//! Histograms for TensorBoard: buckets of equal width.

/// How many buckets a histogram has.
pub const BUCKETS: usize = 30;

/// The values from `left` on and before `right`; of the last bucket also those at `right`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// The least value that belongs here.
    pub left: f64,
    /// Where the next bucket begins.
    pub right: f64,
    /// How many values.
    pub count: f64,
}

/// Sorts values into [`BUCKETS`] buckets between the least and the largest, as `tf.summary.histogram` does. Values that
/// are all the same are counted in the last bucket; no values make buckets of zeros. Infinities and NaNs, for which
/// there is no bucket, are left out.
///
/// ```
/// use phalanx_formats::event::buckets;
/// let buckets = buckets(&[0.0, 1.0, 29.9, 30.0]);
/// assert_eq!((buckets[1].left, buckets[1].right, buckets[1].count), (1.0, 2.0, 1.0));
/// assert_eq!(buckets[29].count, 2.0);
/// ```
#[must_use]
pub fn buckets(values: &[f32]) -> Vec<Bucket> {
    let finite = || values.iter().filter(|value| value.is_finite()).map(|&value| f64::from(value));
    let least = finite().fold(f64::INFINITY, f64::min);
    let largest = finite().fold(f64::NEG_INFINITY, f64::max);
    if least > largest {
        return vec![Bucket { left: 0.0, right: 0.0, count: 0.0 }; BUCKETS];
    }
    let width = (largest - least) / BUCKETS as f64;
    let edge = |i: usize| if i == BUCKETS { largest } else { least + width * i as f64 };
    let mut buckets: Vec<Bucket> =
        (0..BUCKETS).map(|i| Bucket { left: edge(i), right: edge(i + 1), count: 0.0 }).collect();
    for value in finite() {
        let at = if width > 0.0 { ((value - least) / width) as usize } else { BUCKETS };
        buckets[at.min(BUCKETS - 1)].count += 1.0;
    }
    buckets
}
