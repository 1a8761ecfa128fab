//! The states of several metrics in one list, so that a worker sends one message.

use phalanx_base::{Code, Error, Result};

use super::Metric;

/// Returns the concatenated states of all metrics.
///
/// ```
/// use phalanx_nn::metrics::{Values, merge_words, parse, words_of};
/// let mut chief = vec![parse("accuracy", None, 1)?, parse("AUC", None, 1)?];
/// let mut worker: Vec<_> = chief.iter().map(|metric| metric.fresh()).collect();
/// for metric in &mut worker {
///     metric.update(Values::column(&[1.0, 0.0]), Values::column(&[0.8, 0.1]), None)?;
/// }
/// merge_words(&mut chief, &words_of(&worker))?;
/// assert_eq!(chief[0].result(), 1.0);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[must_use]
pub fn words_of(metrics: &[Box<dyn Metric>]) -> Vec<f64> {
    metrics.iter().flat_map(|metric| metric.state().iter().copied()).collect()
}

/// Adds states that [`words_of`] returned for the same metrics elsewhere.
///
/// # Errors
/// If the number of words does not match. The states are then unchanged.
pub fn merge_words(metrics: &mut [Box<dyn Metric>], words: &[f64]) -> Result<()> {
    each(metrics, words, |metric, own| metric.merge(own))
}

/// Replaces all states by those that [`words_of`] returned.
///
/// # Errors
/// If the number of words does not match. The states are then unchanged.
pub fn load_words(metrics: &mut [Box<dyn Metric>], words: &[f64]) -> Result<()> {
    each(metrics, words, |metric, own| metric.load_words(own))
}

fn each(
    metrics: &mut [Box<dyn Metric>],
    words: &[f64],
    mut act: impl FnMut(&mut dyn Metric, &[f64]) -> Result<()>,
) -> Result<()> {
    let wanted: usize = metrics.iter().map(|metric| metric.state().len()).sum();
    if wanted != words.len() {
        let what = format!("a state of {} numbers does not fit {} metrics of {wanted}", words.len(), metrics.len());
        return Err(
            Error::new(Code::ShapeMismatch, what).help("make the same metrics, in the same order, on every task")
        );
    }
    let mut rest = words;
    for metric in metrics {
        let (own, after) = rest.split_at(metric.state().len());
        act(metric.as_mut(), own)?;
        rest = after;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::parse;

    #[test]
    fn a_state_of_other_metrics_is_refused_as_a_whole() {
        let make = |names: &[&str]| -> Vec<_> { names.iter().map(|name| parse(name, None, 1).unwrap()).collect() };
        let mut metrics = make(&["mse", "Sum"]);
        load_words(&mut metrics, &[6.0, 2.0, 5.0]).unwrap();
        assert_eq!((metrics[0].result(), metrics[1].result()), (3.0, 5.0));
        let error = merge_words(&mut metrics, &words_of(&make(&["mse"]))).unwrap_err();
        assert_eq!(error.what(), "a state of 2 numbers does not fit 2 metrics of 3");
        assert_eq!(words_of(&metrics), [6.0, 2.0, 5.0]);
    }
}
