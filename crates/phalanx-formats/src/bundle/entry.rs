//! The entry of the index for one tensor, and its messages.

use super::proto::{Dims, Entry, Slice, dims, slice};
use super::{Dtype, Extent, TensorSlice, malformed};
use crate::wire::{Field, Wire};
use phalanx_base::{Result, Shape};

/// Where the bytes of a tensor or a slice are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Which data file.
    pub shard: u32,
    /// The first byte in it.
    pub offset: u64,
    /// How many bytes.
    pub size: u64,
    /// Their masked crc32c.
    pub crc: u32,
}

/// How a tensor is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TensorLocation {
    /// In one piece.
    Whole(Span),
    /// As slices that do not overlap. In the index of one shard, and in a damaged checkpoint, some may be missing.
    Sliced(Vec<(TensorSlice, Span)>),
}

/// What the index says about one tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// The type of its elements.
    pub dtype: Dtype,
    /// The shape of the whole tensor.
    pub shape: Shape,
    /// Where its bytes are.
    pub location: TensorLocation,
}

impl TensorInfo {
    /// The places of its bytes.
    pub fn spans(&self) -> impl Iterator<Item = &Span> {
        let (whole, sliced) = match &self.location {
            TensorLocation::Whole(span) => (Some(span), [].as_slice()),
            TensorLocation::Sliced(parts) => (None, parts.as_slice()),
        };
        whole.into_iter().chain(sliced.iter().map(|(_, span)| span))
    }

    /// How many bytes it has in the data files.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        self.spans().fold(0, |sum, span| sum.saturating_add(span.size))
    }
}

/// One entry of the index, checked by itself.
pub(super) struct Item {
    pub(super) dtype: Dtype,
    pub(super) shape: Shape,
    pub(super) span: Span,
    pub(super) slices: Vec<TensorSlice>,
}

impl Item {
    /// Reads an entry of a bundle of `shards` data files and checks it. By hand, because a generated message takes a
    /// hundred bytes for each of many slices that take four in the file.
    pub(super) fn parse(value: &[u8], shards: u32) -> Result<Self> {
        let (mut dtype, mut shard, mut offset, mut size, mut crc) = (0, 0, 0, 0, 0);
        let (mut dims, mut slices) = (Vec::new(), Vec::with_capacity(count(value, 7).map_err(malformed)?));
        let mut wire = Wire(value);
        while let Some(field) = wire.next().map_err(malformed)? {
            match field {
                (1, Field::Varint(number)) => dtype = number as i32,
                (2, Field::Bytes(shape)) => add_dims(shape, &mut dims)?,
                (3, Field::Varint(number)) => shard = number as i32,
                (4, Field::Varint(number)) => offset = number.cast_signed(),
                (5, Field::Varint(number)) => size = number.cast_signed(),
                (6, Field::Fixed32(number)) => crc = u32::from_le_bytes(number),
                (7, Field::Bytes(slice)) => slices.push(slice_of(slice)?),
                (1..=7, _) => return Err(malformed("a field has the wrong type")),
                _ => {}
            }
        }
        let dtype = Dtype::from_number(dtype).ok_or_else(|| malformed(format!("unknown type {dtype}")))?;
        let shape = Shape::new(dims).map_err(malformed)?;
        let found = u32::try_from(shard).ok().filter(|&shard| shard < shards);
        let shard = found.ok_or_else(|| malformed(format!("shard {shard} of {shards} does not exist")))?;
        let range = u64::try_from(offset).ok().zip(u64::try_from(size).ok());
        let range = range.filter(|(offset, size)| offset.checked_add(*size).is_some());
        let (offset, size) = range.ok_or_else(|| malformed(format!("{size} bytes at {offset} cannot be")))?;
        let item = Self { dtype, shape, span: Span { shard, offset, size, crc }, slices };
        if item.slices.is_empty() { item.size_fits().map(|()| item) } else { Ok(item) }
    }

    /// Whether as many bytes are stored as elements of this type take.
    fn size_fits(&self) -> Result<()> {
        let (elements, size) = (self.shape.elements() as u64, self.span.size);
        let fits = match self.dtype.width() {
            Some(width) => elements * width as u64 == size,
            // A string takes a byte at least for its length; then there is a checksum.
            None if self.dtype == Dtype::String => elements.checked_add(4).is_some_and(|least| least <= size),
            None => true,
        };
        let Self { dtype, shape, .. } = self;
        if fits { Ok(()) } else { Err(malformed(format!("{size} bytes are not a {dtype} tensor of shape {shape}"))) }
    }

    pub(super) fn to_proto(&self) -> Entry {
        let Span { shard, offset, size, crc } = self.span;
        let slices = self.slices.iter().map(|slice| Slice { extent: slice.extents().iter().map(extent).collect() });
        Entry {
            dtype: self.dtype.number(),
            shape: Some(Dims {
                dim: self.shape.dims().iter().map(|&size| dims::Dim { size: size as i64 }).collect(),
                unknown_rank: false,
            }),
            shard_id: shard.cast_signed(),
            offset: offset.cast_signed(),
            size: size.cast_signed(),
            crc32c: crc,
            slices: slices.collect(),
        }
    }
}

/// How many fields of this number a message has.
fn count(message: &[u8], wanted: u32) -> Result<usize, &'static str> {
    let (mut wire, mut count) = (Wire(message), 0);
    while let Some((number, _)) = wire.next()? {
        count += usize::from(number == wanted);
    }
    Ok(count)
}

/// Adds the extents of a shape's message.
fn add_dims(shape: &[u8], dims: &mut Vec<usize>) -> Result<()> {
    let mut wire = Wire(shape);
    while let Some(field) = wire.next().map_err(malformed)? {
        match field {
            (2, Field::Bytes(dim)) => {
                let size = last_varint(dim, 1)?.unwrap_or_default().cast_signed();
                dims.push(size.try_into().map_err(|_| malformed("a shape has negative extents"))?);
            }
            (3, Field::Varint(0)) => {}
            (3, Field::Varint(_)) => return Err(malformed("a shape has no rank")),
            (2 | 3, _) => return Err(malformed("a shape's field has the wrong type")),
            _ => {}
        }
    }
    Ok(())
}

/// The number of a message's field, of which the last counts.
fn last_varint(message: &[u8], wanted: u32) -> Result<Option<u64>> {
    let (mut wire, mut found) = (Wire(message), None);
    while let Some((number, field)) = wire.next().map_err(malformed)? {
        match field {
            Field::Varint(value) if number == wanted => found = Some(value),
            _ if number == wanted => return Err(malformed("a number has the wrong type")),
            _ => {}
        }
    }
    Ok(found)
}

/// Reads a slice's message.
fn slice_of(slice: &[u8]) -> Result<TensorSlice> {
    let mut extents = Vec::with_capacity(count(slice, 1).map_err(malformed)?);
    let mut wire = Wire(slice);
    while let Some((number, field)) = wire.next().map_err(malformed)? {
        match (number, field) {
            (1, Field::Bytes(extent)) => {
                let start = last_varint(extent, 1)?.unwrap_or_default().cast_signed();
                let length = last_varint(extent, 2)?.map(u64::cast_signed);
                let range = match (start, length) {
                    (0, None | Some(-1)) => Some(Extent::Full),
                    (_, None) => None,
                    (start, Some(length)) => u64::try_from(start)
                        .ok()
                        .zip(u64::try_from(length).ok())
                        .map(|(start, length)| Extent::Range { start, length }),
                };
                extents.push(range.ok_or_else(|| malformed("a slice has negative extents"))?);
            }
            (1, _) => return Err(malformed("a slice's field has the wrong type")),
            _ => {}
        }
    }
    Ok(TensorSlice::new(extents))
}

fn extent(extent: &Extent) -> slice::Extent {
    match *extent {
        Extent::Full => slice::Extent { start: 0, length: None },
        Extent::Range { start, length } => {
            slice::Extent { start: start.cast_signed(), length: Some(length.cast_signed()) }
        }
    }
}
