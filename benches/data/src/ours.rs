//! Our side: the lines a user would write.

use crate::BATCH;
use phalanx_base::Result;
use phalanx_data::{Clicks, Dataset, FeatureKind, FeatureSpec, SourceExt, csv, parquet, synthetic_clicks, tfrecord};
use std::path::Path;

/// The columns of the census.
pub(crate) const CENSUS: [&str; 15] = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education_num",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "gender",
    "capital_gain",
    "capital_loss",
    "hours_per_week",
    "native_country",
    "income_bracket",
];

pub(crate) fn csv_rows(file: &Path) -> Result<usize> {
    count(&csv(file).names(CENSUS).header(false).label("income_bracket").batch(BATCH))
}

pub(crate) fn record_rows(file: &Path) -> Result<usize> {
    count(&records(file))
}

pub(crate) fn records(file: &Path) -> Dataset {
    let numbers = Clicks::number_names().into_iter().map(|name| FeatureSpec::fixed(name, FeatureKind::F32, 1));
    let ids = synthetic_clicks(0, 1).categories().into_iter().map(|(name, _)| name).chain(["label".to_owned()]);
    let ids = ids.map(|name| FeatureSpec::fixed(name, FeatureKind::I64, 1));
    tfrecord(file).parse(numbers.chain(ids)).label("label").batch(BATCH)
}

pub(crate) fn parquet_rows(file: &Path) -> Result<usize> {
    count(&parquet(file).label("label").batch(BATCH))
}

pub(crate) fn click_rows() -> Result<usize> {
    count(&synthetic_clicks(1, 500_000).batch(BATCH))
}

pub(crate) fn count(data: &Dataset) -> Result<usize> {
    let mut rows = 0;
    for batch in data.iter()? {
        rows += std::hint::black_box(batch?).rows();
    }
    Ok(rows)
}
