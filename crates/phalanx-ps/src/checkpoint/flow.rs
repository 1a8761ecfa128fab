//! A tensor's elements in order, a block at a time: what is restored need not fit into memory.

use super::Files;
use super::estimator_names::Located;
use phalanx_base::{Code, Error, Result};
use phalanx_formats::bundle::{BundleReader, Extent, Span, TensorData, TensorInfo, TensorLocation, TensorSlice};
use phalanx_formats::checksum::mask;
use std::ops::Range;

/// Some elements of a tensor, read in order. Every checksum is checked by the time the last element is returned.
pub(super) struct Flow<'a> {
    elements: Elements<'a>,
    /// The factor to every 32-bit float.
    scale: f32,
}

enum Elements<'a> {
    /// Stored in runs of complete rows, as servers and TensorFlow's partitioners over the first axis write them.
    Runs(Runs<'a>),
    /// Split in another way, and assembled in memory.
    Memory { bytes: Vec<u8>, at: usize },
}

struct Runs<'a> {
    files: &'a Files,
    /// The stored spans in order, each with its first byte within the tensor.
    spans: std::vec::IntoIter<(u64, Span)>,
    /// The span that is being read: its first byte, the bytes done, and the checksum so far.
    open: Option<(u64, Span, u64, u32)>,
    /// The wanted bytes within the tensor; shrinks from its start.
    wanted: Range<u64>,
}

impl<'a> Flow<'a> {
    /// Opens the elements `wanted` of the tensor, of `width` bytes each. The parts of a partitioned slot are tensors of the
    /// same shape, each with its own slice.
    pub(super) fn open(
        reader: &BundleReader<Files>,
        files: &'a Files,
        located: &Located,
        wanted: Range<usize>,
        width: usize,
    ) -> Result<Self> {
        let wanted = (wanted.start * width) as u64..(wanted.end * width) as u64;
        let mut spans = Some(Vec::new());
        for name in &located.names {
            spans = spans.zip(runs(reader.info(name)?, width)?).map(|(mut all, own)| {
                all.extend(own);
                all
            });
        }
        let name = &located.names[0];
        let elements = if let Some(mut spans) = spans {
            spans.sort_unstable_by_key(|&(start, _)| start);
            spans.retain(|(start, span)| *start < wanted.end && start + span.size > wanted.start);
            Elements::Runs(Runs { files, spans: spans.into_iter(), open: None, wanted })
        } else {
            let TensorData::Bytes(bytes) = reader.read(name)?.data else {
                return Err(Error::new(Code::CheckpointMismatch, format!("{name:?} does not consist of numbers")));
            };
            let bytes = bytes.get(wanted.start as usize..wanted.end as usize).map(<[u8]>::to_vec);
            Elements::Memory { bytes: bytes.ok_or_else(|| short(name))?, at: 0 }
        };
        Ok(Self { elements, scale: located.scale })
    }

    /// Fills `block` with the next bytes.
    pub(super) fn fill(&mut self, block: &mut [u8]) -> Result<()> {
        match &mut self.elements {
            Elements::Runs(runs) => runs.fill(block)?,
            Elements::Memory { bytes, at } => {
                let next = bytes.get(*at..*at + block.len()).ok_or_else(|| short("a tensor"))?;
                block.copy_from_slice(next);
                *at += block.len();
            }
        }
        if self.scale != 1.0 {
            for number in block.as_chunks_mut().0 {
                *number = (f32::from_le_bytes(*number) * self.scale).to_le_bytes();
            }
        }
        Ok(())
    }
}

impl Runs<'_> {
    fn fill(&mut self, mut block: &mut [u8]) -> Result<()> {
        while !block.is_empty() {
            let (start, span, done, crc) = match self.open.take() {
                Some(open) => open,
                None => {
                    let (start, span) = self.spans.next().ok_or_else(|| short("a tensor"))?;
                    if start > self.wanted.start {
                        return Err(short("a tensor"));
                    }
                    // The bytes before are read for the checksum.
                    let skipped = self.wanted.start - start;
                    (start, span, skipped, self.skim(&span, 0..skipped, 0)?)
                }
            };
            let n = block.len().min((span.size - done) as usize);
            let (head, tail) = block.split_at_mut(n);
            self.files.read(span.shard, span.offset + done, head)?;
            let (done, crc) = (done + n as u64, crc32c::crc32c_append(crc, head));
            self.wanted.start += n as u64;
            block = tail;
            if self.wanted.start == self.wanted.end || done == span.size {
                let crc = self.skim(&span, done..span.size, crc)?;
                if mask(crc) != span.crc {
                    let place = format!("data file {}, {} bytes at {}", span.shard, span.size, span.offset);
                    return Err(Error::new(Code::CheckpointDamaged, "a checksum is wrong").at(place));
                }
            } else {
                self.open = Some((start, span, done, crc));
            }
        }
        Ok(())
    }

    /// Reads a part of a span for its checksum only.
    fn skim(&self, span: &Span, mut part: Range<u64>, mut crc: u32) -> Result<u32> {
        let mut block = vec![0; (part.end - part.start).min(4 << 20) as usize];
        while !part.is_empty() {
            let n = (part.end - part.start).min(block.len() as u64);
            self.files.read(span.shard, span.offset + part.start, &mut block[..n as usize])?;
            crc = crc32c::crc32c_append(crc, &block[..n as usize]);
            part.start += n;
        }
        Ok(crc)
    }
}

/// Returns a tensor's stored runs by their first byte, if each consists of complete rows.
fn runs(info: &TensorInfo, width: usize) -> Result<Option<Vec<(u64, Span)>>> {
    let parts = match &info.location {
        TensorLocation::Whole(span) => return Ok(Some(vec![(0, *span)])),
        TensorLocation::Sliced(parts) => parts,
    };
    let row = (info.shape.row_elements() * width) as u64;
    let mut spans = Vec::with_capacity(parts.len());
    for (slice, span) in parts {
        let Some(first) = first_row(slice, span.size / row.max(1), info.shape.dims()) else { return Ok(None) };
        spans.push((first * row, *span));
    }
    Ok(Some(spans))
}

/// Returns the first row of a slice that has all of every other axis, which TensorFlow writes as a range.
fn first_row(slice: &TensorSlice, rows: u64, dims: &[usize]) -> Option<u64> {
    let (first, others) = slice.extents().split_first()?;
    let complete = |(extent, &size): (&Extent, &usize)| match *extent {
        Extent::Full => true,
        Extent::Range { start, length } => start == 0 && length == size as u64,
    };
    if others.len() + 1 != dims.len() || !others.iter().zip(&dims[1..]).all(complete) {
        return None;
    }
    match *first {
        Extent::Full => (rows == dims[0] as u64).then_some(0),
        Extent::Range { start, length } => (length == rows).then_some(start),
    }
}

/// Returns the rows of a tensor that are stored in data file `file`.
pub(super) fn rows_in_file(info: &TensorInfo, width: usize, file: u32) -> Result<Range<usize>> {
    let row = (info.shape.row_elements() * width).max(1) as u64;
    let spans = runs(info, width)?.unwrap_or_default();
    let mut own = spans.iter().filter(|(_, span)| span.shard == file);
    let rows = |&(start, span): &(u64, Span)| (start / row) as usize..((start + span.size) / row) as usize;
    let found = own.next().map_or(0..0, rows);
    if own.next().is_some() {
        return Err(Error::new(Code::CheckpointDamaged, "a server has two parts of a table"));
    }
    Ok(found)
}

fn short(name: &str) -> Error {
    Error::new(Code::CheckpointDamaged, format!("parts of {name} are missing"))
}
