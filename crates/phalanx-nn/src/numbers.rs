//! Tensors as raw numbers, without a copy where the tensor owns its memory alone.

use burn::tensor::{Tensor, TensorData};
use bytes::Bytes;
use phalanx_base::{Code, Error, Result};

/// The numbers of a tensor, little-endian.
///
/// # Errors
/// When they are not 32-bit floats.
pub fn to_bytes<const D: usize>(tensor: Tensor<D>) -> Result<Bytes> {
    Flat::of(tensor).map(Bytes::from_owner)
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

/// A tensor's numbers, taken out of it: without a copy where the tensor owned its memory alone.
#[derive(Clone, Debug)]
pub struct Flat(TensorData);

impl Flat {
    /// Takes the numbers out.
    ///
    /// # Errors
    /// When they are not 32-bit floats.
    pub fn of<const D: usize>(tensor: Tensor<D>) -> Result<Self> {
        let data = tensor.into_data();
        match data.as_slice::<f32>() {
            Ok(_) => Ok(Self(data)),
            Err(error) => {
                Err(Error::new(Code::ShapeMismatch, "a tensor does not hold 32-bit floats")
                    .because(format!("{error:?}")))
            }
        }
    }

    /// As many zeros.
    #[must_use]
    pub fn zeros(length: usize) -> Self {
        Self(TensorData::new(vec![0.0_f32; length], [length]))
    }
}

impl std::ops::Deref for Flat {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        // Checked when it was made.
        self.0.as_slice().unwrap_or_default()
    }
}

impl std::ops::DerefMut for Flat {
    fn deref_mut(&mut self) -> &mut [f32] {
        self.0.as_mut_slice().unwrap_or_default()
    }
}

/// Little-endian, as the wire has them.
impl AsRef<[u8]> for Flat {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}
