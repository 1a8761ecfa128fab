//! Tensors as raw numbers, without a copy where the tensor owns its memory alone.

use burn::tensor::{Tensor, TensorData};
use phalanx_base::{Code, Error, Result};

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
///
/// ```
/// use phalanx_nn::{Flat, burn::tensor::Tensor, default_device};
/// let flat = Flat::of(Tensor::<2>::ones([2, 2], &default_device()))?;
/// assert_eq!(*flat, [1.0; 4]);
/// assert_eq!(*Flat::from(vec![1.0, 2.0]), [1.0, 2.0]);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
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
        vec![0.0; length].into()
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

impl From<Vec<f32>> for Flat {
    fn from(numbers: Vec<f32>) -> Self {
        let length = numbers.len();
        Self(TensorData::new(numbers, [length]))
    }
}

impl From<Flat> for Vec<f32> {
    fn from(flat: Flat) -> Self {
        // Checked when it was made.
        flat.0.try_into_vec().unwrap_or_default()
    }
}

/// Little-endian, as the wire has them.
impl AsRef<[u8]> for Flat {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}
