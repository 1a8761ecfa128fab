//! What a checkpoint, or one server's part of it, contains and where.

use super::entry::Item;
use super::proto::{Header, Version};
use super::{
    Dtype, Span, TableReader, TableWriter, TensorInfo, TensorLocation, TensorSlice, malformed, parse_slice_key,
};
use super::{checks, slice_key};
use phalanx_base::{Code, Error, Result, Shape};
use prost::Message;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;

/// The maximum number of tensors and slices.
const MAX_ENTRIES: usize = 1 << 20;
/// The maximum number of data files.
const MAX_SHARDS: u32 = 99_999;
/// The maximum size of an entry.
const MAX_ENTRY_BYTES: usize = 4 << 20;
/// All names together may have this many bytes plus eight times the size of the index, because a few bytes of an index can
/// encode a long key.
const FREE_KEY_BYTES: usize = 1 << 20;
/// The minimum average size of an entry: a key, a type, a shape, a location and a checksum. In memory it takes some two
/// hundred bytes.
const LEAST_ENTRY_BYTES: usize = 14;
/// The same for a slice, whose key has numbers too.
const LEAST_SLICE_BYTES: usize = 18;
/// How many bytes all entries together may fall short of these minimums.
const FREE_ENTRY_BYTES: usize = 16 << 10;
/// The version that is read and written.
const VERSION: i32 = 1;

/// The tensors of a bundle by name, sorted.
///
/// [`BundleWriter::finish`](super::BundleWriter::finish) makes one for one data file; [`BundleIndex::merge`] makes one
/// for all. Its bytes are the `.index` file, and also how a server sends its part to whoever merges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleIndex {
    shards: u32,
    tensors: BTreeMap<String, TensorInfo>,
}

impl BundleIndex {
    /// The index of one data file without tensors.
    pub(super) fn empty() -> Self {
        Self { shards: 1, tensors: BTreeMap::new() }
    }

    /// Reads an index and checks all of it that can be checked without the data files. Takes no more than 32 times its
    /// bytes, and 1 MiB, of memory.
    ///
    /// # Errors
    /// When it is damaged or makes no sense.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let mut header = None;
        let (mut tensors, mut slices, mut listed) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let mut key_bytes = bytes.len().saturating_mul(8).saturating_add(FREE_KEY_BYTES);
        TableReader::open(bytes)?.for_each(|key, value| {
            let Some(shards) = header else {
                header = Some(shards_of(key, value)?);
                return Ok(());
            };
            key_bytes = key_bytes.checked_sub(key.len()).ok_or_else(|| malformed("its names are too long"))?;
            let least = tensors.len() * LEAST_ENTRY_BYTES + slices.len() * LEAST_SLICE_BYTES;
            let too_many = tensors.len() + slices.len() >= MAX_ENTRIES || least > bytes.len() + FREE_ENTRY_BYTES;
            if too_many || value.len() > MAX_ENTRY_BYTES {
                return Err(malformed("it has too many entries for its size, or one that is too large"));
            }
            let item = Item::parse(value, shards).map_err(|error| at(error, key))?;
            if key.first() == Some(&0) {
                if !item.slices.is_empty() {
                    return Err(at(malformed("a slice has slices"), key));
                }
                slices.insert(parse_slice_key(key)?, item);
            } else {
                let name = std::str::from_utf8(key).map_err(|error| at(malformed(error), key))?;
                let Item { dtype, shape, span, slices } = item;
                let location =
                    if slices.is_empty() { TensorLocation::Whole(span) } else { TensorLocation::Sliced(Vec::new()) };
                if !slices.is_empty() {
                    listed.push((name.to_owned(), slices));
                }
                tensors.insert(name.to_owned(), TensorInfo { dtype, shape, location });
            }
            Ok(())
        })?;
        let shards = header.ok_or_else(|| malformed("the index is empty"))?;
        for (name, list) in listed {
            if let Some(info) = tensors.get_mut(&name) {
                info.location = TensorLocation::Sliced(gather(&name, info, list, &mut slices)?);
            }
        }
        if let Some(((name, slice), _)) = slices.first_key_value() {
            return Err(malformed(format!("slice {slice} of {name:?} belongs to no tensor")));
        }
        let index = Self { shards, tensors };
        checks::check(&index).map(|()| index)
    }

    /// The `.index` file.
    ///
    /// # Errors
    /// When a name is too long for one, or there are too many tensors or slices.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let version = Some(Version { producer: VERSION, ..Version::default() });
        let header = Header { num_shards: self.shards.cast_signed(), endianness: 0, version };
        let mut entries = BTreeMap::new();
        for (name, TensorInfo { dtype, shape, location }) in &self.tensors {
            let (dtype, shape) = (*dtype, shape.clone());
            let item = match location {
                TensorLocation::Whole(span) => Item { dtype, shape, span: *span, slices: Vec::new() },
                TensorLocation::Sliced(parts) => {
                    for (slice, span) in parts {
                        let shape = Shape::new(slice.region(&shape)?.dims())?;
                        let item = Item { dtype, shape, span: *span, slices: Vec::new() };
                        entries.insert(slice_key(name, slice), item.to_proto());
                    }
                    let span = Span { shard: 0, offset: 0, size: 0, crc: 0 };
                    Item { dtype, shape, span, slices: parts.iter().map(|(slice, _)| slice.clone()).collect() }
                }
            };
            entries.insert(name.clone().into_bytes(), item.to_proto());
        }
        let mut table = TableWriter::new();
        table.add(b"", &header.encode_to_vec())?;
        for (key, entry) in &entries {
            let value = entry.encode_to_vec();
            if entries.len() > MAX_ENTRIES || value.len() > MAX_ENTRY_BYTES {
                let what = format!("{} tensors and slices are too many for one checkpoint", entries.len());
                return Err(Error::new(Code::DataFormat, what));
            }
            table.add(key, &value)?;
        }
        Ok(table.finish())
    }

    /// One index of several, whose data files follow each other in the order given. Slices of one tensor come together.
    ///
    /// # Errors
    /// When a tensor is in two of them and not as slices of the same shape and type, or slices overlap.
    pub fn merge(parts: impl IntoIterator<Item = Self>) -> Result<Self> {
        let mut merged = Self { shards: 0, tensors: BTreeMap::new() };
        for part in parts {
            let first = merged.shards;
            let shards = first.checked_add(part.shards).filter(|&shards| shards <= MAX_SHARDS);
            merged.shards = shards.ok_or_else(|| Error::new(Code::DataFormat, "too many shards for one checkpoint"))?;
            let moved = |span: Span| Span { shard: span.shard + first, ..span };
            for (name, TensorInfo { dtype, shape, location }) in part.tensors {
                match location {
                    TensorLocation::Whole(span) => merged.insert(name, dtype, shape, None, moved(span))?,
                    TensorLocation::Sliced(slices) => {
                        for (slice, span) in slices {
                            merged.insert(name.clone(), dtype, shape.clone(), Some(slice), moved(span))?;
                        }
                    }
                }
            }
        }
        if merged.shards == 0 {
            return Err(Error::new(Code::DataFormat, "a checkpoint has one shard at least"));
        }
        checks::check(&merged).map(|()| merged)
    }

    /// Adds a tensor, or a slice of one. That slices do not overlap is checked at the end.
    pub(super) fn insert(
        &mut self,
        name: String,
        dtype: Dtype,
        shape: Shape,
        slice: Option<TensorSlice>,
        span: Span,
    ) -> Result<()> {
        match self.tensors.entry(name) {
            Slot::Vacant(slot) => {
                let location =
                    slice.map_or(TensorLocation::Whole(span), |slice| TensorLocation::Sliced(vec![(slice, span)]));
                slot.insert(TensorInfo { dtype, shape, location });
                Ok(())
            }
            Slot::Occupied(mut slot) => {
                let twice = Error::new(Code::DataFormat, format!("tensor {:?} is stored twice", slot.key()));
                let info = slot.get_mut();
                if (info.dtype, &info.shape) != (dtype, &shape) {
                    let (a, b) = (info.dtype, &info.shape);
                    return Err(twice.because(format!("once as {a} {b}, once as {dtype} {shape}")));
                }
                let (TensorLocation::Sliced(parts), Some(slice)) = (&mut info.location, slice) else {
                    return Err(twice);
                };
                parts.push((slice, span));
                Ok(())
            }
        }
    }

    /// How many data files there are.
    #[must_use]
    pub fn shards(&self) -> u32 {
        self.shards
    }

    /// The tensors by name, sorted.
    #[must_use]
    pub fn tensors(&self) -> &BTreeMap<String, TensorInfo> {
        &self.tensors
    }
}

/// Adds the place in the index to an error about an entry.
fn at(error: Error, key: &[u8]) -> Error {
    error.at(format!("entry \"{}\"", shortened(key).escape_ascii()))
}

/// Enough of a key to recognise it by.
fn shortened(key: &[u8]) -> &[u8] {
    &key[..key.len().min(100)]
}

/// Reads the header, which is the first entry.
fn shards_of(key: &[u8], value: &[u8]) -> Result<u32> {
    if !key.is_empty() {
        return Err(malformed("the index has no header"));
    }
    let header = Header::decode(value).map_err(malformed)?;
    let version = header.version.unwrap_or_default();
    if header.endianness != 0 {
        return Err(malformed("its numbers are big-endian"));
    }
    if version.min_consumer > VERSION || version.bad_consumers.contains(&VERSION) {
        return Err(malformed(format!("it wants a reader of version {}, this is {VERSION}", version.min_consumer)));
    }
    let shards = u32::try_from(header.num_shards).ok().filter(|shards| (1..=MAX_SHARDS).contains(shards));
    shards.ok_or_else(|| malformed(format!("{} shards cannot be", header.num_shards)))
}

/// The slices that a tensor lists, taken from among all slices, which have entries of their own.
fn gather(
    name: &str,
    info: &TensorInfo,
    listed: Vec<TensorSlice>,
    slices: &mut BTreeMap<(String, TensorSlice), Item>,
) -> Result<Vec<(TensorSlice, Span)>> {
    let mut parts = Vec::with_capacity(listed.len().min(slices.len()));
    for slice in listed {
        let region = slice.region(&info.shape).map_err(|error| at(malformed(error), name.as_bytes()))?;
        let found = slices.remove_entry(&(name.to_owned(), slice));
        let ((_, slice), part) = found
            .ok_or_else(|| at(malformed("a slice is listed twice or has no entry of its own"), name.as_bytes()))?;
        if (part.dtype, part.shape.dims()) != (info.dtype, &*region.dims()) {
            let (dtype, shape) = (part.dtype, part.shape);
            return Err(at(malformed(format!("slice {slice} is stored as {dtype} {shape}")), name.as_bytes()));
        }
        parts.push((slice, part.span));
    }
    Ok(parts)
}
