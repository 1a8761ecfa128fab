//! What the index says about one tensor, and the messages it is said in.

use phalanx_base::{Result, Shape};

use super::proto::{Dims, Entry, Slice, dims, slice};
use super::{Dtype, Extent, TensorSlice, malformed};

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
pub enum Place {
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
    pub place: Place,
}

impl TensorInfo {
    /// The places of its bytes.
    pub fn spans(&self) -> impl Iterator<Item = &Span> {
        let (whole, sliced) = match &self.place {
            Place::Whole(span) => (Some(span), [].as_slice()),
            Place::Sliced(parts) => (None, parts.as_slice()),
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
    /// Checks an entry of a bundle of `shards` data files.
    pub(super) fn from_proto(entry: &Entry, shards: u32) -> Result<Self> {
        let dtype =
            Dtype::from_number(entry.dtype).ok_or_else(|| malformed(format!("unknown type {}", entry.dtype)))?;
        let shape = shape_of(entry.shape.as_ref())?;
        let slices = entry.slices.iter().map(slice_of).collect::<Result<Vec<_>>>()?;
        let shard = u32::try_from(entry.shard_id).ok().filter(|&shard| shard < shards);
        let shard = shard.ok_or_else(|| malformed(format!("shard {} of {shards} does not exist", entry.shard_id)))?;
        let range = u64::try_from(entry.offset).ok().zip(u64::try_from(entry.size).ok());
        let range = range.filter(|(offset, size)| offset.checked_add(*size).is_some());
        let (offset, size) =
            range.ok_or_else(|| malformed(format!("{} bytes at {} cannot be", entry.size, entry.offset)))?;
        let item = Self { dtype, shape, span: Span { shard, offset, size, crc: entry.crc32c }, slices };
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

fn shape_of(dims: Option<&Dims>) -> Result<Shape> {
    let Some(dims) = dims else { return Shape::new([]) };
    let sizes: Option<Vec<usize>> = dims.dim.iter().map(|dim| dim.size.try_into().ok()).collect();
    let sizes = sizes.filter(|_| !dims.unknown_rank).ok_or_else(|| malformed("a shape has negative extents"))?;
    Shape::new(sizes).map_err(malformed)
}

fn slice_of(slice: &Slice) -> Result<TensorSlice> {
    let extent = |extent: &slice::Extent| match (extent.start, extent.length) {
        (0, None | Some(-1)) => Some(Extent::Full),
        (start, Some(length)) => Some(Extent::Range { start: start.try_into().ok()?, length: length.try_into().ok()? }),
        (_, None) => None,
    };
    let extents: Option<Vec<_>> = slice.extent.iter().map(extent).collect();
    extents.map(TensorSlice::new).ok_or_else(|| malformed("a slice has negative extents"))
}

fn extent(extent: &Extent) -> slice::Extent {
    match *extent {
        Extent::Full => slice::Extent { start: 0, length: None },
        Extent::Range { start, length } => {
            slice::Extent { start: start.cast_signed(), length: Some(length.cast_signed()) }
        }
    }
}
