//! Tensors as raw numbers, without a copy where the tensor owns its memory alone.

use burn::tensor::{AllocationProperty, Bytes, DType, Device, Shape, Tensor, TensorData};
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

    /// Numbers that lie in somebody's memory, aligned and in this machine's order. A tensor made of them reads them there,
    /// and copies them before it changes them.
    ///
    /// # Errors
    /// When they are not aligned, or the last one is not whole.
    pub fn lent(owner: impl AsRef<[u8]> + Send + 'static) -> Result<Self> {
        let bytes = bytes::Bytes::from_owner(owner);
        match bytemuck::try_cast_slice::<u8, f32>(&bytes) {
            Ok(numbers) => {
                let shape = [numbers.len()];
                let bytes = Bytes::from_shared(bytes, AllocationProperty::Native);
                Ok(Self(TensorData::from_bytes(bytes, shape, DType::F32)))
            }
            Err(error) => {
                Err(Error::new(Code::ShapeMismatch, "bytes are not 32-bit floats").because(format!("{error:?}")))
            }
        }
    }

    /// A tensor of them.
    pub(crate) fn into_tensor<const D: usize>(self, shape: Shape, device: &Device) -> Tensor<D> {
        let (bytes, _, dtype) = self.0.into_parts();
        Tensor::from_data(TensorData::from_bytes(bytes, shape, dtype), device)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// Notes when it is let go.
    struct Memory(Box<[u32; 5]>, Arc<Mutex<bool>>);

    impl AsRef<[u8]> for Memory {
        fn as_ref(&self) -> &[u8] {
            bytemuck::cast_slice(&self.0[..])
        }
    }

    impl Drop for Memory {
        fn drop(&mut self) {
            *self.1.lock().unwrap() = true;
        }
    }

    fn memory() -> (Memory, Arc<Mutex<bool>>) {
        let gone = Arc::default();
        (Memory(Box::new([1.0_f32, 2.0, 3.0, 4.0, 5.0].map(f32::to_bits)), Arc::clone(&gone)), gone)
    }

    #[test]
    fn a_tensor_reads_lent_numbers_where_they_lie_and_keeps_them_no_longer_than_itself() {
        let (memory, gone) = memory();
        let at = memory.as_ref().as_ptr();
        let flat = Flat::lent(memory).unwrap();
        assert_eq!(flat.as_ptr().cast(), at);
        let tensor: Tensor<1> = flat.into_tensor([5].into(), &crate::default_device());
        let doubled = tensor.clone() * 2.0;
        assert!(!*gone.lock().unwrap());
        assert_eq!(Flat::of(tensor).unwrap().as_ptr().cast(), at, "it was copied");
        assert!(*gone.lock().unwrap());
        assert_eq!(*Flat::of(doubled).unwrap(), [2.0, 4.0, 6.0, 8.0, 10.0]);
    }

    #[test]
    fn changing_lent_numbers_leaves_the_lenders_alone() {
        let numbers: Arc<[u8]> = memory().0.as_ref().into();
        let mut flat = Flat::lent(Arc::clone(&numbers)).unwrap();
        flat[0] = 9.0;
        assert_eq!((flat[0], flat[1]), (9.0, 2.0));
        assert_eq!(numbers[..4], 1.0_f32.to_ne_bytes());
    }

    #[test]
    fn half_a_number_is_refused() {
        struct Half(Memory);
        impl AsRef<[u8]> for Half {
            fn as_ref(&self) -> &[u8] {
                &self.0.as_ref()[..6]
            }
        }
        assert_eq!(Flat::lent(Half(memory().0)).unwrap_err().code(), Code::ShapeMismatch);
    }
}
