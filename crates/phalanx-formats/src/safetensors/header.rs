//! The header of a safetensors file, checked.

use super::json::{self, RawTensor};
use super::{DTYPES, MAX_HEADER, malformed};
use crate::bundle::Dtype;
use phalanx_base::{Code, Context, Error, Result, Shape, nearest};
use std::collections::BTreeMap;
use std::io::Read;
use std::ops::Range;

/// The length in front of the header.
const PREFIX: u64 = 8;

/// One tensor of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorEntry {
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub dtype: Dtype,
    /// Its shape.
    pub shape: Shape,
    /// Where its bytes are in the file, counted from the file's first byte.
    pub range: Range<u64>,
}

/// What a safetensors file contains. To read a large file in parts, read this first and then the ranges wanted.
///
/// ```
/// use phalanx_formats::safetensors::{SafeTensorsHeader, SafeTensorsWriter};
/// let file = SafeTensorsWriter::new().write(Vec::new())?;
/// let header = SafeTensorsHeader::read(&mut file.as_slice(), file.len() as u64)?;
/// assert!(header.tensors().is_empty());
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SafeTensorsHeader {
    metadata: BTreeMap<String, String>,
    /// In the order of their bytes.
    tensors: Vec<TensorEntry>,
    /// The places in `tensors`, by name.
    names: BTreeMap<String, usize>,
}

impl SafeTensorsHeader {
    /// Reads the header from the start of a file of `file_size` bytes, and nothing behind it.
    ///
    /// # Errors
    /// When the file cannot be read, or is not what the format wants.
    pub fn read(file: &mut impl Read, file_size: u64) -> Result<Self> {
        let unread = "cannot read the safetensors file";
        let Some(room) = file_size.checked_sub(PREFIX) else {
            return Err(malformed(format!("{file_size} bytes are not even the length of its header")));
        };
        let mut length = [0; PREFIX as usize];
        file.read_exact(&mut length).context(Code::DataMissing, unread)?;
        let length = u64::from_le_bytes(length);
        if length > MAX_HEADER || length > room {
            return Err(malformed(format!("a header of {length} bytes in a file of {file_size} bytes")));
        }
        let mut text = Vec::with_capacity(length as usize);
        file.take(length).read_to_end(&mut text).context(Code::DataMissing, unread)?;
        if text.len() as u64 != length {
            return Err(malformed(format!("its header has {} of {length} bytes", text.len())));
        }
        Self::parse(&text, PREFIX + length, room - length)
    }

    /// Checks a header whose numbers begin at byte `start` of the file and are `size` bytes.
    fn parse(text: &[u8], start: u64, size: u64) -> Result<Self> {
        if text.first() != Some(&b'{') {
            return Err(malformed("its header does not begin with {"));
        }
        let raw = json::parse(text).map_err(|error| {
            // It can repeat a text of the file, however long.
            let why: String = error.to_string().chars().take(300).collect();
            malformed(format!("its header: {why}"))
        })?;
        let mut tensors = Vec::with_capacity(raw.tensors.len());
        for (name, tensor) in raw.tensors {
            let entry = entry(&name, &tensor, start, size);
            tensors.push(entry.map_err(|error| error.at(format!("tensor {:?}", shortened(&name))))?);
        }
        // Tensors without bytes before the one that begins where they are.
        tensors.sort_by_key(|entry| (entry.range.start, entry.range.end));
        let mut end = start;
        for entry in &tensors {
            if entry.range.start != end {
                let what = if entry.range.start < end { "shares bytes with the one before" } else { "follows a hole" };
                let Range { start: from, end: to } = entry.range;
                return Err(malformed(format!("its bytes {} to {}, of {size}, {what}", from - start, to - start))
                    .at(format!("tensor {:?}", shortened(&entry.name))));
            }
            end = entry.range.end;
        }
        if end - start != size {
            return Err(malformed(format!("its tensors have {} bytes, the file has {size} for them", end - start)));
        }
        let names = tensors.iter().enumerate().map(|(place, entry)| (entry.name.clone(), place)).collect();
        Ok(Self { metadata: raw.metadata, tensors, names })
    }

    /// The file's own notes, as `__metadata__` has them.
    #[must_use]
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// All tensors, in the order of their bytes.
    #[must_use]
    pub fn tensors(&self) -> &[TensorEntry] {
        &self.tensors
    }

    /// One tensor.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn tensor(&self, name: &str) -> Result<&TensorEntry> {
        self.names.get(name).and_then(|&place| self.tensors.get(place)).ok_or_else(|| {
            let error = Error::new(Code::NoSuchVariable, format!("the safetensors file has no tensor {name:?}"));
            match nearest(name, self.names.keys().map(String::as_str)) {
                Some(near) => error.help(format!("did you mean {near:?}?")),
                None => error,
            }
        })
    }
}

/// Checks what the header says about one tensor by itself.
fn entry(name: &str, raw: &RawTensor, start: u64, size: u64) -> Result<TensorEntry> {
    let known = DTYPES.iter().find(|(text, _)| *text == raw.dtype);
    let (_, dtype) = *known.ok_or_else(|| malformed(format!("unknown type {:?}", shortened(&raw.dtype))))?;
    let dims = raw.shape.iter().map(|&extent| usize::try_from(extent)).collect::<Result<Vec<_>, _>>();
    let shape = Shape::new(dims.map_err(malformed)?).map_err(malformed)?;
    let [from, to] = raw.offsets;
    if from > to || to > size {
        return Err(malformed(format!("its bytes {from} to {to} are not in the {size} of the file")));
    }
    let wanted = shape.elements() as u64 * dtype.width().unwrap_or(0) as u64;
    if to - from != wanted {
        let (dtype, found) = (&raw.dtype, to - from);
        return Err(malformed(format!("{found} bytes are not {dtype} numbers of shape {shape}, which are {wanted}")));
    }
    Ok(TensorEntry { name: name.to_owned(), dtype, shape, range: start + from..start + to })
}

/// Enough of a name to recognise it by.
fn shortened(name: &str) -> String {
    name.chars().take(60).collect()
}
