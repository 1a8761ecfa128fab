//! Columns of a batch as tensors, for custom steps.

use phalanx_base::{Code, Error, Result};
use phalanx_data::{Batch, Column, DType, ValuesView};
use phalanx_nn::burn::tensor::{Device, Tensor, TensorData};
use phalanx_nn::losses::Labels;
use phalanx_nn::metrics::Values;
use phalanx_nn::model::DynTensor;

/// Adds tensors to [`Batch`].
///
/// ```
/// use phalanx_data::{Batch, Column};
/// use phalanx_nn::losses::Loss;
/// use phalanx_train::BatchTensors;
/// let device = phalanx_nn::default_device();
/// let x = Column::f32(vec![0.0, 1.0, 2.0, 3.0]).with_row_shape([2])?;
/// let batch = Batch::new([("x", x), ("y", Column::i64(vec![1, 0]))])?;
/// let logits = batch.tensor::<2>("x", &device)?;
/// assert_eq!(logits.dims(), [2, 2]);
/// let loss = Loss::sparse_categorical_crossentropy().from_logits();
/// assert_eq!(loss.forward(batch.labels("y", &logits)?, logits)?.dims(), [2]);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
pub trait BatchTensors {
    /// Returns a column as 32-bit floats, the rows first. A column of single numbers is a tensor of one axis, or of two with
    /// one column.
    ///
    /// # Errors
    /// Fails if there is no such column, it is text or ragged, or it has another number of axes.
    fn tensor<const D: usize>(&self, column: &str, device: &Device) -> Result<Tensor<D>>;

    /// Returns a column as the labels of a prediction: class numbers if the column has whole numbers and the prediction
    /// several for each row, else numbers.
    ///
    /// # Errors
    /// As [`Self::tensor`], and if a class number is out of range.
    fn labels(&self, column: &str, prediction: &Tensor<2>) -> Result<Labels>;
}

impl BatchTensors for Batch {
    fn tensor<const D: usize>(&self, column: &str, device: &Device) -> Result<Tensor<D>> {
        let found = self.column(column)?;
        let mut dims: Vec<usize> = std::iter::once(found.rows()).chain(found.row_shape().iter().copied()).collect();
        if dims.len() == 1 && D == 2 {
            dims.push(1);
        }
        if dims.len() != D {
            return Err(Error::new(Code::ShapeMismatch, format!("column {column:?} has {} axes, not {D}", dims.len()))
                .because(format!("its shape is {dims:?}, the rows first"))
                .help(format!("write tensor::<{}>(…)", dims.len())));
        }
        let numbers = floats(found).map_err(|error| error.at(format!("column {column:?}")))?;
        Ok(Tensor::from_data(TensorData::new(numbers, dims), device))
    }

    fn labels(&self, column: &str, prediction: &Tensor<2>) -> Result<Labels> {
        let (found, device) = (self.column(column)?, prediction.device());
        let at = |error: Error| error.at(format!("column {column:?}"));
        let [_, width] = prediction.dims();
        if width > 1 && found.row_shape().is_empty() && matches!(found.dtype(), DType::I64 | DType::U8) {
            return Labels::ids(&whole(found).map_err(at)?, width, &device);
        }
        Labels::rows(floats(found).map_err(at)?, found.row_shape().last().copied().unwrap_or(1).max(1), &device)
    }
}

/// Returns a column as a tensor of its own type: integers, or else 32-bit floats.
pub(crate) fn dynamic(column: &Column, device: &Device) -> Result<DynTensor> {
    let dims: Vec<usize> = std::iter::once(column.rows()).chain(column.row_shape().iter().copied()).collect();
    match column.dtype() {
        DType::I64 => DynTensor::integers(column.as_i64()?.to_vec(), &dims, device),
        _ => DynTensor::floats(floats(column)?, &dims, device),
    }
}

/// Returns the numbers of a column as 32-bit floats.
pub(crate) fn floats(column: &Column) -> Result<Vec<f32>> {
    check_dense(column)?;
    Ok(match column.values() {
        ValuesView::F32(values) => values.to_vec(),
        ValuesView::I64(values) => values.iter().map(|&value| value as f32).collect(),
        ValuesView::U8(values) => values.iter().map(|&value| f32::from(value)).collect(),
        ValuesView::Bytes(_) => return Err(text()),
    })
}

/// Returns the numbers of a column as whole ones.
pub(crate) fn whole(column: &Column) -> Result<Vec<i64>> {
    check_dense(column)?;
    Ok(match column.values() {
        ValuesView::I64(values) => values.to_vec(),
        ValuesView::U8(values) => values.iter().map(|&value| i64::from(value)).collect(),
        ValuesView::F32(values) => Values::rows(values, 1).class_ids()?.into_owned(),
        ValuesView::Bytes(_) => return Err(text()),
    })
}

fn check_dense(column: &Column) -> Result<()> {
    if !column.is_ragged() {
        return Ok(());
    }
    Err(Error::new(Code::DataColumn, "a column of lists cannot be fed to a model")
        .because("rows have different lengths")
        .help("use padded_batch, or turn the lists into numbers with map"))
}

fn text() -> Error {
    Error::new(Code::DataColumn, "a column of text cannot be fed to a model")
        .help("turn it into numbers: let a StringLookup be the first layer of the model, or apply one with map")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_that_is_no_such_tensor_is_refused() {
        let device = phalanx_nn::default_device();
        let columns = [("one", Column::f32(vec![1.0, 2.0])), ("text", Column::text(["a", "b"]))];
        let batch = Batch::new(columns).unwrap();
        assert_eq!(batch.tensor::<1>("one", &device).unwrap().dims(), [2]);
        assert_eq!(batch.tensor::<2>("one", &device).unwrap().dims(), [2, 1]);
        let error = batch.tensor::<3>("one", &device).unwrap_err();
        assert_eq!((error.code(), error.next()), (Code::ShapeMismatch, Some("write tensor::<1>(…)")));
        let error = batch.tensor::<1>("text", &device).unwrap_err();
        assert_eq!((error.code(), error.place()), (Code::DataColumn, Some("column \"text\"")));
        assert!(batch.tensor::<1>("nothing", &device).is_err());
    }

    #[test]
    fn labels_are_classes_or_numbers_as_the_prediction_needs() {
        let device = phalanx_nn::default_device();
        let batch = Batch::new([("y", Column::i64(vec![1, 0]))]).unwrap();
        let of = |width: usize| batch.labels("y", &Tensor::zeros([2, width], &device));
        assert!(matches!(of(2).unwrap(), Labels::Ids(_)) && matches!(of(1).unwrap(), Labels::Rows(_)));
        let wrong = Batch::new([("y", Column::i64(vec![1, 2]))]).unwrap();
        assert!(wrong.labels("y", &Tensor::zeros([2, 2], &device)).is_err());
    }
}
