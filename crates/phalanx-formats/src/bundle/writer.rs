//! Writes one shard of a checkpoint: a data file, and the index of what is in it.

use super::block::MAX_KEY;
use super::{BundleIndex, Dtype, Span, TensorSlice, TensorStrings, checks, malformed};
use crate::checksum::mask;
use phalanx_base::{Code, Error, Result, Shape};
use std::io::Write;

/// So much is summed and then written at a time, so that it is read from memory once.
const CHUNK: usize = 256 << 10;
/// A slice's key is its name, some bytes twice, and a few numbers.
const MAX_NAME: usize = (MAX_KEY - 256) / 2;

/// Writes one data file, tensor after tensor, and keeps account of where each is.
///
/// ```
/// use phalanx_base::Shape;
/// use phalanx_formats::bundle::{BundleReader, BundleWriter};
/// # fn main() -> phalanx_base::Result<()> {
/// let mut writer = BundleWriter::new(Vec::new());
/// writer.add_i64s("global_step", &Shape::new([])?, &[1200])?;
/// writer.add_strings("vocabulary", &Shape::new([2])?, ["on", "off"])?;
/// let (file, index) = writer.finish()?;
/// let reader = BundleReader::open(&index.to_bytes()?, vec![file])?;
/// assert_eq!(reader.read("global_step")?.i64s()?, [1200]);
/// # Ok(())
/// # }
/// ```
pub struct BundleWriter<W> {
    out: W,
    offset: u64,
    index: BundleIndex,
    /// The tensor that was begun and is not finished.
    open: Option<String>,
}

/// Writes one tensor piece by piece, so that nobody needs all of it in memory.
///
/// Begun by [`BundleWriter::begin`]; must be [finished](TensorWriter::finish), or the bundle cannot be.
pub struct TensorWriter<'a, W> {
    bundle: &'a mut BundleWriter<W>,
    name: String,
    dtype: Dtype,
    shape: Shape,
    slice: Option<TensorSlice>,
    start: u64,
    size: u64,
    crc: u32,
}

impl<W: Write> BundleWriter<W> {
    /// A data file without tensors.
    pub fn new(out: W) -> Self {
        Self { out, offset: 0, index: BundleIndex::empty(), open: None }
    }

    /// Begins a tensor.
    ///
    /// # Errors
    /// When the name is empty or too long, elements of this type have no width, or another tensor is unfinished.
    pub fn begin(&mut self, name: &str, dtype: Dtype, shape: &Shape) -> Result<TensorWriter<'_, W>> {
        self.start(name, dtype, shape.clone(), None)
    }

    /// Begins a slice of the tensor `name`, whose whole shape is `full`; the other slices may be in other shards. A
    /// slice that is all of the tensor is written as a tensor.
    ///
    /// # Errors
    /// As [`BundleWriter::begin`], and when the slice is empty or not inside of the tensor.
    pub fn begin_slice(
        &mut self,
        name: &str,
        dtype: Dtype,
        full: &Shape,
        slice: &TensorSlice,
    ) -> Result<TensorWriter<'_, W>> {
        let part = self.part(name, full, slice)?;
        self.start(name, dtype, full.clone(), part)
    }

    /// Adds a tensor of numbers of any type as their little-endian bytes.
    ///
    /// # Errors
    /// As [`BundleWriter::begin`], and when there are not as many bytes as the shape wants.
    pub fn add_bytes(&mut self, name: &str, dtype: Dtype, shape: &Shape, bytes: &[u8]) -> Result<()> {
        let mut tensor = self.begin(name, dtype, shape)?;
        tensor.write(bytes)?;
        tensor.finish()
    }

    /// Adds a tensor of `float32`.
    ///
    /// # Errors
    /// As [`BundleWriter::add_bytes`].
    pub fn add_f32s(&mut self, name: &str, shape: &Shape, numbers: &[f32]) -> Result<()> {
        let mut tensor = self.begin(name, Dtype::F32, shape)?;
        tensor.write_f32s(numbers)?;
        tensor.finish()
    }

    /// Adds a tensor of `int64`.
    ///
    /// # Errors
    /// As [`BundleWriter::add_bytes`].
    pub fn add_i64s(&mut self, name: &str, shape: &Shape, numbers: &[i64]) -> Result<()> {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.add_bytes(name, Dtype::I64, shape, &bytes)
    }

    /// Adds a tensor of strings.
    ///
    /// # Errors
    /// As [`BundleWriter::begin`], and when there are not as many strings as the shape wants.
    pub fn add_strings<S: AsRef<[u8]>>(
        &mut self,
        name: &str,
        shape: &Shape,
        strings: impl IntoIterator<Item = S>,
    ) -> Result<()> {
        self.put_strings(name, shape, None, shape.elements(), &TensorStrings::new(strings))
    }

    /// Adds a slice of the tensor of strings `name`, whose whole shape is `full`. TensorFlow restores such slices only
    /// as they are stored: it does not put strings together.
    ///
    /// # Errors
    /// As [`BundleWriter::begin_slice`], and when there are not as many strings as the slice has elements.
    pub fn add_string_slice<S: AsRef<[u8]>>(
        &mut self,
        name: &str,
        full: &Shape,
        slice: &TensorSlice,
        strings: impl IntoIterator<Item = S>,
    ) -> Result<()> {
        let elements = slice.region(full)?.elements();
        let part = self.part(name, full, slice)?;
        self.put_strings(name, full, part, elements, &TensorStrings::new(strings))
    }

    fn put_strings(
        &mut self,
        name: &str,
        shape: &Shape,
        slice: Option<TensorSlice>,
        elements: usize,
        strings: &TensorStrings,
    ) -> Result<()> {
        if strings.len() != elements {
            let what = format!("{} strings for {elements} elements of {name:?} of shape {shape}", strings.len());
            return Err(Error::new(Code::ShapeMismatch, what));
        }
        self.ready(name)?;
        let start = self.offset;
        self.put(strings.encoded())?;
        let span = Span { shard: 0, offset: start, size: self.offset - start, crc: mask(strings.crc()) };
        self.index.insert(name.to_owned(), Dtype::String, shape.clone(), slice, span)
    }

    /// The slice, or `None` where it is all of the tensor.
    fn part(&self, name: &str, full: &Shape, slice: &TensorSlice) -> Result<Option<TensorSlice>> {
        let region = slice.region(full)?;
        if region.dims() == full.dims() {
            return Ok(None);
        }
        if region.elements() == 0 {
            return Err(Error::new(Code::ShapeMismatch, format!("slice {slice} of {name:?} is empty"))
                .help("a server without rows of a variable writes nothing for it"));
        }
        Ok(Some(slice.clone()))
    }

    /// Ends the file; gives it back flushed, with the index of this shard.
    ///
    /// # Errors
    /// When a tensor is unfinished, slices overlap, or the file cannot be flushed.
    pub fn finish(mut self) -> Result<(W, BundleIndex)> {
        self.unfinished()?;
        checks::check(&self.index)?;
        self.out.flush().map_err(unwritable)?;
        Ok((self.out, self.index))
    }

    fn start(
        &mut self,
        name: &str,
        dtype: Dtype,
        shape: Shape,
        slice: Option<TensorSlice>,
    ) -> Result<TensorWriter<'_, W>> {
        if dtype.width().is_none() {
            return Err(Error::new(Code::ShapeMismatch, format!("{name:?} of type {dtype} is not written as bytes")));
        }
        self.ready(name)?;
        self.open = Some(name.to_owned());
        let start = self.offset;
        Ok(TensorWriter { bundle: self, name: name.to_owned(), dtype, shape, slice, start, size: 0, crc: 0 })
    }

    /// Whether a tensor of this name can be begun.
    fn ready(&self, name: &str) -> Result<()> {
        self.unfinished()?;
        // A key that begins with a zero byte is a slice's.
        if name.is_empty() || name.len() > MAX_NAME || name.starts_with('\0') {
            return Err(Error::new(Code::DataFormat, format!("{:?} is not a name for a tensor", shortened(name))));
        }
        Ok(())
    }

    fn unfinished(&self) -> Result<()> {
        match &self.open {
            Some(name) => Err(Error::new(Code::DataFormat, format!("tensor {name:?} was not written to its end"))),
            None => Ok(()),
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(unwritable)?;
        let end = self.offset.checked_add(bytes.len() as u64).filter(|&end| i64::try_from(end).is_ok());
        self.offset = end.ok_or_else(|| malformed("a data file is too large"))?;
        Ok(())
    }
}

/// What the target says of itself, where it says it in our words: which file, why, and what to do.
fn unwritable(error: std::io::Error) -> Error {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(ours) => ours.clone(),
        None => Error::new(Code::StorageWrite, "cannot write the checkpoint's data").because(error),
    }
}

impl<W: Write> TensorWriter<'_, W> {
    /// Writes the next bytes.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        for chunk in bytes.chunks(CHUNK) {
            self.crc = crc32c::crc32c_append(self.crc, chunk);
            self.bundle.put(chunk)?;
            self.size += chunk.len() as u64;
        }
        Ok(())
    }

    /// Writes the next numbers.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write_f32s(&mut self, numbers: &[f32]) -> Result<()> {
        if cfg!(target_endian = "little") {
            return self.write(bytemuck::cast_slice(numbers));
        }
        let mut bytes = Vec::with_capacity(CHUNK.min(4 * numbers.len()));
        for block in numbers.chunks(CHUNK / 4) {
            bytes.clear();
            phalanx_base::write_f32s(block, &mut bytes);
            self.write(&bytes)?;
        }
        Ok(())
    }

    /// Ends the tensor.
    ///
    /// # Errors
    /// When it has not as many bytes as it should, or the bundle has it already.
    pub fn finish(self) -> Result<()> {
        let Self { bundle, name, dtype, shape, slice, start, size, crc } = self;
        let elements = match &slice {
            Some(slice) => slice.region(&shape)?.elements(),
            None => shape.elements(),
        };
        if dtype.width().map(|width| width as u64 * elements as u64) != Some(size) {
            let what = format!("{size} bytes for {name:?}, {elements} elements of type {dtype}");
            return Err(Error::new(Code::ShapeMismatch, what));
        }
        bundle.index.insert(name, dtype, shape, slice, Span { shard: 0, offset: start, size, crc: mask(crc) })?;
        bundle.open = None;
        Ok(())
    }
}

/// Enough of a name to recognise it by.
fn shortened(name: &str) -> String {
    name.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Error as IoError, ErrorKind};

    /// A target that takes nothing.
    struct Full(Option<Error>);

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(self.0.take().map_or_else(
                || IoError::from(ErrorKind::StorageFull),
                |ours| IoError::new(ErrorKind::StorageFull, ours),
            ))
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_is_an_error_of_writing_with_the_targets_own_words() {
        let ours = Error::new(Code::StorageWrite, "cannot write the file").at("run/part").help("make room");
        for (said, place) in [(Some(ours), Some("run/part")), (None, None)] {
            let mut bundle = BundleWriter::new(Full(said));
            let error = bundle.add_i64s("global_step", &Shape::new([]).unwrap(), &[1]).unwrap_err();
            assert_eq!((error.code(), error.place()), (Code::StorageWrite, place), "{error}");
        }
    }
}
