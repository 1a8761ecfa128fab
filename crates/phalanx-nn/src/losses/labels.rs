//! The labels that outputs of a model are compared with.

use burn::tensor::{Device, Int, Tensor, TensorData};
use phalanx_base::{Code, Error, Result};

/// The labels of a batch: class numbers, or rows with the width of the prediction.
///
/// ```
/// use phalanx_nn::losses::Labels;
/// let device = phalanx_nn::default_device();
/// assert!(Labels::ids(&[0, 2], 3, &device).is_ok());
/// let error = Labels::ids(&[0, 3], 3, &device).unwrap_err();
/// assert_eq!(error.what(), "class 3 in row 1, but the model has 3");
/// ```
#[derive(Clone, Debug)]
pub enum Labels {
    /// One class number per row.
    Ids(Tensor<1, Int>),
    /// Numbers, `[rows, width]`.
    Rows(Tensor<2>),
}

impl Labels {
    /// Returns class numbers for a prediction of `classes` numbers per row.
    ///
    /// # Errors
    /// If one is out of range, because a device would read past the end of a row.
    pub fn ids(ids: &[i64], classes: usize, device: &Device) -> Result<Self> {
        let wrong = |id: &i64| usize::try_from(*id).map_or(true, |id| id >= classes);
        if let Some(row) = ids.iter().position(wrong) {
            return Err(Error::new(
                Code::DataRow,
                format!("class {} in row {row}, but the model has {classes}", ids[row]),
            )
            .help("number the classes from 0, or give the model one output for each class"));
        }
        let ids: Vec<i32> = ids.iter().map(|&id| id as i32).collect();
        let length = ids.len();
        Ok(Self::Ids(Tensor::from_data(TensorData::new(ids, [length]), device)))
    }

    /// Returns rows of `width` numbers.
    ///
    /// # Errors
    /// If the numbers do not fill complete rows.
    pub fn rows(numbers: Vec<f32>, width: usize, device: &Device) -> Result<Self> {
        if width == 0 || !numbers.len().is_multiple_of(width) {
            let what = format!("{} numbers do not fill rows of {width}", numbers.len());
            return Err(Error::new(Code::ShapeMismatch, what).help("give as many labels as the model has outputs"));
        }
        let rows = numbers.len() / width;
        Ok(Self::Rows(Tensor::from_data(TensorData::new(numbers, [rows, width]), device)))
    }
}
