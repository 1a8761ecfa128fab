//! Tensors inside events: made for what we write, and read whichever way they were written.

use super::proto::{Tensor, tensor};
use phalanx_base::{Code, Error, Result};

const F32: i32 = 1;
const F64: i32 = 2;
const I32: i32 = 3;
const STRING: i32 = 7;
const I64: i32 = 9;

/// A tensor may say one value for many. How many bytes an event's tensors may become in this way.
pub(super) struct Spread(usize);

impl Spread {
    /// What an event of this many bytes is allowed: nobody writes tensors so, but a histogram of zeros could be.
    pub(super) fn of_event(bytes: usize) -> Self {
        Self(bytes.saturating_mul(8).saturating_add(64 << 10))
    }

    /// Takes room for `count` values of `size` bytes each.
    fn take(&mut self, count: usize, size: usize) -> Option<()> {
        self.0 = self.0.checked_sub(count.checked_mul(size)?)?;
        Some(())
    }
}

pub(super) fn scalar(value: f32) -> Tensor {
    Tensor { float_val: vec![value], ..new(F32, &[]) }
}

pub(super) fn matrix(rows: &[[f64; 3]]) -> Tensor {
    let content = rows.iter().flatten().flat_map(|value| value.to_le_bytes()).collect();
    Tensor { tensor_content: content, ..new(F64, &[rows.len(), 3]) }
}

/// A single string.
pub(super) fn text(text: &str) -> Tensor {
    Tensor { string_val: vec![text.into()], ..new(STRING, &[]) }
}

fn new(dtype: i32, dims: &[usize]) -> Tensor {
    let dim = dims.iter().map(|&size| tensor::Dim { size: size as i64, name: String::new() }).collect();
    Tensor { dtype, tensor_shape: Some(tensor::Shape { dim, unknown_rank: false }), ..Tensor::default() }
}

/// The tensor's dimensions.
pub(super) fn dims(tensor: &Tensor) -> Vec<i64> {
    tensor.tensor_shape.iter().flat_map(|shape| shape.dim.iter().map(|dim| dim.size)).collect()
}

/// How many values the shape asks for.
fn elements(tensor: &Tensor) -> Result<usize> {
    let size = dims(tensor).into_iter().try_fold(1_usize, |product, size| product.checked_mul(size.try_into().ok()?));
    size.ok_or_else(|| malformed("its shape is not valid"))
}

fn malformed(why: impl std::fmt::Display) -> Error {
    Error::new(Code::DataFormat, "a tensor is malformed").because(why)
}

/// The numbers of a tensor of any numeric type.
pub(super) fn numbers(tensor: &Tensor, room: &mut Spread) -> Result<Vec<f64>> {
    let wanted = elements(tensor)?;
    let content = &tensor.tensor_content;
    let values: Vec<f64> = match (tensor.dtype, content.is_empty()) {
        (F32, true) => tensor.float_val.iter().map(|&value| value.into()).collect(),
        (F32, false) => words(content, f32::from_le_bytes)?.map(Into::into).collect(),
        (F64, true) => tensor.double_val.clone(),
        (F64, false) => words(content, f64::from_le_bytes)?.collect(),
        (I32, true) => tensor.int_val.iter().map(|&value| value.into()).collect(),
        (I32, false) => words(content, i32::from_le_bytes)?.map(Into::into).collect(),
        (I64, true) => tensor.int64_val.iter().map(|&value| value as f64).collect(),
        (I64, false) => words(content, i64::from_le_bytes)?.map(|value| value as f64).collect(),
        (dtype, _) => return Err(malformed(format!("numbers are expected, its type is {dtype}"))),
    };
    spread(values, wanted, |_| size_of::<f64>(), room)
}

fn words<T, const N: usize>(content: &[u8], from: impl Fn([u8; N]) -> T) -> Result<impl Iterator<Item = T>> {
    let (words, rest) = content.as_chunks::<N>();
    if rest.is_empty() {
        Ok(words.iter().map(move |&word| from(word)))
    } else {
        Err(malformed("its bytes do not divide"))
    }
}

/// The strings of a tensor.
pub(super) fn byte_strings(tensor: Tensor, room: &mut Spread) -> Result<Vec<Vec<u8>>> {
    if tensor.dtype != STRING {
        return Err(malformed(format!("strings are expected, its type is {}", tensor.dtype)));
    }
    let wanted = elements(&tensor)?;
    spread(tensor.string_val, wanted, |text| size_of::<Vec<u8>>() + text.len(), room)
}

/// Fewer values than the shape asks for: the last one stands for the rest, and none at all for zeros.
fn spread<T: Clone + Default>(
    mut values: Vec<T>,
    wanted: usize,
    size: impl Fn(&T) -> usize,
    room: &mut Spread,
) -> Result<Vec<T>> {
    if values.len() > wanted {
        return Err(malformed(format!("it has {} values, its shape asks for {wanted}", values.len())));
    }
    if values.len() < wanted {
        let last = values.last().cloned().unwrap_or_default();
        let missing = wanted - values.len();
        let few = || malformed(format!("it has {} values for the {wanted} of its shape", values.len()));
        room.take(missing, size(&last)).ok_or_else(few)?;
        values.reserve_exact(missing);
        values.resize(wanted, last);
    }
    Ok(values)
}
