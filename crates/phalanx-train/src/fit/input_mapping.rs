//! How the columns of a batch map to a model's inputs, labels and weights.

use super::data::WEIGHT;
use crate::Preprocessing;
use crate::batch_tensors::{dynamic, floats, whole};
use phalanx_base::{Code, Error, Result};
use phalanx_data::{Batch, Column, ValuesView};
use phalanx_nn::burn::tensor::Device;
use phalanx_nn::losses::{Labels, LossFunction};
use phalanx_nn::metrics::Values;
use phalanx_nn::model::DynTensor;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The columns that a model takes.
#[derive(Clone, Debug, Default)]
pub(super) struct InputMapping {
    pub(super) inputs: Vec<String>,
    /// The layers that make the model's inputs of these columns.
    pub(super) preprocessing: Option<Arc<Preprocessing>>,
    pub(super) outputs: Vec<String>,
    pub(super) sample_weight: Option<String>,
    pub(super) class_weight: BTreeMap<i64, f32>,
}

/// The labels of one output, as its loss takes them.
pub(super) enum Target {
    Ids(Vec<i64>),
    Rows { numbers: Vec<f32>, width: usize },
}

impl Target {
    pub(super) fn values(&self) -> Values<'_> {
        match self {
            Self::Ids(ids) => Values::ids(ids),
            Self::Rows { numbers, width } => Values::rows(numbers, *width),
        }
    }

    /// Returns the labels as tensors, for predictions of `classes` numbers per row.
    pub(super) fn truth(&self, classes: usize, device: &Device) -> Result<Labels> {
        match self {
            Self::Ids(ids) => Labels::ids(ids, classes, device),
            Self::Rows { numbers, width } => Labels::rows(numbers.clone(), *width, device),
        }
    }
}

impl InputMapping {
    /// Returns the model's inputs: the columns that have the inputs' names, or else the columns in their order. A single
    /// input takes several numeric columns, concatenated.
    pub(super) fn inputs(&self, batch: &Batch, device: &Device) -> Result<Vec<DynTensor>> {
        let columns = self.columns(batch)?;
        let columns = match &self.preprocessing {
            Some(preprocessing) => preprocessing.apply(columns)?,
            None => columns,
        };
        columns.iter().map(|column| dynamic(column, device)).collect()
    }

    /// Returns the columns of the inputs.
    fn columns<'a>(&self, batch: &'a Batch) -> Result<Vec<Cow<'a, Column>>> {
        let by_name: Vec<&Column> = self.inputs.iter().filter_map(|name| find(batch, name)).collect();
        if !by_name.is_empty() && by_name.len() == self.inputs.len() {
            return Ok(by_name.into_iter().map(Cow::Borrowed).collect());
        }
        let features: Vec<&Column> = batch
            .iter()
            .enumerate()
            .filter(|(at, (name, _))| !self.is_special(batch, *at, name))
            .map(|(_, (_, c))| c)
            .collect();
        match (features.as_slice(), self.inputs.len()) {
            ([column], 0 | 1) => Ok(vec![Cow::Borrowed(column)]),
            (columns, count) if columns.len() == count => {
                Ok(columns.iter().map(|column| Cow::Borrowed(*column)).collect())
            }
            (columns, 0 | 1) if !columns.is_empty() => Ok(vec![Cow::Owned(side_by_side(columns, batch.rows())?)]),
            (columns, count) => {
                let what = format!("the model has {count} inputs, the data {} columns beside the label", columns.len());
                Err(Error::new(Code::DataColumn, what)
                    .because(format!("the columns are {:?}, the inputs {:?}", batch.names(), self.inputs))
                    .help("name the inputs as the columns, or select as many columns as there are inputs"))
            }
        }
    }

    /// Returns whether a column is no feature: the label, the weight, or the labels of one of several outputs.
    fn is_special(&self, batch: &Batch, at: usize, name: &str) -> bool {
        batch.schema().label() == Some(at)
            || self.weight_column() == name
            || self.outputs.len() > 1 && self.outputs.iter().any(|output| output == name)
    }

    fn weight_column(&self) -> &str {
        self.sample_weight.as_deref().unwrap_or(WEIGHT)
    }

    /// Returns the labels of output `number`.
    pub(super) fn target(&self, batch: &Batch, number: usize, loss: &dyn LossFunction) -> Result<Target> {
        let column = if self.outputs.len() > 1 {
            batch.column(&self.outputs[number]).map_err(|error| {
                error.because("with several outputs, each takes its labels from the column of its name")
            })?
        } else {
            batch.label().ok_or_else(|| {
                Error::new(Code::DataColumn, "the data has no label")
                    .because(format!("the columns are {:?}", batch.names()))
                    .help("name the label's column with label(…), or give (x, y)")
            })?
        };
        if loss.takes_class_ids() {
            return Ok(Target::Ids(whole(column)?));
        }
        // As with outputs, all axes but the last are examples.
        let width = column.row_shape().last().copied().unwrap_or(1);
        Ok(Target::Rows { numbers: floats(column)?, width: width.max(1) })
    }

    /// Sets the weights of the classes.
    pub(super) fn weigh_classes(&mut self, weights: &BTreeMap<i64, f32>) -> Result<()> {
        if !weights.is_empty() && self.outputs.len() > 1 {
            return Err(Error::new(Code::BadSetting, "class weights were given to a model of several outputs")
                .because(format!("the outputs are {:?}, and class weights need a single label", self.outputs))
                .help("give each example its weight in a column `sample_weight`"));
        }
        self.class_weight.clone_from(weights);
        Ok(())
    }

    /// Returns the weight of each row, or `None` if all weigh 1. Class weights apply to training, not to validation.
    pub(super) fn weights(&self, batch: &Batch, learning: bool) -> Result<Option<Vec<f32>>> {
        let named = match (find(batch, self.weight_column()), &self.sample_weight) {
            (Some(column), _) => Some(one_each(self.weight_column(), column, batch.rows())?),
            (None, Some(name)) => return batch.column(name).map(|_| None),
            (None, None) => None,
        };
        if self.class_weight.is_empty() || !learning {
            return Ok(named);
        }
        let label = batch.label().ok_or_else(|| {
            Error::new(Code::DataColumn, "class weights need a label").help("name its column with label(…)")
        })?;
        let of = |class: &i64| self.class_weight.get(class).copied().unwrap_or(1.0);
        let by_class: Vec<f32> = classes(label)?.iter().map(of).collect();
        Ok(Some(match named {
            Some(named) => named.iter().zip(by_class).map(|(a, b)| a * b).collect(),
            None => by_class,
        }))
    }
}

fn find<'a>(batch: &'a Batch, name: &str) -> Option<&'a Column> {
    batch.schema().find(name).map(|at| &batch.columns()[at])
}

fn side_by_side(columns: &[&Column], rows: usize) -> Result<Column> {
    let width: usize = columns.iter().map(|column| column.width()).sum();
    let mut numbers = vec![0.0; rows * width];
    let mut start = 0;
    for column in columns {
        let (values, own) = (floats(column)?, column.width());
        for (row, value) in values.chunks_exact(own.max(1)).enumerate() {
            numbers[row * width + start..][..own].copy_from_slice(value);
        }
        start += own;
    }
    Column::f32(numbers).with_row_shape([width])
}

/// Returns the weights of a column with one number per row.
fn one_each(name: &str, column: &Column, rows: usize) -> Result<Vec<f32>> {
    let numbers = floats(column)?;
    if numbers.len() == rows {
        return Ok(numbers);
    }
    let what = format!("column {name:?} has {} weights for each example", column.width());
    Err(Error::new(Code::ShapeMismatch, what).help("give every example one weight"))
}

/// Returns the class of each row as Keras does for weights: the number itself, or the argmax of a one-hot label.
fn classes(column: &Column) -> Result<Vec<i64>> {
    let width = column.width().max(1);
    match column.values() {
        ValuesView::F32(numbers) if width == 1 => return Ok(numbers.iter().map(|x| x.round() as i64).collect()),
        _ if width == 1 => return whole(column),
        _ => {}
    }
    let largest = |row: &[f32]| row.iter().enumerate().fold(0, |best, (at, x)| if *x > row[best] { at } else { best });
    Ok(floats(column)?.chunks_exact(width).map(|row| largest(row) as i64).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch() -> Batch {
        let columns = [
            ("a", Column::f32(vec![1.0, 2.0])),
            ("b", Column::i64(vec![3, 4])),
            ("y", Column::i64(vec![0, 1])),
            ("w", Column::f32(vec![0.5, 2.0])),
        ];
        Batch::new(columns).unwrap().with_label("y").unwrap()
    }

    fn mapping(inputs: &[&str]) -> InputMapping {
        let inputs = inputs.iter().map(|name| (*name).to_owned()).collect();
        InputMapping { inputs, outputs: vec!["y".into()], sample_weight: Some("w".into()), ..InputMapping::default() }
    }

    #[test]
    fn columns_go_side_by_side_into_one_input_and_by_name_into_several() {
        let device = phalanx_nn::default_device();
        let one = mapping(&["input_1"]).inputs(&batch(), &device).unwrap().remove(0);
        assert_eq!(one.numbers().unwrap(), [1.0, 3.0, 2.0, 4.0]);
        let two = mapping(&["b", "a"]).inputs(&batch(), &device).unwrap();
        assert_eq!(two[1].clone().numbers().unwrap(), [1.0, 2.0]);
        assert!(mapping(&["p", "q", "r"]).inputs(&batch(), &device).is_err());
    }

    #[test]
    fn weights_multiply() {
        let mut mapping = mapping(&["input_1"]);
        assert_eq!(mapping.weights(&batch(), true).unwrap().unwrap(), [0.5, 2.0]);
        mapping.weigh_classes(&[(1, 3.0)].into()).unwrap();
        assert_eq!(mapping.weights(&batch(), true).unwrap().unwrap(), [0.5, 6.0]);
        assert_eq!(mapping.weights(&batch(), false).unwrap().unwrap(), [0.5, 2.0]);
        mapping.sample_weight = Some("nothing".into());
        assert!(mapping.weights(&batch(), true).is_err());
        mapping.outputs.push("z".into());
        assert!(mapping.weigh_classes(&[(1, 3.0)].into()).is_err());
    }

    #[test]
    fn the_class_of_a_one_hot_label_is_its_largest_number() {
        let label = Column::f32(vec![0.0, 1.0, 0.0, 0.1, 0.2, 0.7]).with_row_shape([3]).unwrap();
        assert_eq!(classes(&label).unwrap(), [1, 2]);
        assert_eq!(classes(&Column::f32(vec![0.999_999, 0.0])).unwrap(), [1, 0]);
    }
}
