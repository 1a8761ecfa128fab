//! Tensors in host memory, which steps take and return.

use phalanx_base::{Code, Error, Result};
use phalanx_data::{Column, ValuesView};
use phalanx_nn::burn::tensor::{DType, Device, Int, Tensor, TensorData};
use phalanx_nn::metrics::Values;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;

/// A tensor in host memory: a shape, and 32-bit floats or 64-bit integers in row-major order.
///
/// It can be an argument or a result of a step, alone or inside of another serde type. Its numbers travel as raw bytes.
///
/// ```
/// use phalanx_nn::burn::tensor::Tensor;
/// use phalanx_train::HostTensor;
/// let device = phalanx_nn::default_device();
/// let host = HostTensor::from(Tensor::<2>::ones([2, 3], &device));
/// assert_eq!((host.shape(), host.as_f32()?), (&[2, 3][..], &[1.0; 6][..]));
/// let back: Tensor<2> = host.tensor(&device)?;
/// assert_eq!(back.dims(), [2, 3]);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct HostTensor {
    shape: Vec<usize>,
    numbers: Numbers,
}

#[derive(Clone, Debug, PartialEq)]
enum Numbers {
    F32(Vec<f32>),
    I64(Vec<i64>),
}

impl HostTensor {
    /// Creates a tensor of floats.
    ///
    /// # Errors
    /// If the numbers do not fill the shape.
    pub fn floats(shape: impl Into<Vec<usize>>, numbers: Vec<f32>) -> Result<Self> {
        let shape = filled(shape.into(), numbers.len())?;
        Ok(Self { shape, numbers: Numbers::F32(numbers) })
    }

    /// Creates a tensor of integers.
    ///
    /// # Errors
    /// If the numbers do not fill the shape.
    pub fn integers(shape: impl Into<Vec<usize>>, numbers: Vec<i64>) -> Result<Self> {
        let shape = filled(shape.into(), numbers.len())?;
        Ok(Self { shape, numbers: Numbers::I64(numbers) })
    }

    /// Returns the shape; it is empty for a scalar.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the floats.
    ///
    /// # Errors
    /// If the tensor holds integers.
    pub fn as_f32(&self) -> Result<&[f32]> {
        match &self.numbers {
            Numbers::F32(numbers) => Ok(numbers),
            Numbers::I64(_) => Err(self.other_kind("32-bit floats")),
        }
    }

    /// Returns the integers.
    ///
    /// # Errors
    /// If the tensor holds floats.
    pub fn as_i64(&self) -> Result<&[i64]> {
        match &self.numbers {
            Numbers::I64(numbers) => Ok(numbers),
            Numbers::F32(_) => Err(self.other_kind("64-bit integers")),
        }
    }

    /// Moves the floats into a Burn tensor.
    ///
    /// # Errors
    /// If the tensor holds integers, or does not have `D` axes.
    pub fn tensor<const D: usize>(self, device: &Device) -> Result<Tensor<D>> {
        self.check_rank(D)?;
        match self.numbers {
            Numbers::F32(numbers) => Ok(Tensor::from_data(TensorData::new(numbers, self.shape), device)),
            Numbers::I64(_) => Err(self.other_kind("32-bit floats")),
        }
    }

    /// Moves the integers into a Burn tensor: of the device's integer type, or of 64 bits where a number needs them.
    ///
    /// # Errors
    /// If the tensor holds floats, or does not have `D` axes.
    pub fn int_tensor<const D: usize>(self, device: &Device) -> Result<Tensor<D, Int>> {
        self.check_rank(D)?;
        match self.numbers {
            Numbers::I64(numbers) => {
                let narrow = numbers.iter().all(|&number| i32::try_from(number).is_ok());
                let data = TensorData::new(numbers, self.shape);
                Ok(if narrow { Tensor::from_data(data, device) } else { Tensor::from_data(data, (device, DType::I64)) })
            }
            Numbers::F32(_) => Err(self.other_kind("64-bit integers")),
        }
    }

    fn check_rank(&self, wanted: usize) -> Result<()> {
        if self.shape().len() == wanted {
            return Ok(());
        }
        let what = format!("a tensor of shape {:?} does not have {wanted} axes", self.shape);
        Err(Error::new(Code::ShapeMismatch, what).help("ask for the number of axes that it was made with"))
    }

    fn other_kind(&self, wanted: &str) -> Error {
        let held = match self.numbers {
            Numbers::F32(_) => "32-bit floats",
            Numbers::I64(_) => "64-bit integers",
        };
        Error::new(Code::ShapeMismatch, format!("a tensor of shape {:?} holds {held}, not {wanted}", self.shape))
            .help("convert the tensor where it is made")
    }
}

/// Returns the shape if that many numbers fill it.
fn filled(shape: Vec<usize>, numbers: usize) -> Result<Vec<usize>> {
    if shape.iter().try_fold(1_usize, |elements, &size| elements.checked_mul(size)) == Some(numbers) {
        return Ok(shape);
    }
    Err(Error::new(Code::ShapeMismatch, format!("{numbers} numbers do not fill a tensor of shape {shape:?}"))
        .help("give as many numbers as the product of the shape"))
}

impl Default for HostTensor {
    /// Makes a tensor without numbers.
    fn default() -> Self {
        Vec::<f32>::new().into()
    }
}

impl<const D: usize> From<Tensor<D>> for HostTensor {
    /// Moves the numbers out of a tensor; those of another float type are converted.
    fn from(tensor: Tensor<D>) -> Self {
        let shape = tensor.dims().to_vec();
        // Of that type after the conversion, which does nothing where they were before.
        let numbers = tensor.into_data().convert::<f32>().try_into_vec().unwrap_or_default();
        Self { shape, numbers: Numbers::F32(numbers) }
    }
}

impl<const D: usize> From<Tensor<D, Int>> for HostTensor {
    /// Moves the numbers out of a tensor; those of another integer type are converted.
    fn from(tensor: Tensor<D, Int>) -> Self {
        let shape = tensor.dims().to_vec();
        let numbers = tensor.into_data().convert::<i64>().try_into_vec().unwrap_or_default();
        Self { shape, numbers: Numbers::I64(numbers) }
    }
}

impl From<Vec<f32>> for HostTensor {
    /// Makes a tensor with one axis.
    fn from(numbers: Vec<f32>) -> Self {
        Self { shape: vec![numbers.len()], numbers: Numbers::F32(numbers) }
    }
}

impl From<Vec<i64>> for HostTensor {
    /// Makes a tensor with one axis.
    fn from(numbers: Vec<i64>) -> Self {
        Self { shape: vec![numbers.len()], numbers: Numbers::I64(numbers) }
    }
}

impl TryFrom<&Column> for HostTensor {
    type Error = Error;

    /// Copies a dense column: one row of the tensor for each row of the column. Bytes become integers.
    fn try_from(column: &Column) -> Result<Self> {
        let refused = |what: &str| {
            Err(Error::new(Code::DataColumn, format!("a column of {what} is no tensor"))
                .help("convert the column to numbers, a fixed number for each row, with map"))
        };
        if column.is_ragged() {
            return refused("rows of differing length");
        }
        let mut shape = vec![column.rows()];
        shape.extend(column.row_shape());
        match column.values() {
            ValuesView::F32(numbers) => Self::floats(shape, numbers.to_vec()),
            ValuesView::I64(numbers) => Self::integers(shape, numbers.to_vec()),
            ValuesView::U8(numbers) => Self::integers(shape, numbers.iter().map(|&number| number.into()).collect()),
            ValuesView::Bytes(_) => refused("strings"),
        }
    }
}

impl TryFrom<HostTensor> for Column {
    type Error = Error;

    /// Moves a tensor into a column: its first axis counts the rows.
    fn try_from(tensor: HostTensor) -> Result<Self> {
        let Some((_, row)) = tensor.shape().split_first() else {
            return Err(Error::new(Code::ShapeMismatch, "a tensor without axes is no column")
                .because("the first axis counts the rows"));
        };
        let row = row.to_vec();
        match tensor.numbers {
            Numbers::F32(numbers) => Column::f32(numbers),
            Numbers::I64(numbers) => Column::i64(numbers),
        }
        .with_row_shape(row)
    }
}

impl<'a> From<&'a HostTensor> for Values<'a> {
    /// Shows a tensor to a metric: floats as rows along the first axis, integers as class numbers.
    fn from(tensor: &'a HostTensor) -> Self {
        match &tensor.numbers {
            Numbers::F32(numbers) => Self::rows(numbers, tensor.shape.iter().skip(1).product::<usize>().max(1)),
            Numbers::I64(numbers) => Self::ids(numbers),
        }
    }
}

/// A tensor as it is sent: its numbers are little-endian bytes, which are copied as a whole.
#[derive(Serialize, Deserialize)]
struct Encoded<'a> {
    shape: Vec<usize>,
    integers: bool,
    #[serde(borrow, with = "serde_bytes")]
    numbers: Cow<'a, [u8]>,
}

impl Serialize for HostTensor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (integers, numbers): (bool, Cow<'_, [u8]>) = match &self.numbers {
            _ if cfg!(target_endian = "big") => (self.as_i64().is_ok(), Cow::Owned(self.swapped())),
            Numbers::F32(numbers) => (false, Cow::Borrowed(bytemuck::cast_slice(numbers))),
            Numbers::I64(numbers) => (true, Cow::Borrowed(bytemuck::cast_slice(numbers))),
        };
        Encoded { shape: self.shape.clone(), integers, numbers }.serialize(serializer)
    }
}

impl HostTensor {
    /// Returns the numbers as little-endian bytes, one by one.
    fn swapped(&self) -> Vec<u8> {
        match &self.numbers {
            Numbers::F32(numbers) => numbers.iter().flat_map(|number| number.to_le_bytes()).collect(),
            Numbers::I64(numbers) => numbers.iter().flat_map(|number| number.to_le_bytes()).collect(),
        }
    }
}

impl<'de> Deserialize<'de> for HostTensor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Encoded { shape, integers, numbers } = Encoded::deserialize(deserializer)?;
        let size = if integers { 8 } else { 4 };
        if !numbers.len().is_multiple_of(size) {
            return Err(serde::de::Error::custom("a tensor ends in the middle of a number"));
        }
        let tensor = if integers {
            Self::integers(shape, numbers.as_chunks().0.iter().map(|&eight| i64::from_le_bytes(eight)).collect())
        } else {
            Self::floats(shape, numbers.as_chunks().0.iter().map(|&four| f32::from_le_bytes(four)).collect())
        };
        tensor.map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_become_burn_tensors_and_columns_and_come_back() {
        let device = phalanx_nn::default_device();
        let floats = HostTensor::floats([2, 3], (0..6_u8).map(f32::from).collect()).unwrap();
        let burn: Tensor<2> = floats.clone().tensor(&device).unwrap();
        assert_eq!((burn.dims(), HostTensor::from(burn)), ([2, 3], floats.clone()));
        let integers = HostTensor::integers([4], vec![i64::MIN, -1, 0, i64::MAX]).unwrap();
        let burn: Tensor<1, Int> = integers.clone().int_tensor(&device).unwrap();
        assert_eq!(HostTensor::from(burn), integers);
        for tensor in [floats.clone(), integers.clone()] {
            let column = Column::try_from(tensor.clone()).unwrap();
            assert_eq!(column.rows(), tensor.shape()[0]);
            assert_eq!(HostTensor::try_from(&column).unwrap(), tensor);
        }
        let pixels = Column::u8(vec![7; 6]).with_row_shape([3]).unwrap();
        assert_eq!(HostTensor::try_from(&pixels).unwrap(), HostTensor::integers([2, 3], vec![7; 6]).unwrap());
        let values: Values<'_> = (&floats).into();
        assert_eq!((values.examples().unwrap(), values.width()), (2, 3));
        assert!(matches!(Values::from(&integers), Values::Ids(ids) if ids.len() == 4));
    }

    #[test]
    fn what_is_no_such_tensor_is_refused() {
        let device = phalanx_nn::default_device();
        let floats = HostTensor::from(vec![1.0_f32, 2.0]);
        assert_eq!(
            floats.as_i64().unwrap_err().what(),
            "a tensor of shape [2] holds 32-bit floats, not 64-bit integers"
        );
        assert_eq!(floats.clone().tensor::<2>(&device).unwrap_err().code(), Code::ShapeMismatch);
        assert!(floats.int_tensor::<1>(&device).is_err());
        assert!(HostTensor::from(vec![1_i64]).tensor::<1>(&device).is_err());
        assert!(HostTensor::floats([2, 2], vec![0.0; 3]).is_err());
        assert!(HostTensor::floats([usize::MAX, 2], vec![0.0; 3]).is_err());
        assert!(Column::try_from(HostTensor::floats([], vec![1.0]).unwrap()).is_err());
        let words = HostTensor::try_from(&Column::text(["a"])).unwrap_err();
        assert_eq!((words.code(), words.what()), (Code::DataColumn, "a column of strings is no tensor"));
        let ragged = Column::i64(vec![1, 2, 3]).with_splits(vec![0, 1, 3]).unwrap();
        assert!(HostTensor::try_from(&ragged).is_err());
    }
}
