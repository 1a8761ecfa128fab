//! The numbers of tensors in host memory.

use burn::tensor::{AllocationProperty, Bytes, DType, Device, Shape, Tensor, TensorData};
use phalanx_base::{Code, Error, Result};

/// Returns the only number of a tensor, such as a loss.
///
/// # Errors
/// If the tensor does not have exactly one number.
pub fn scalar<const D: usize>(tensor: Tensor<D>) -> Result<f32> {
    let data: TensorData = tensor.into_data();
    match data.as_slice::<f32>() {
        Ok(&[number]) => Ok(number),
        _ => Err(Error::new(Code::ShapeMismatch, format!("a loss has shape {:?}", data.shape()))
            .because("a step returns one number")
            .help("reduce it, for example with .mean()")),
    }
}

/// The numbers of a tensor in host memory. They are moved out of the tensor, not copied, unless its memory is shared.
///
/// ```
/// use phalanx_nn::{HostBuffer, burn::tensor::Tensor, default_device};
/// let buffer = HostBuffer::of(Tensor::<2>::ones([2, 2], &default_device()))?;
/// assert_eq!(*buffer, [1.0; 4]);
/// assert_eq!(*HostBuffer::from(vec![1.0, 2.0]), [1.0, 2.0]);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct HostBuffer(TensorData);

impl HostBuffer {
    /// Takes the numbers out of `tensor`.
    ///
    /// # Errors
    /// If they are not 32-bit floats.
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

    /// Wraps numbers in the memory of `owner`, aligned and in native byte order. A tensor built from them reads them in
    /// place, and copies them before it modifies them.
    ///
    /// # Errors
    /// If the memory is not aligned, or its length is not a multiple of four bytes.
    pub fn from_owner(owner: impl AsRef<[u8]> + Send + 'static) -> Result<Self> {
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

    /// Moves the numbers into a tensor.
    pub(crate) fn into_tensor<const D: usize>(self, shape: Shape, device: &Device) -> Tensor<D> {
        let (bytes, _, dtype) = self.0.into_parts();
        Tensor::from_data(TensorData::from_bytes(bytes, shape, dtype), device)
    }

    /// Returns `length` zeros.
    #[must_use]
    pub fn zeros(length: usize) -> Self {
        vec![0.0; length].into()
    }
}

impl std::ops::Deref for HostBuffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        // The constructors have checked the type.
        self.0.as_slice().unwrap_or_default()
    }
}

impl std::ops::DerefMut for HostBuffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        self.0.as_mut_slice().unwrap_or_default()
    }
}

impl From<Vec<f32>> for HostBuffer {
    fn from(numbers: Vec<f32>) -> Self {
        let length = numbers.len();
        Self(TensorData::new(numbers, [length]))
    }
}

impl From<HostBuffer> for Vec<f32> {
    fn from(buffer: HostBuffer) -> Self {
        buffer.0.try_into_vec().unwrap_or_default()
    }
}

/// The bytes in little-endian order, which is the wire format.
impl AsRef<[u8]> for HostBuffer {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// Memory that records when it is dropped.
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
    fn a_tensor_reads_borrowed_numbers_in_place_and_releases_them_with_itself() {
        let (memory, gone) = memory();
        let at = memory.as_ref().as_ptr();
        let buffer = HostBuffer::from_owner(memory).unwrap();
        assert_eq!(buffer.as_ptr().cast(), at);
        let tensor: Tensor<1> = buffer.into_tensor([5].into(), &crate::default_device());
        let doubled = tensor.clone() * 2.0;
        assert!(!*gone.lock().unwrap());
        assert_eq!(HostBuffer::of(tensor).unwrap().as_ptr().cast(), at, "it was copied");
        assert!(*gone.lock().unwrap());
        assert_eq!(*HostBuffer::of(doubled).unwrap(), [2.0, 4.0, 6.0, 8.0, 10.0]);
    }

    #[test]
    fn modifying_borrowed_numbers_leaves_the_owner_alone() {
        let numbers: Arc<[u8]> = memory().0.as_ref().into();
        let mut buffer = HostBuffer::from_owner(Arc::clone(&numbers)).unwrap();
        buffer[0] = 9.0;
        assert_eq!((buffer[0], buffer[1]), (9.0, 2.0));
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
        assert_eq!(HostBuffer::from_owner(Half(memory().0)).unwrap_err().code(), Code::ShapeMismatch);
    }
}
