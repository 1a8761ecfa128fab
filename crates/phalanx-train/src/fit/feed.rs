//! From columns to what a model takes: inputs, truths, weights.

use super::data::WEIGHT;
use phalanx_base::{Code, Error, Result};
use phalanx_data::{Batch, Column, DType, ValuesView};
use phalanx_nn::burn::tensor::Device;
use phalanx_nn::losses::Truth;
use phalanx_nn::metrics::{Loss, Values};
use phalanx_nn::model::Value;
use std::collections::BTreeMap;

/// Which columns a model takes.
#[derive(Clone, Debug, Default)]
pub(super) struct Feed {
    pub(super) inputs: Vec<String>,
    pub(super) outputs: Vec<String>,
    pub(super) sample_weight: Option<String>,
    pub(super) class_weight: BTreeMap<i64, f32>,
}

/// The truths of one output, as its loss takes them.
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

    /// For a prediction of so many numbers a row.
    pub(super) fn truth(&self, classes: usize, device: &Device) -> Result<Truth> {
        match self {
            Self::Ids(ids) => Truth::ids(ids, classes, device),
            Self::Rows { numbers, width } => Truth::rows(numbers.clone(), *width, device),
        }
    }
}

impl Feed {
    /// The model's inputs: columns by the inputs' names, else in their order; a single input takes several columns of
    /// numbers side by side.
    pub(super) fn inputs(&self, batch: &Batch, device: &Device) -> Result<Vec<Value>> {
        let by_name: Vec<&Column> = self.inputs.iter().filter_map(|name| find(batch, name)).collect();
        if !by_name.is_empty() && by_name.len() == self.inputs.len() {
            return by_name.into_iter().map(|column| value(column, device)).collect();
        }
        let features: Vec<&Column> = batch
            .iter()
            .enumerate()
            .filter(|(at, (name, _))| !self.is_special(batch, *at, name))
            .map(|(_, (_, c))| c)
            .collect();
        match (features.as_slice(), self.inputs.len()) {
            ([column], 0 | 1) => Ok(vec![value(column, device)?]),
            (columns, count) if columns.len() == count => columns.iter().map(|column| value(column, device)).collect(),
            (columns, 0 | 1) if !columns.is_empty() => Ok(vec![side_by_side(columns, batch.rows(), device)?]),
            (columns, count) => {
                let what = format!("the model has {count} inputs, the data {} columns beside the label", columns.len());
                Err(Error::new(Code::DataColumn, what)
                    .because(format!("the columns are {:?}, the inputs {:?}", batch.names(), self.inputs))
                    .help("name the inputs as the columns, or select as many columns as there are inputs"))
            }
        }
    }

    /// A column that is no feature: label, weight, or the truth of one of several outputs.
    fn is_special(&self, batch: &Batch, at: usize, name: &str) -> bool {
        batch.schema().label() == Some(at)
            || self.weight_column() == name
            || self.outputs.len() > 1 && self.outputs.iter().any(|output| output == name)
    }

    fn weight_column(&self) -> &str {
        self.sample_weight.as_deref().unwrap_or(WEIGHT)
    }

    /// The truths of output `number`.
    pub(super) fn target(&self, batch: &Batch, number: usize, loss: &Loss) -> Result<Target> {
        let column = if self.outputs.len() > 1 {
            batch
                .column(&self.outputs[number])
                .map_err(|error| error.because("each of several outputs has its truths in the column of its name"))?
        } else {
            batch.label().ok_or_else(|| {
                Error::new(Code::DataColumn, "the data has no label")
                    .because(format!("the columns are {:?}", batch.names()))
                    .help("say which column it is with label(…), or give (x, y)")
            })?
        };
        if loss.takes_class_ids() {
            return Ok(Target::Ids(whole(column)?));
        }
        // As with outputs, all axes but the last are examples.
        let width = column.row_shape().last().copied().unwrap_or(1);
        Ok(Target::Rows { numbers: floats(column)?, width: width.max(1) })
    }

    /// Says how much the classes count.
    pub(super) fn weigh_classes(&mut self, weights: &BTreeMap<i64, f32>) -> Result<()> {
        if !weights.is_empty() && self.outputs.len() > 1 {
            return Err(Error::new(Code::BadSetting, "class weights were given to a model of several outputs")
                .because(format!("the outputs are {:?}, and a class is one of a label", self.outputs))
                .help("give each example its weight in a column `sample_weight`"));
        }
        self.class_weight.clone_from(weights);
        Ok(())
    }

    /// How much each row counts; `None` if all count 1. Classes count when it is learned from, not in a validation.
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
            Error::new(Code::DataColumn, "class weights need a label").help("say which column it is with label(…)")
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

fn dims(column: &Column) -> Vec<usize> {
    std::iter::once(column.rows()).chain(column.row_shape().iter().copied()).collect()
}

fn value(column: &Column, device: &Device) -> Result<Value> {
    match column.dtype() {
        DType::I64 => Value::whole_numbers(column.as_i64()?.to_vec(), &dims(column), device),
        _ => Value::floats(floats(column)?, &dims(column), device),
    }
}

fn side_by_side(columns: &[&Column], rows: usize, device: &Device) -> Result<Value> {
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
    Value::floats(numbers, &[rows, width], device)
}

fn floats(column: &Column) -> Result<Vec<f32>> {
    dense(column)?;
    Ok(match column.values() {
        ValuesView::F32(values) => values.to_vec(),
        ValuesView::I64(values) => values.iter().map(|&value| value as f32).collect(),
        ValuesView::U8(values) => values.iter().map(|&value| f32::from(value)).collect(),
        ValuesView::Bytes(_) => return Err(text()),
    })
}

fn whole(column: &Column) -> Result<Vec<i64>> {
    dense(column)?;
    Ok(match column.values() {
        ValuesView::I64(values) => values.to_vec(),
        ValuesView::U8(values) => values.iter().map(|&value| i64::from(value)).collect(),
        ValuesView::F32(values) => Values::rows(values, 1).class_ids()?.into_owned(),
        ValuesView::Bytes(_) => return Err(text()),
    })
}

/// One number for each row.
fn one_each(name: &str, column: &Column, rows: usize) -> Result<Vec<f32>> {
    let numbers = floats(column)?;
    if numbers.len() == rows {
        return Ok(numbers);
    }
    let what = format!("column {name:?} has {} weights for each example", column.width());
    Err(Error::new(Code::ShapeMismatch, what).help("give every example one weight"))
}

/// The class of each row, as Keras takes it for weights: the number, or the largest of several as in a one-hot label.
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

fn dense(column: &Column) -> Result<()> {
    if !column.is_ragged() {
        return Ok(());
    }
    Err(Error::new(Code::DataColumn, "a column of lists cannot be fed to a model")
        .because("rows have different lengths")
        .help("use padded_batch, or turn the lists into numbers with map"))
}

fn text() -> Error {
    Error::new(Code::DataColumn, "a column of text cannot be fed to a model")
        .help("turn it into numbers with map, for example with a StringLookup")
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

    fn feed(inputs: &[&str]) -> Feed {
        let inputs = inputs.iter().map(|name| (*name).to_owned()).collect();
        Feed { inputs, outputs: vec!["y".into()], sample_weight: Some("w".into()), class_weight: BTreeMap::new() }
    }

    #[test]
    fn columns_go_side_by_side_into_one_input_and_by_name_into_several() {
        let device = phalanx_nn::default_device();
        let one = feed(&["input_1"]).inputs(&batch(), &device).unwrap().remove(0);
        assert_eq!(one.numbers().unwrap(), [1.0, 3.0, 2.0, 4.0]);
        let two = feed(&["b", "a"]).inputs(&batch(), &device).unwrap();
        assert_eq!(two[1].clone().numbers().unwrap(), [1.0, 2.0]);
        assert!(feed(&["p", "q", "r"]).inputs(&batch(), &device).is_err());
    }

    #[test]
    fn weights_multiply() {
        let mut feed = feed(&["input_1"]);
        assert_eq!(feed.weights(&batch(), true).unwrap().unwrap(), [0.5, 2.0]);
        feed.weigh_classes(&[(1, 3.0)].into()).unwrap();
        assert_eq!(feed.weights(&batch(), true).unwrap().unwrap(), [0.5, 6.0]);
        assert_eq!(feed.weights(&batch(), false).unwrap().unwrap(), [0.5, 2.0]);
        feed.sample_weight = Some("nothing".into());
        assert!(feed.weights(&batch(), true).is_err());
        feed.outputs.push("z".into());
        assert!(feed.weigh_classes(&[(1, 3.0)].into()).is_err());
    }

    #[test]
    fn the_class_of_a_one_hot_label_is_its_largest_number() {
        let label = Column::f32(vec![0.0, 1.0, 0.0, 0.1, 0.2, 0.7]).with_row_shape([3]).unwrap();
        assert_eq!(classes(&label).unwrap(), [1, 2]);
        assert_eq!(classes(&Column::f32(vec![0.999_999, 0.0])).unwrap(), [1, 0]);
    }
}
