//! Writes safetensors files.

use super::{DTYPES, MAX_HEADER, METADATA};
use crate::bundle::Dtype;
use phalanx_base::{Code, Context, Error, Result, Shape};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;

/// Gathers tensors, which it borrows, and writes them as one file: the same bytes as the format's own library writes for
/// the same tensors, if there is one key of metadata at most (that library does not sort them).
///
/// The example is at the [module](super).
#[derive(Clone, Debug, Default)]
pub struct SafeTensorsWriter<'a> {
    metadata: BTreeMap<String, String>,
    tensors: BTreeMap<String, Pending<'a>>,
}

#[derive(Clone, Debug)]
struct Pending<'a> {
    dtype: Dtype,
    /// The type's name in the format.
    text: &'static str,
    shape: Shape,
    bytes: Cow<'a, [u8]>,
}

impl<'a> SafeTensorsWriter<'a> {
    /// A file without tensors.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a note of the file. Some readers want `format` to be `pt`, `tf` or `np`.
    pub fn metadata(&mut self, key: &str, value: &str) -> &mut Self {
        self.metadata.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Adds a tensor of numbers of any type as their little-endian bytes.
    ///
    /// # Errors
    /// When there are not as many bytes as the shape wants, the format lacks the type, or the name is taken.
    pub fn add_bytes(&mut self, name: &str, dtype: Dtype, shape: &Shape, bytes: &'a [u8]) -> Result<()> {
        self.add(name, dtype, shape, Cow::Borrowed(bytes))
    }

    /// Adds a tensor of `float32`.
    ///
    /// # Errors
    /// As [`SafeTensorsWriter::add_bytes`].
    pub fn add_f32s(&mut self, name: &str, shape: &Shape, numbers: &'a [f32]) -> Result<()> {
        let bytes = if cfg!(target_endian = "little") {
            Cow::Borrowed(bytemuck::cast_slice(numbers))
        } else {
            Cow::Owned(numbers.iter().flat_map(|number| number.to_le_bytes()).collect())
        };
        self.add(name, Dtype::F32, shape, bytes)
    }

    fn add(&mut self, name: &str, dtype: Dtype, shape: &Shape, bytes: Cow<'a, [u8]>) -> Result<()> {
        let known = DTYPES.iter().find(|(_, known)| *known == dtype).zip(dtype.width());
        let Some((&(text, _), width)) = known else {
            return Err(Error::new(Code::ShapeMismatch, format!("safetensors files have no type {dtype}"))
                .at(format!("tensor {name:?}")));
        };
        if shape.elements() * width != bytes.len() {
            let what = format!("{} bytes for {name:?}, {dtype} of shape {shape}", bytes.len());
            return Err(Error::new(Code::ShapeMismatch, what));
        }
        let pending = Pending { dtype, text, shape: shape.clone(), bytes };
        if name == METADATA || self.tensors.insert(name.to_owned(), pending).is_some() {
            return Err(Error::new(Code::VariableConflict, format!("the file has {name:?} already")));
        }
        Ok(())
    }

    /// Writes the file; gives the writer back, flushed.
    ///
    /// # Errors
    /// When it cannot be written, or has too many tensors for the format.
    pub fn write<W: Write>(&self, mut out: W) -> Result<W> {
        let unwritten = "cannot write the safetensors file";
        // Widest first, so that all numbers are aligned; then by name.
        let mut tensors: Vec<_> = self.tensors.iter().collect();
        tensors.sort_by_key(|(_, tensor)| std::cmp::Reverse(rank(tensor.dtype)));
        let header = self.header(&tensors)?;
        out.write_all(&(header.len() as u64).to_le_bytes()).context(Code::StorageWrite, unwritten)?;
        out.write_all(header.as_bytes()).context(Code::StorageWrite, unwritten)?;
        for (_, tensor) in tensors {
            out.write_all(&tensor.bytes).context(Code::StorageWrite, unwritten)?;
        }
        out.flush().context(Code::StorageWrite, unwritten)?;
        Ok(out)
    }

    fn header(&self, tensors: &[(&String, &Pending<'_>)]) -> Result<String> {
        let mut text = String::from("{");
        if !self.metadata.is_empty() {
            let notes: Vec<String> =
                self.metadata.iter().map(|(k, v)| format!("{}:{}", quoted(k), quoted(v))).collect();
            let _ = write!(text, "{}:{{{}}},", quoted(METADATA), notes.join(","));
        }
        let mut start = 0;
        for (name, Pending { text: dtype, shape, bytes, .. }) in tensors {
            let dims: Vec<String> = shape.dims().iter().map(usize::to_string).collect();
            let (dims, end) = (dims.join(","), start + bytes.len());
            let name = quoted(name);
            let _ = write!(text, r#"{name}:{{"dtype":"{dtype}","shape":[{dims}],"data_offsets":[{start},{end}]}},"#);
            start = end;
        }
        if text.ends_with(',') {
            text.pop();
        }
        text.push('}');
        // Spaces, so that the numbers begin at a multiple of eight.
        text.extend(std::iter::repeat_n(' ', text.len().next_multiple_of(8) - text.len()));
        if text.len() as u64 > MAX_HEADER {
            return Err(Error::new(Code::BadSetting, format!("{} tensors are too many for one file", tensors.len()))
                .because(format!("the header would have {} bytes, at most {MAX_HEADER} are allowed", text.len()))
                .help("write several files"));
        }
        Ok(text)
    }
}

/// The place of a type in the format's own order, by which its library sorts.
fn rank(dtype: Dtype) -> usize {
    DTYPES.iter().position(|(_, known)| *known == dtype).unwrap_or(0)
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
