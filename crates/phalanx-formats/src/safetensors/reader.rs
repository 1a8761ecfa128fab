//! A safetensors file in memory.

use super::{SafeTensorsHeader, TensorEntry, malformed};
use crate::bundle::Dtype;
use phalanx_base::{Code, Error, Result, Shape};

/// A safetensors file in memory, checked; gives the tensors without copying their bytes.
///
/// The example is at the [module](super).
#[derive(Clone, Debug)]
pub struct SafeTensors<'a> {
    header: SafeTensorsHeader,
    file: &'a [u8],
}

/// One tensor of a file in memory.
#[derive(Clone, Copy, Debug)]
pub struct TensorView<'a> {
    /// The type of its elements.
    pub dtype: Dtype,
    /// Its shape.
    pub shape: &'a Shape,
    /// Its elements, little-endian, row-major. They begin anywhere, not where their type would be aligned.
    pub bytes: &'a [u8],
}

impl<'a> SafeTensors<'a> {
    /// Reads a whole file. Any bytes may be given: those that are no such file are an error.
    ///
    /// # Errors
    /// When it is not what the format wants.
    pub fn parse(file: &'a [u8]) -> Result<Self> {
        let header = SafeTensorsHeader::read(&mut &*file, file.len() as u64)?;
        Ok(Self { header, file })
    }

    /// What the file contains.
    #[must_use]
    pub fn header(&self) -> &SafeTensorsHeader {
        &self.header
    }

    /// One tensor.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn get(&self, name: &str) -> Result<TensorView<'_>> {
        self.view(self.header.tensor(name)?)
    }

    fn view<'s>(&'s self, entry: &'s TensorEntry) -> Result<TensorView<'s>> {
        // The header was checked against the file, so this cannot fail; but no wrong sum may become a panic.
        let bytes = self.file.get(entry.range.start as usize..entry.range.end as usize);
        let bytes = bytes.ok_or_else(|| malformed("a tensor is not in it"))?;
        Ok(TensorView { dtype: entry.dtype, shape: &entry.shape, bytes })
    }
}

impl TensorView<'_> {
    /// The elements, if they are `float32`.
    ///
    /// # Errors
    /// When they have another type.
    pub fn f32s(&self) -> Result<Vec<f32>> {
        if self.dtype != Dtype::F32 {
            let what = format!("the tensor is of type {}, not {}", self.dtype, Dtype::F32);
            return Err(Error::new(Code::ShapeMismatch, what).help("convert it where the file was written"));
        }
        Ok(self.bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
    }
}
