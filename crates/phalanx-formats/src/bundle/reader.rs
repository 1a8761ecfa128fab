//! Reads the tensors of a checkpoint, whole or in part, however they were cut when written.

use super::region::{Region, Run};
use super::{
    BundleIndex, DataSource, Dtype, Span, Tensor, TensorData, TensorInfo, TensorLocation, TensorSlice, TensorStrings,
    malformed,
};
use crate::checksum::mask;
use phalanx_base::{Code, Error, Result, Shape, nearest};
use std::collections::BTreeMap;

/// So much is read at a time.
const CHUNK: usize = 1 << 20;
/// A string tensor in slices has no more strings than this: their places take sixteen bytes each while reading.
const MAX_SLICED_STRINGS: usize = 1 << 22;

/// A checkpoint, checked and open for reading.
pub struct BundleReader<S> {
    index: BundleIndex,
    source: S,
}

impl<S: DataSource> BundleReader<S> {
    /// Reads the index and checks that everything it names lies inside of the data files.
    ///
    /// # Errors
    /// When the index is damaged, or a data file is missing or too short.
    ///
    /// ```
    /// use phalanx_formats::bundle::{BundleReader, BundleWriter};
    /// let (file, index) = BundleWriter::new(Vec::new()).finish().unwrap();
    /// let reader = BundleReader::open(&index.to_bytes().unwrap(), vec![file]).unwrap();
    /// assert!(reader.index().tensors().is_empty());
    /// ```
    pub fn open(index: &[u8], source: S) -> Result<Self> {
        Self::new(BundleIndex::parse(index)?, source)
    }

    /// As [`BundleReader::open`], of an index that is read already: how many data files there are stands in it.
    ///
    /// # Errors
    /// When a data file is missing or too short.
    pub fn new(index: BundleIndex, source: S) -> Result<Self> {
        let mut sizes = BTreeMap::new();
        for (name, info) in index.tensors() {
            for span in info.spans() {
                let size = match sizes.get(&span.shard) {
                    Some(&size) => size,
                    None => *sizes.entry(span.shard).or_insert(source.size(span.shard)?),
                };
                if span.offset.checked_add(span.size).is_none_or(|end| end > size) {
                    let Span { shard, offset, size: wanted, .. } = span;
                    return Err(malformed(format!("{wanted} bytes at {offset} are not in its {size} bytes"))
                        .at(format!("shard {shard}, tensor {name:?}")));
                }
            }
        }
        Ok(Self { index, source })
    }

    /// What the checkpoint contains.
    #[must_use]
    pub fn index(&self) -> &BundleIndex {
        &self.index
    }

    /// What the index says about one tensor.
    ///
    /// # Errors
    /// When there is no tensor of that name.
    pub fn info(&self, name: &str) -> Result<&TensorInfo> {
        self.index.tensors().get(name).ok_or_else(|| {
            let error = Error::new(Code::NoSuchVariable, format!("the checkpoint has no tensor {name:?}"));
            match nearest(name, self.index.tensors().keys().map(String::as_str)) {
                Some(near) => error.help(format!("did you mean {near:?}?")),
                None => error,
            }
        })
    }

    /// A tensor, put together from its slices if it is stored as slices.
    ///
    /// # Errors
    /// When there is no such tensor, slices are missing, or a checksum is wrong.
    pub fn read(&self, name: &str) -> Result<Tensor> {
        let rank = self.info(name)?.shape.dims().len();
        self.read_slice(name, &TensorSlice::full(rank))
    }

    /// `count` rows of a tensor from `start` on.
    ///
    /// # Errors
    /// As [`BundleReader::read`], and when there are fewer rows or the tensor is a scalar.
    pub fn read_rows(&self, name: &str, start: u64, count: u64) -> Result<Tensor> {
        let rank = self.info(name)?.shape.dims().len();
        if rank == 0 {
            return Err(Error::new(Code::ShapeMismatch, format!("{name:?} is a scalar and has no rows")));
        }
        self.read_slice(name, &TensorSlice::rows(start, count, rank))
    }

    /// Any part of a tensor. Stored slices outside of it are not read.
    ///
    /// # Errors
    /// As [`BundleReader::read`], and when the slice is not inside of the tensor.
    pub fn read_slice(&self, name: &str, slice: &TensorSlice) -> Result<Tensor> {
        let info = self.info(name)?;
        let wanted = slice.region(&info.shape)?;
        self.assemble(info, &wanted).map_err(|error| in_tensor(error, name))
    }

    /// Reads all bytes of one tensor and checks their checksums; gives how many there are.
    ///
    /// # Errors
    /// When slices are missing or a checksum is wrong.
    pub fn verify_tensor(&self, name: &str) -> Result<u64> {
        let info = self.info(name)?;
        let regions = regions(info).and_then(|regions| covers(&regions, &whole(&info.shape)).map(|()| regions));
        let verify = regions.and_then(|regions| {
            regions.iter().try_for_each(|(region, span)| match info.dtype {
                Dtype::String => self.strings(span, region.elements()).map(drop),
                Dtype::Variant => Ok(()), // Its checksum is not over its bytes.
                _ => self.chunks(span, |_, _| {}),
            })
        });
        verify.map_err(|error| in_tensor(error, name)).map(|()| info.stored_bytes())
    }

    /// Reads everything and checks it; gives how many bytes there are.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn verify(&self) -> Result<u64> {
        self.index.tensors().keys().try_fold(0, |sum: u64, name| Ok(sum.saturating_add(self.verify_tensor(name)?)))
    }

    fn assemble(&self, info: &TensorInfo, wanted: &Region) -> Result<Tensor> {
        let mut parts = regions(info)?;
        parts.retain(|(region, _)| region.intersection(wanted).is_some());
        // Before any memory is taken: what is covered is in the files.
        covers(&parts, wanted)?;
        let (dtype, shape) = (info.dtype, Shape::new(wanted.dims())?);
        let data = match (dtype.width(), &info.location) {
            (None, TensorLocation::Whole(span)) if dtype != Dtype::String => {
                TensorData::Bytes(self.source.read_range(span.shard, span.offset, span.size)?)
            }
            (None, _) if dtype != Dtype::String => return Err(malformed(format!("a {dtype} tensor has slices"))),
            (None, _) => TensorData::Strings(self.gather_strings(&parts, wanted)?),
            (Some(_), TensorLocation::Whole(span)) if matches!(&*parts, [(region, _)] if region == wanted) => {
                TensorData::Bytes(self.whole(span)?)
            }
            (Some(width), _) => TensorData::Bytes(self.gather(&parts, wanted, width)?),
        };
        Ok(Tensor { dtype, shape, data })
    }

    /// A span in one piece, so that an unsliced tensor is in memory once. That the file has it was found at the start.
    fn whole(&self, span: &Span) -> Result<Vec<u8>> {
        let mut bytes = vec![0; span.size as usize];
        self.fill(span, &mut bytes).map(|()| bytes)
    }

    /// Reads a span to where it belongs, and sums each chunk while it is still near.
    fn fill(&self, span: &Span, target: &mut [u8]) -> Result<()> {
        let (mut offset, mut crc) = (span.offset, 0);
        for chunk in target.chunks_mut(CHUNK) {
            self.source.read_into(span.shard, offset, chunk)?;
            crc = crc32c::crc32c_append(crc, chunk);
            offset += chunk.len() as u64;
        }
        if mask(crc) == span.crc { Ok(()) } else { Err(wrong_checksum(span)) }
    }

    /// Calls `each` with the bytes of a span and their place in it, some at a time; checks them at the end.
    fn chunks(&self, span: &Span, mut each: impl FnMut(usize, &[u8])) -> Result<()> {
        let (size, mut done, mut crc) = (span.size as usize, 0, 0);
        let mut buffer = vec![0; CHUNK.min(size)];
        while done < size {
            let chunk = &mut buffer[..CHUNK.min(size - done)];
            self.source.read_into(span.shard, span.offset + done as u64, chunk)?;
            crc = crc32c::crc32c_append(crc, chunk);
            each(done, chunk);
            done += chunk.len();
        }
        if mask(crc) == span.crc { Ok(()) } else { Err(wrong_checksum(span)) }
    }

    fn gather(&self, parts: &[(Region, &Span)], wanted: &Region, width: usize) -> Result<Vec<u8>> {
        let mut target = vec![0; wanted.elements() * width];
        for (region, span) in parts {
            let mut runs = Region::runs(region, wanted).peekable();
            if let Some(&Run { from: 0, to, count }) = runs.peek()
                && count == region.elements()
            {
                self.fill(span, &mut target[to * width..(to + count) * width])?;
                continue;
            }
            self.chunks(span, |at, chunk| {
                let end = at + chunk.len();
                while let Some(&Run { from, to, count }) = runs.peek().filter(|run| run.from * width < end) {
                    let (first, last) = ((from * width).max(at), ((from + count) * width).min(end));
                    let into = to * width + first - from * width;
                    target[into..into + last - first].copy_from_slice(&chunk[first - at..last - at]);
                    if (from + count) * width > end {
                        break;
                    }
                    runs.next();
                }
            })?;
        }
        Ok(target)
    }

    fn strings(&self, span: &Span, count: usize) -> Result<TensorStrings> {
        let bytes = self.source.read_range(span.shard, span.offset, span.size)?;
        let (strings, crc) = TensorStrings::parse(bytes, count)?;
        if mask(crc) == span.crc { Ok(strings) } else { Err(wrong_checksum(span)) }
    }

    fn gather_strings(&self, parts: &[(Region, &Span)], wanted: &Region) -> Result<TensorStrings> {
        let mut read = Vec::new();
        for (region, span) in parts {
            read.push((region, self.strings(span, region.elements())?));
        }
        match read.pop() {
            Some((region, strings)) if read.is_empty() && region == wanted => return Ok(strings),
            last => read.extend(last),
        }
        if wanted.elements() > MAX_SLICED_STRINGS {
            return Err(malformed(format!("{} strings in slices are too many", wanted.elements())));
        }
        let mut target: Vec<&[u8]> = vec![&[]; wanted.elements()];
        for (region, strings) in &read {
            let mut runs = Region::runs(region, wanted).peekable();
            for (i, string) in strings.iter().enumerate() {
                while runs.next_if(|run| run.from + run.count <= i).is_some() {}
                if let Some(run) = runs.peek().filter(|run| run.from <= i) {
                    target[run.to + i - run.from] = string;
                }
            }
        }
        Ok(TensorStrings::new(target))
    }
}

fn whole(shape: &Shape) -> Region {
    Region::new(shape.dims().iter().map(|&size| (0, size)).collect())
}

/// The stored parts of a tensor.
fn regions(info: &TensorInfo) -> Result<Vec<(Region, &Span)>> {
    match &info.location {
        TensorLocation::Whole(span) => Ok(vec![(whole(&info.shape), span)]),
        TensorLocation::Sliced(parts) => {
            parts.iter().map(|(slice, span)| slice.region(&info.shape).map(|region| (region, span))).collect()
        }
    }
}

/// Whether the parts, which do not overlap, make up all of what is wanted.
fn covers(parts: &[(Region, &Span)], wanted: &Region) -> Result<()> {
    let shared = |(region, _): &(Region, _)| region.intersection(wanted).map_or(0, |shared| shared.elements());
    let (found, all) = (parts.iter().map(shared).sum::<usize>(), wanted.elements());
    if found == all {
        return Ok(());
    }
    Err(malformed(format!("insufficient slices: {found} of {all} elements are stored")))
}

fn wrong_checksum(span: &Span) -> Error {
    malformed(format!("the checksum of {} bytes at {} of shard {} is wrong", span.size, span.offset, span.shard))
}

fn in_tensor(error: Error, name: &str) -> Error {
    let name: String = name.chars().take(100).collect();
    error.at(format!("tensor {name:?}"))
}
