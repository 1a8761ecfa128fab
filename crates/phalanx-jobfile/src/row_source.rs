//! The files of a job as rows: what replaces missing values, and what happens to rows that cannot be used.

use crate::data::{Data, Format, Missing};
use phalanx_base::Error;
use phalanx_data::{
    BadRows, Csv, DType, Dataset, FeatureKind, FeatureLayout, FeatureSpec, FeatureValues, FillValue, NonFiniteValues,
    Parquet, Source, csv, parquet, tfrecord,
};
use std::sync::Arc;

/// The rows of a job that were skipped or changed. Clones share the counts.
#[derive(Clone, Debug)]
pub(crate) struct RowCounts {
    bad_rows: BadRows,
    non_finite: NonFiniteValues,
}

impl RowCounts {
    pub(crate) fn new(data: &Data) -> Self {
        let bad_rows = if data.skip == 0 { BadRows::stop() } else { BadRows::skip_at_most(data.skip) };
        Self { bad_rows, non_finite: data.non_finite.policy() }
    }

    /// What was skipped or changed, one line for each kind; `what` names the data.
    pub(crate) fn lines(&self, data: &Data, what: &str) -> Vec<String> {
        let first = |error: Option<Error>| error.map_or_else(String::new, |error| format!("; the first: {error}"));
        let rows = |count: u64| if count == 1 { "1 row".to_owned() } else { format!("{count} rows") };
        let mut lines = Vec::new();
        if self.bad_rows.skipped() > 0 {
            let count = rows(self.bad_rows.skipped());
            lines.push(format!("{what}: {count} skipped as malformed{}", first(self.bad_rows.first())));
        }
        if self.non_finite.rows() > 0 {
            let done =
                if data.non_finite == NonFinite::Zero { "read with 0 in place of" } else { "skipped because of" };
            let count = rows(self.non_finite.rows());
            let first = first(self.non_finite.first());
            lines.push(format!("{what}: {count} {done} NaN or infinite numbers{first}"));
        }
        lines
    }
}

/// `non_finite` of `[data]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NonFinite {
    Error,
    Skip,
    Zero,
}

impl NonFinite {
    fn policy(self) -> NonFiniteValues {
        match self {
            Self::Error => NonFiniteValues::fail(),
            Self::Skip => NonFiniteValues::skip_rows(),
            Self::Zero => NonFiniteValues::zero(),
        }
    }
}

impl From<&Missing> for FillValue {
    fn from(value: &Missing) -> Self {
        match value {
            Missing::Integer(number) => (*number).into(),
            Missing::Number(number) => (*number).into(),
            Missing::Text(text) => text.as_str().into(),
        }
    }
}

/// The columns to read: features, and for training and evaluation the label and perhaps the weight of a row.
#[derive(Clone, Copy)]
pub(crate) struct WantedColumns<'a> {
    pub(crate) features: &'a [FeatureSpec],
    pub(crate) label: Option<&'a FeatureSpec>,
    pub(crate) weight: Option<&'a FeatureSpec>,
}

impl<'a> WantedColumns<'a> {
    pub(crate) fn all(self) -> impl Iterator<Item = &'a FeatureSpec> {
        self.features.iter().chain(self.weight).chain(self.label)
    }
}

impl Data {
    /// The rows of files.
    pub(crate) fn rows(&self, files: Vec<String>, wanted: WantedColumns<'_>, counts: &RowCounts) -> Dataset {
        Dataset::from_source_interleaved(self.source(files, wanted, counts), self.cycle)
    }

    /// The files as a source of rows.
    pub(crate) fn source(&self, files: Vec<String>, wanted: WantedColumns<'_>, counts: &RowCounts) -> Arc<dyn Source> {
        match self.format {
            Format::Csv => Arc::new(self.csv_rows(files, wanted, counts)),
            Format::Parquet => Arc::new(self.parquet_rows(files, wanted, counts)),
            Format::TfRecord => {
                let mut examples = tfrecord(files).parse(wanted.all().cloned());
                for (name, value) in self.defaults.iter().filter(|(name, _)| reads(wanted, &name.value)) {
                    examples = examples.default_value(name.value.clone(), FillValue::from(value));
                }
                let examples = examples.bad_rows(counts.bad_rows.clone()).non_finite(counts.non_finite.clone());
                Arc::new(set!(examples, label: wanted.label.map(|label| label.name.clone())))
            }
        }
    }

    /// CSV files with all settings except the selection of columns.
    pub(crate) fn csv(&self, files: Vec<String>) -> Csv {
        set!(
            csv(files).header(self.header).quotes(self.quotes).trim(self.trim).na_values(self.na.iter()),
            names: self.names.as_ref().map(|names| names.value.clone()),
            delimiter: self.delimiter,
            comment: self.comment,
        )
    }

    /// These columns of CSV files as texts, without defaults: a missing value is empty.
    pub(crate) fn texts(&self, files: Vec<String>, names: impl Iterator<Item = String>) -> Csv {
        let names: Vec<String> = names.collect();
        let texts = |rows: Csv, name: &String| rows.column(name.clone(), DType::Bytes);
        names.iter().fold(self.csv(files).bad_rows(RowCounts::new(self).bad_rows), texts).select(names.clone())
    }

    fn csv_rows(&self, files: Vec<String>, wanted: WantedColumns<'_>, counts: &RowCounts) -> Csv {
        let mut rows = self.csv(files).bad_rows(counts.bad_rows.clone()).non_finite(counts.non_finite.clone());
        for spec in wanted.all() {
            rows = rows.column(spec.name.clone(), self.type_of(spec));
            if let Some(value) = self.fill(spec, wanted) {
                rows = rows.default_value(spec.name.clone(), value);
            } else if self.is_required(spec) {
                rows = rows.required(spec.name.clone());
            }
        }
        let rows = rows.select(wanted.features.iter().chain(wanted.weight).map(|spec| spec.name.clone()));
        set!(rows, label: wanted.label.map(|label| label.name.clone()))
    }

    fn parquet_rows(&self, files: Vec<String>, wanted: WantedColumns<'_>, counts: &RowCounts) -> Parquet {
        let columns = || wanted.features.iter().chain(wanted.weight).map(|spec| spec.name.clone());
        let plain = parquet(files).select(columns());
        let mut rows = plain.clone().bad_rows(counts.bad_rows.clone()).non_finite(counts.non_finite.clone());
        for spec in wanted.all() {
            let is_given = self.defaults.iter().any(|(name, _)| name.value == spec.name);
            // Only a scalar needs a mark for a missing id: a missing list is empty.
            let is_list = || plain.is_list(&spec.name).unwrap_or(false);
            match self.fill(spec, wanted).filter(|_| is_given || spec.default.is_some() || !is_list()) {
                Some(value) => rows = rows.default_value(spec.name.clone(), value),
                None if self.is_required(spec) => rows = rows.required(spec.name.clone()),
                None => {}
            }
        }
        set!(rows, label: wanted.label.map(|label| label.name.clone()))
    }

    /// The value of a missing input: `defaults`, or else the default of its numeric column; a missing id is -1, which
    /// feature columns ignore as they ignore an empty text.
    fn fill(&self, spec: &FeatureSpec, wanted: WantedColumns<'_>) -> Option<FillValue> {
        if let Some((_, value)) = self.defaults.iter().find(|(name, _)| name.value == spec.name) {
            return Some(value.into());
        }
        let is_feature = wanted.features.iter().any(|feature| feature.name == spec.name);
        match &spec.default {
            Some(FeatureValues::F32(values)) => values.first().map(|&value| value.into()),
            Some(FeatureValues::I64(values)) => values.first().map(|&value| value.into()),
            Some(FeatureValues::Bytes(_)) => None,
            None => {
                let is_id = spec.kind == FeatureKind::I64 && !matches!(spec.layout, FeatureLayout::Fixed(_));
                let is_id = is_feature && is_id && self.type_of(spec) == DType::I64;
                (is_id && !self.is_required(spec)).then(|| (-1_i64).into())
            }
        }
    }

    fn is_required(&self, spec: &FeatureSpec) -> bool {
        self.required.iter().any(|name| name.value == spec.name)
    }
}

fn reads(wanted: WantedColumns<'_>, name: &str) -> bool {
    wanted.all().any(|spec| spec.name == name)
}
