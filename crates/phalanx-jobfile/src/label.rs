//! Labels of classifiers that the data holds as floats: 0.0 and 1.0.

use crate::data::Format;
use crate::input::Inputs;
use phalanx_base::{Code, Error, Result};
use phalanx_data::{Batch, Column, DType, Dataset, FeatureKind, FeatureSpec, Parallel, ValuesView, parquet, tfrecord};

impl Inputs {
    /// The label as it is read from these files: of a classifier, also floats.
    pub(crate) fn label_of(&self, files: &[String]) -> FeatureSpec {
        let label = &self.label;
        if label.kind != FeatureKind::I64 || !self.holds_floats(files) {
            return label.clone();
        }
        FeatureSpec { kind: FeatureKind::F32, ..label.clone() }
    }

    fn holds_floats(&self, files: &[String]) -> bool {
        let (data, name) = (&self.data, &self.label.name);
        if let Some((_, dtype)) = data.types.iter().find(|(known, _)| known.value == *name) {
            return *dtype == DType::F32;
        }
        // A file that cannot be read is reported when its rows are read.
        let found = match data.format {
            Format::Csv => data.csv(files.to_vec()).columns(),
            Format::Parquet => parquet(files.to_vec()).select([name.clone()]).columns(),
            Format::TfRecord => {
                let kinds = tfrecord(files.to_vec()).feature_kinds().unwrap_or_default();
                return kinds.iter().any(|(known, kind)| known == name && *kind == FeatureKind::F32);
            }
        };
        found.is_ok_and(|columns| columns.iter().any(|(known, dtype)| known == name && *dtype == DType::F32))
    }

    /// The rows with labels that are class numbers.
    pub(crate) fn with_classes(&self, rows: Dataset, read: &FeatureSpec) -> Dataset {
        if read.kind == self.label.kind {
            return rows;
        }
        let label = self.label.clone();
        rows.map_batches(Parallel::default(), move |batch| classes(&batch, &label))
    }
}

/// Replaces float labels of a classifier by the class numbers that they are.
pub(crate) fn classes(batch: &Batch, label: &FeatureSpec) -> Result<Batch> {
    let column = batch.column(&label.name)?;
    let (FeatureKind::I64, ValuesView::F32(values)) = (label.kind, column.values()) else { return Ok(batch.clone()) };
    let class = |&value: &f32| {
        // Larger floats are not exact.
        if value.fract() == 0.0 && value.abs() < 16_777_216.0 {
            return Ok(value as i64);
        }
        let what = format!("the label {value} is not a class number");
        Err(Error::new(Code::DataRow, what)
            .at("the label of the input")
            .help("labels of a classifier are whole numbers, also if they are written as floats; or use a regressor"))
    };
    let classes = Column::i64(values.iter().map(class).collect::<Result<_>>()?);
    let classes = if column.row_shape().is_empty() { classes } else { classes.with_row_shape(column.row_shape())? };
    batch.with_column(&label.name, classes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_floats_become_classes_and_others_are_refused() {
        let label = FeatureSpec::fixed("y", FeatureKind::I64, 1);
        let batch = |values: Vec<f32>| Batch::new([("y", Column::f32(values))]).unwrap();
        assert_eq!(classes(&batch(vec![0.0, 1.0, 7.0]), &label).unwrap().i64("y").unwrap(), [0, 1, 7]);
        for wrong in [0.5, f32::NAN, f32::INFINITY, 3e7] {
            let error = classes(&batch(vec![1.0, wrong]), &label).unwrap_err();
            assert!(error.to_string().contains("not a class number"), "{error}");
        }
    }
}
