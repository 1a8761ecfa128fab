//! What columns learn from the data before training: means, standard deviations and quantiles.

use crate::adapt::each_batch;
use crate::columns::FeatureColumn;
use crate::columns::function::NumericFunctions;
use crate::columns::kind::{Boundaries, Categorical, ColumnKind, CrossInput, Numeric};
use crate::numbers::each_f32;
use crate::transform::RawInput;
use phalanx_base::{Code, Error, Result};
use phalanx_data::{Column, ColumnStatistics, Dataset};
use std::collections::BTreeMap;

/// The numbers that columns take from the data: for [`FeatureColumn::standardize`] and
/// [`quantile_column`](crate::quantile_column).
///
/// They are part of a trained model: compute them once, keep them with it, and give the same ones to every later use.
///
/// ```
/// use phalanx_data::{Batch, Column, Dataset};
/// use phalanx_feature::{FeatureStatistics, Transform, numeric_column};
/// let batch = Batch::new([("pay", Column::f32(vec![10.0, 20.0, 30.0]))])?;
/// let pay = numeric_column("pay").standardize();
/// let statistics = FeatureStatistics::of(std::slice::from_ref(&pay), &Dataset::from_tensor_slices(batch.clone()))?;
/// let features = Transform::dense_features(&[pay.adapted(&statistics)?])?.apply(&batch)?;
/// assert_eq!(features.dense[1], 0.0);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FeatureStatistics(BTreeMap<String, FeatureStatistic>);

/// One of the [`FeatureStatistics`].
#[derive(Clone, Debug, PartialEq)]
pub enum FeatureStatistic {
    /// The mean and the standard deviation of an input.
    Moments {
        /// The mean.
        mean: f64,
        /// The standard deviation; 1 for an input that is the same in every row.
        deviation: f64,
    },
    /// The quantiles between buckets of about the same number of rows, without duplicates.
    Quantiles(Vec<f64>),
}

/// By how many of the next smaller numbers a quantile is lowered to make a boundary. A quantile is a value of the data, so
/// rows lie exactly on it, and an exported graph may round the functions before it differently.
const LOWERED_BY: usize = 4;

/// A statistic that a column needs.
struct Need {
    /// Its name: the input, the functions before it, and which statistic.
    name: String,
    /// The number of buckets, for quantiles.
    buckets: Option<usize>,
    numeric: Numeric,
    /// The functions that apply before the statistic.
    before: NumericFunctions,
}

fn needs_of(column: &FeatureColumn) -> Result<Vec<Need>> {
    let mut needs = Vec::new();
    match column.checked()? {
        ColumnKind::Numeric(numeric) | ColumnKind::SequenceNumeric(numeric) => moments(numeric, &mut needs),
        ColumnKind::Categorical(column) | ColumnKind::Indicator(column) => categorical(column, &mut needs),
        ColumnKind::Embedding(embedding) => categorical(&embedding.column, &mut needs),
    }
    Ok(needs)
}

fn named(numeric: &Numeric, functions: &NumericFunctions, which: &str) -> String {
    let functions = functions.describe();
    let between = if functions.is_empty() { "" } else { " | " };
    let default = match &numeric.default {
        Some(default) if numeric.marks_missing() => format!(" | default {default:?}"),
        _ => String::new(),
    };
    format!("{}{default}{between}{functions} | {which}", numeric.name())
}

fn moments(numeric: &Numeric, needs: &mut Vec<Need>) {
    if let Some((before, _)) = numeric.functions.around_standardize() {
        let name = named(numeric, &before, "moments");
        needs.push(Need { name, buckets: None, numeric: numeric.clone(), before });
    }
}

/// Quantiles are of the values before they are standardized, so that one pass finds both.
fn quantiles(numeric: &Numeric, buckets: usize) -> Need {
    let before = numeric.functions.around_standardize().map_or_else(|| numeric.functions.clone(), |around| around.0);
    let name = named(numeric, &before, &format!("{buckets} quantiles"));
    Need { name, buckets: Some(buckets), numeric: numeric.clone(), before }
}

fn categorical(column: &Categorical, needs: &mut Vec<Need>) {
    match column {
        Categorical::Bucketized { source, boundaries } => {
            moments(source, needs);
            if let Boundaries::Quantiles(buckets) = boundaries {
                needs.push(quantiles(source, *buckets));
            }
        }
        Categorical::Crossed { parts, .. } => parts.iter().for_each(|part| match part {
            CrossInput::Column(column) => categorical(column, needs),
            CrossInput::Key(_) => {}
        }),
        Categorical::Weighted { column, .. } | Categorical::Sequence(column) => categorical(column, needs),
        _ => {}
    }
}

impl FeatureStatistics {
    /// Computes what these columns need in one pass over a dataset.
    ///
    /// # Errors
    /// If reading fails, an input is not numeric, or it has no numbers.
    pub fn of(columns: &[FeatureColumn], data: &Dataset) -> Result<Self> {
        let mut needs: Vec<(Need, ColumnStatistics)> = Vec::new();
        for need in columns.iter().map(needs_of).collect::<Result<Vec<_>>>()?.into_iter().flatten() {
            if needs.iter().all(|(known, _)| known.name != need.name) {
                needs.push((need, ColumnStatistics::new()));
            }
        }
        if needs.is_empty() {
            return Ok(Self::default());
        }
        each_batch(data, |batch| {
            for (need, seen) in &mut needs {
                let numeric = &need.numeric;
                let derived = RawInput::of(numeric).derive(&batch)?;
                let column = derived.as_ref().map_or_else(|| batch.column(&numeric.key), Ok)?;
                let (mut values, elements) = (Vec::with_capacity(column.rows()), numeric.elements());
                each_f32(column, |value| {
                    let element = values.len() % elements;
                    values.push(need.before.apply(numeric.filled(element, value)));
                })?;
                seen.add(&Column::f32(values));
            }
            Ok(())
        })?;
        needs.into_iter().map(|(need, seen)| Ok((need.name.clone(), need.statistic(&seen)?))).collect()
    }

    /// Returns the names of the statistics that a column needs; none for a column that does not depend on data.
    ///
    /// # Errors
    /// If the settings of the column are not valid.
    pub fn needed_by(column: &FeatureColumn) -> Result<Vec<String>> {
        Ok(needs_of(column)?.into_iter().map(|need| need.name).collect())
    }

    /// Returns a statistic by its name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&FeatureStatistic> {
        self.0.get(name)
    }

    /// Returns all statistics, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &FeatureStatistic)> {
        self.0.iter().map(|(name, statistic)| (name.as_str(), statistic))
    }
}

impl FromIterator<(String, FeatureStatistic)> for FeatureStatistics {
    fn from_iter<I: IntoIterator<Item = (String, FeatureStatistic)>>(items: I) -> Self {
        Self(items.into_iter().collect())
    }
}

impl Need {
    fn statistic(&self, seen: &ColumnStatistics) -> Result<FeatureStatistic> {
        let none = || {
            let what = format!("the input {:?} has no numbers to compute statistics of", self.numeric.key);
            let why =
                format!("of {} rows, {} are missing and {} infinite", seen.rows(), seen.missing(), seen.infinite());
            Error::new(Code::DataRow, what).because(why).help("check the input, or leave the function out")
        };
        let Some(buckets) = self.buckets else {
            let (mean, deviation) = (seen.mean().ok_or_else(none)?, seen.deviation().ok_or_else(none)?);
            return Ok(FeatureStatistic::Moments { mean, deviation: if deviation == 0.0 { 1.0 } else { deviation } });
        };
        let shares = (1..buckets).map(|bucket| seen.quantile(bucket as f64 / buckets as f64));
        let mut quantiles = shares.collect::<Option<Vec<f64>>>().ok_or_else(none)?;
        quantiles.dedup();
        Ok(FeatureStatistic::Quantiles(quantiles))
    }
}

impl FeatureColumn {
    /// Returns the column with the statistics that it needs; a column that needs none is returned unchanged.
    ///
    /// # Errors
    /// If a statistic is missing, or has other values than the column can use.
    pub fn adapted(&self, statistics: &FeatureStatistics) -> Result<Self> {
        self.checked()?;
        let mut column = self.clone();
        match &mut column.kind {
            ColumnKind::Numeric(numeric) | ColumnKind::SequenceNumeric(numeric) => numeric.adapt(statistics)?,
            ColumnKind::Categorical(column) | ColumnKind::Indicator(column) => column.adapt(statistics)?,
            ColumnKind::Embedding(embedding) => embedding.column.adapt(statistics)?,
        }
        column.checked()?;
        Ok(column)
    }
}

fn missing(name: &str) -> Error {
    Error::new(Code::BadSetting, format!("the statistic {name:?} is not known"))
        .because("it was not computed, or the settings of its column have changed since")
        .help("compute the statistics of these columns again")
}

impl Numeric {
    fn adapt(&mut self, statistics: &FeatureStatistics) -> Result<()> {
        let Some((before, _)) = self.functions.around_standardize() else { return Ok(()) };
        let name = named(self, &before, "moments");
        let Some(FeatureStatistic::Moments { mean, deviation }) = statistics.get(&name) else {
            return Err(missing(&name));
        };
        self.functions.standardize(*mean as f32, *deviation as f32);
        Ok(())
    }
}

impl Categorical {
    fn adapt(&mut self, statistics: &FeatureStatistics) -> Result<()> {
        match self {
            Self::Bucketized { source, boundaries } => {
                let need = match boundaries {
                    Boundaries::Quantiles(buckets) => Some(quantiles(source, *buckets)),
                    Boundaries::Given(_) => None,
                };
                source.adapt(statistics)?;
                let Some(need) = need else { return Ok(()) };
                let Some(FeatureStatistic::Quantiles(found)) = statistics.get(&need.name) else {
                    return Err(missing(&need.name));
                };
                // What applies after the quantiles were taken applies to them too.
                let after = NumericFunctions(source.functions.0[need.before.0.len()..].to_vec());
                let rounds = !need.before.0.is_empty();
                let lowered =
                    |value: f32| if rounds { (0..LOWERED_BY).fold(value, |x, _| x.next_down()) } else { value };
                let mut found: Vec<f32> = found.iter().map(|&value| after.apply(lowered(value as f32))).collect();
                found.sort_by(f32::total_cmp);
                found.dedup();
                *boundaries = Boundaries::Given(found.into());
                Ok(())
            }
            Self::Crossed { parts, .. } => parts.iter_mut().try_for_each(|part| match part {
                CrossInput::Column(column) => column.adapt(statistics),
                CrossInput::Key(_) => Ok(()),
            }),
            Self::Weighted { column, .. } | Self::Sequence(column) => column.adapt(statistics),
            _ => Ok(()),
        }
    }
}
