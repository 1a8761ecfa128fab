//! A tensor out of a checkpoint.

use super::{Dtype, TensorStrings};
use phalanx_base::{Code, Error, Result, Shape};

/// The elements of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TensorData {
    /// Elements of one width, little-endian, row-major.
    Bytes(Vec<u8>),
    /// Strings.
    Strings(TensorStrings),
}

/// A tensor, or the part of one that was asked for.
///
/// ```
/// use phalanx_base::Shape;
/// use phalanx_formats::bundle::{Dtype, Tensor, TensorData};
/// let data = TensorData::Bytes(vec![1, 0, 0, 0, 2, 0, 0, 0]);
/// let tensor = Tensor { dtype: Dtype::I32, shape: Shape::new([2]).unwrap(), data };
/// assert_eq!(tensor.i32s().unwrap(), [1, 2]);
/// assert!(tensor.f32s().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// The type of its elements.
    pub dtype: Dtype,
    /// Its shape.
    pub shape: Shape,
    /// Its elements.
    pub data: TensorData,
}

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $dtype:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// When they have another type.
        pub fn $name(&self) -> Result<Vec<$type>> {
            let chunks = self.typed(Dtype::$dtype)?.as_chunks().0;
            Ok(chunks.iter().map(|bytes| <$type>::from_le_bytes(*bytes)).collect())
        }
    )*};
}

impl Tensor {
    numbers! {
        /// The elements, if they are `float32`.
        f32s: f32 = F32;
        /// The elements, if they are `float64`.
        f64s: f64 = F64;
        /// The elements, if they are `int32`.
        i32s: i32 = I32;
        /// The elements, if they are `int64`.
        i64s: i64 = I64;
        /// The elements, if they are `uint8`.
        u8s: u8 = U8;
    }

    /// The elements, if they are `bool`.
    ///
    /// # Errors
    /// When they have another type.
    pub fn bools(&self) -> Result<Vec<bool>> {
        Ok(self.typed(Dtype::Bool)?.iter().map(|&byte| byte != 0).collect())
    }

    /// The elements, if they are strings.
    ///
    /// # Errors
    /// When they have another type.
    pub fn strings(&self) -> Result<&TensorStrings> {
        match &self.data {
            TensorData::Strings(strings) => Ok(strings),
            TensorData::Bytes(_) => Err(self.other(Dtype::String)),
        }
    }

    fn typed(&self, dtype: Dtype) -> Result<&[u8]> {
        match &self.data {
            TensorData::Bytes(bytes) if self.dtype == dtype => Ok(bytes),
            _ => Err(self.other(dtype)),
        }
    }

    fn other(&self, wanted: Dtype) -> Error {
        Error::new(Code::ShapeMismatch, format!("the tensor is of type {}, not {wanted}", self.dtype))
    }
}
