//! Tensors as raw numbers, without a copy where the tensor owns its memory alone.

use burn::tensor::{Bytes as BurnBytes, DType, Tensor, TensorData};
use bytes::Bytes;
use phalanx_base::{Code, Error, Result};

/// The numbers of a tensor, little-endian.
///
/// # Errors
/// When they are not 32-bit floats.
pub fn to_bytes<const D: usize>(tensor: Tensor<D>) -> Result<Bytes> {
    let (bytes, _, dtype) = tensor.into_data().into_parts();
    if dtype != DType::F32 {
        return Err(Error::new(Code::ShapeMismatch, format!("a tensor holds {dtype:?}"))
            .because("parameters and gradients are 32-bit floats"));
    }
    Ok(Bytes::from_owner(Owner(bytes)))
}

/// The only number of a tensor, such as a loss.
///
/// # Errors
/// When it has more than one, or none.
pub fn scalar<const D: usize>(tensor: Tensor<D>) -> Result<f32> {
    let data: TensorData = tensor.into_data();
    match data.as_slice::<f32>() {
        Ok(&[number]) => Ok(number),
        _ => Err(Error::new(Code::ShapeMismatch, format!("a loss has shape {:?}", data.shape()))
            .because("a step returns one number")
            .help("reduce it, for example with .mean()")),
    }
}

struct Owner(BurnBytes);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
