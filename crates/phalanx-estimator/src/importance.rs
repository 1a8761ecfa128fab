//! Permutation importance: how much a metric changes when the values of an input are shuffled among the rows.

use crate::evaluation::evaluate;
use crate::trained::TrainedModel;
use crate::{Estimator, Exported, Head, Trainable};
use phalanx_base::{Code, Error, Result, SplitMix, mix};
use phalanx_data::{Batch, Dataset};
use phalanx_train::Interrupt;

/// The number of rows per batch.
const BATCH: usize = 1024;

/// The metrics that describe a model best, in the order of preference.
const USUAL: [&str; 4] = ["auc", "accuracy", "average_loss", "loss"];

/// How inputs are permuted and what is measured.
///
/// ```
/// use phalanx_estimator::Permutation;
/// let settings = Permutation::default().metric("average_loss").repeats(5).seed(7);
/// # let _ = settings;
/// ```
#[derive(Clone, Debug)]
pub struct Permutation {
    metric: Option<String>,
    repeats: u32,
    seed: u64,
}

impl Default for Permutation {
    fn default() -> Self {
        Self { metric: None, repeats: 3, seed: 0 }
    }
}

impl Permutation {
    phalanx_train::setters! {
        /// Sets the metric. The default is `auc`, else `accuracy`, else `average_loss`.
        metric(name: impl Into<String>) { metric = Some(name.into()) }
        /// Sets how often every input is permuted; the results are averaged. The default is 3.
        repeats(repeats: u32) { repeats = repeats }
        /// Sets the seed of the permutations. The same seed gives the same result.
        seed(seed: u64) { seed = seed }
    }

    fn metric_of(&self, head: &Head) -> Result<String> {
        let known = head.metric_names()?;
        let Some(asked) = &self.metric else {
            let usual = USUAL.iter().find(|name| known.iter().any(|known| known == *name));
            return Ok(usual.map_or_else(|| "loss".to_owned(), |name| (*name).to_owned()));
        };
        if known.contains(asked) {
            return Ok(asked.clone());
        }
        Err(Error::new(Code::BadSetting, format!("evaluations have no metric {asked:?}"))
            .help(format!("use one of {}", known.join(", "))))
    }
}

/// The importance of all inputs of a model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Importances {
    /// The metric.
    pub metric: String,
    /// The metric on the rows as they are.
    pub before: f64,
    /// The number of rows.
    pub rows: usize,
    /// The inputs, beginning with the one that changes the metric most.
    pub columns: Vec<Importance>,
}

/// The importance of one input.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Importance {
    /// The name of the input.
    pub column: String,
    /// The mean of the metric with this input permuted.
    pub after: f64,
    /// The difference: `after` without the metric on the rows as they are.
    pub difference: f64,
}

/// Measures `rows` as they are, and with each of `columns` permuted.
pub(crate) fn importances<M: Trainable>(
    trained: &TrainedModel<M>,
    head: &Head,
    rows: &Batch,
    columns: &[String],
    settings: &Permutation,
) -> Result<Importances> {
    let metric = settings.metric_of(head)?;
    if rows.rows() < 2 || settings.repeats == 0 {
        let what = format!("{} rows cannot be permuted {} times", rows.rows(), settings.repeats);
        return Err(Error::new(Code::BadSetting, what).help("give at least two rows, and at least one repeat"));
    }
    let measure = |rows: Batch| {
        let found =
            evaluate(trained, head, &Dataset::from_tensor_slices(rows).batch(BATCH), None, 1, &Interrupt::default())?;
        found.get(&metric).ok_or_else(|| Error::new(Code::Internal, format!("there is no metric {metric:?}")))
    };
    let before = measure(rows.clone())?;
    let mut all = Vec::with_capacity(columns.len());
    for (at, column) in columns.iter().enumerate() {
        let values = rows.select(&[column])?;
        let mut sum = 0.0;
        for repeat in 0..settings.repeats {
            // Each permutation depends on its own number only, so adding a column does not change those of the others.
            let stream = ((at as u64) << 32) | u64::from(repeat);
            let order = permutation(rows.rows(), settings.seed ^ mix(stream.wrapping_add(1)));
            sum += measure(rows.with_column(column, values.take_rows(&order)?.column(column)?.clone())?)?;
        }
        let after = sum / f64::from(settings.repeats);
        all.push(Importance { column: column.clone(), after, difference: after - before });
    }
    all.sort_by(|a, b| b.difference.abs().total_cmp(&a.difference.abs()));
    Ok(Importances { metric, before, rows: rows.rows(), columns: all })
}

/// Returns the numbers below `rows` in a random order.
fn permutation(rows: usize, seed: u64) -> Vec<u32> {
    let mut order: Vec<u32> = (0..rows as u32).collect();
    let mut random = SplitMix::new(seed);
    for last in (1..rows).rev() {
        order.swap(last, random.below(last + 1));
    }
    order
}

impl<M: Trainable> Estimator<M> {
    /// Returns how much the newest checkpoint depends on each of `columns`: a metric on `rows`, which have labels, and with
    /// each column permuted among the rows. Writes no summaries.
    ///
    /// # Errors
    /// Fails if there is no checkpoint, or rows, columns, metric and model do not fit.
    pub fn permutation_importance(
        &self,
        rows: &Batch,
        columns: &[String],
        settings: &Permutation,
    ) -> Result<Importances> {
        importances(&self.load()?, self.model.head(), rows, columns, settings)
    }
}

impl<M: Trainable> Exported<M> {
    /// Does the same as [`Estimator::permutation_importance`] for an export.
    ///
    /// # Errors
    /// As [`Estimator::permutation_importance`].
    pub fn permutation_importance(
        &self,
        rows: &Batch,
        columns: &[String],
        settings: &Permutation,
    ) -> Result<Importances> {
        importances(&self.trained, self.model.head(), rows, columns, settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LinearRegressor, RunConfig, TrainSteps};
    use phalanx_data::Column;
    use phalanx_feature::numeric_column;

    fn rows() -> Batch {
        let number = |at: usize, of: usize| (at * 7919 % of) as f32 / of as f32;
        let (a, b): (Vec<f32>, Vec<f32>) = (0..200).map(|at| (number(at, 101), number(at, 89))).unzip();
        let y = a.iter().map(|a| 3.0 * a).collect();
        Batch::new([("a", Column::f32(a)), ("b", Column::f32(b)), ("y", Column::f32(y))])
            .unwrap()
            .with_label("y")
            .unwrap()
    }

    #[test]
    fn the_input_that_the_label_depends_on_matters_and_the_other_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let config = RunConfig::new().model_dir(folder.path().to_string_lossy()).log_step_count_steps(None);
        let model = LinearRegressor::new([numeric_column("a"), numeric_column("b")]);
        let estimator = Estimator::new(&model, config).unwrap();
        let data = Dataset::from_tensor_slices(rows());
        estimator.train(|_| data.clone().repeat().batch(50), TrainSteps::Max(300)).unwrap();
        let columns = ["b".to_owned(), "a".to_owned()];
        let of = |settings: Permutation| estimator.permutation_importance(&rows(), &columns, &settings);
        let found = of(Permutation::default()).unwrap();
        assert_eq!((found.metric.as_str(), found.rows), ("average_loss", 200));
        assert_eq!(found.columns[0].column, "a", "{found:?}");
        assert!(found.columns[0].difference > 1.0 && found.columns[1].difference < 0.2, "{found:?}");
        assert_eq!(found, of(Permutation::default()).unwrap(), "the seed determines the result");
        assert_ne!(found, of(Permutation::default().seed(1)).unwrap());
        let error = of(Permutation::default().metric("auc")).unwrap_err();
        assert!(error.next().unwrap().contains("average_loss"), "{}", error.report());
        assert!(of(Permutation::default().repeats(0)).is_err());
        assert!(!folder.path().join("eval").exists(), "it is no evaluation of the run");
    }

    #[test]
    fn a_permutation_has_every_number_once() {
        let mut order = permutation(1000, 5);
        assert_ne!(order, permutation(1000, 6));
        order.sort_unstable();
        assert!(order.into_iter().eq(0..1000));
    }
}
