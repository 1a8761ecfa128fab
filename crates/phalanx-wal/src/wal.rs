//! The log: records in recycled segments.
//!
//! Appending costs a lock for a few words, then one copy beside other threads. A segment is used again once all of its
//! records are truncated; its pages stay mapped, so that nothing faults.

use crate::record::{HEAD, Head, Place, SEGMENT_HEAD, SegmentHead, record_size};
use crate::segment::{Segment, WORD};
use crate::space::Space;
use phalanx_base::{Code, Error, Result};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A body is copied and summed up in pieces that stay in the cache in between.
const PIECE: usize = 64 << 10;

/// The settings of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalOptions {
    /// A random number that tells the segments of this log from those of others.
    pub log: u64,
    /// The most segments that the log may have.
    pub most_segments: usize,
}

/// A write-ahead log.
///
/// ```
/// use phalanx_wal::{Found, Heap, Wal, WalOptions};
/// let (memory, options) = (Heap::new(4096), WalOptions { log: 1, most_segments: 2 });
/// let wal = Wal::create(Box::new(memory.clone()), options)?;
/// wal.append(7, &[b"acknowledged", b" then"])?;
/// drop(wal); // the process dies; its memory stays
/// let mut found = Vec::new();
/// let wal = Wal::recover(Box::new(memory), options, 0, |record| {
///     if let Found::Record { kind, body, .. } = record {
///         found.push((kind, body.to_vec()));
///     }
///     Ok(())
/// })?;
/// assert_eq!(found, [(7, b"acknowledged then".to_vec())]);
/// wal.append(7, &[b"more"])?;
/// # Ok::<(), phalanx_base::Error>(())
/// ```
pub struct Wal {
    space: Box<dyn Space>,
    options: WalOptions,
    ring: Mutex<Ring>,
}

/// What a replay finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// A complete record.
    Record {
        /// Where it is in the log.
        position: u64,
        /// What it is.
        kind: u32,
        /// Its content.
        body: &'a [u8],
    },
    /// A record that its process did not complete: nobody has acknowledged it. Its body may be anything.
    Torn {
        /// Where it is in the log.
        position: u64,
        /// What it would have been.
        kind: u32,
        /// What there is of it.
        body: &'a [u8],
    },
}

/// The segments in use, and those to be used again.
struct Ring {
    segments: VecDeque<(u64, Arc<Segment>)>,
    free: Vec<Arc<Segment>>,
    /// The position of the next record.
    next: u64,
}

impl Ring {
    fn made(&self) -> usize {
        self.segments.len() + self.free.len()
    }
}

/// Memory for a record that is not complete. One that is dropped leaves a hole, which a replay skips.
pub struct Reservation {
    segment: Arc<Segment>,
    at: usize,
    head: Head,
    filled: usize,
    crc: u32,
}

impl Wal {
    /// Creates an empty log. Segments that lie in the space are used again.
    ///
    /// # Errors
    /// When the space has no memory for a first segment.
    pub fn create(space: Box<dyn Space>, options: WalOptions) -> Result<Self> {
        let free = space.existing()?;
        // What is there must not be found, should this process die before it is used again.
        free.iter().for_each(|segment| segment.set_word(0, 0));
        let wal = Self::over(space, options, Ring { segments: VecDeque::new(), free, next: 0 });
        wal.roll(&mut wal.ring(), 0)?;
        Ok(wal)
    }

    /// Continues a log whose process is gone: calls `each` with the records from position `from` on, in their order.
    ///
    /// # Errors
    /// When a record was damaged, a segment is missing, or `each` fails.
    pub fn recover(
        space: Box<dyn Space>,
        options: WalOptions,
        from: u64,
        mut each: impl FnMut(Found<'_>) -> Result<()>,
    ) -> Result<Self> {
        let size = space.segment_bytes() as u64;
        let (mut used, mut free) = (Vec::new(), Vec::new());
        for segment in space.existing()? {
            match SegmentHead::read(&segment).map_err(|what| damaged(from, what))? {
                Some(head) if head.log == options.log && head.sequence >= from / size => used.push((head, segment)),
                _ => free.push(segment),
            }
        }
        used.sort_unstable_by_key(|(head, _)| head.sequence);
        let (mut next, mut segments) = (0, VecDeque::new());
        for (number, (head, segment)) in used.into_iter().enumerate() {
            let expected = from / size + number as u64;
            if head.sequence != expected {
                return Err(damaged(expected * size, "a segment is missing"));
            }
            if number > 0 && head.before != next {
                return Err(damaged(next, "the end of a segment is missing"));
            }
            next = replay(&segment, head.sequence * size, from, &mut each)?;
            segments.push_back((head.sequence, segment));
        }
        if segments.is_empty() {
            return Err(damaged(from, "no segment is there"));
        }
        if next < from {
            return Err(damaged(next, "its end is missing"));
        }
        Ok(Self::over(space, options, Ring { segments, free, next }))
    }

    fn over(space: Box<dyn Space>, options: WalOptions, ring: Ring) -> Self {
        Self { space, options, ring: Mutex::new(ring) }
    }

    /// Appends a record that consists of these parts, and returns its position. When this returns, the record survives this
    /// process.
    ///
    /// # Errors
    /// When the log is full; nothing was appended then.
    pub fn append(&self, kind: u32, parts: &[&[u8]]) -> Result<u64> {
        let mut record = self.reserve(kind, parts.iter().map(|part| part.len()).sum())?;
        parts.iter().for_each(|part| record.push(part));
        Ok(record.commit())
    }

    /// Reserves memory for a record with a body of `len` bytes.
    ///
    /// # Errors
    /// When the log is full.
    pub fn reserve(&self, kind: u32, len: usize) -> Result<Reservation> {
        let (size, needed) = (self.space.segment_bytes(), record_size(len) + WORD);
        if SEGMENT_HEAD + needed > size || u32::try_from(len).is_err() {
            return Err(Error::new(Code::Internal, format!("a record of {len} bytes does not fit into the log")));
        }
        let mut ring = self.ring();
        let inside = (ring.next % size as u64) as usize;
        // A position at the very end of a segment counts as the start of the next one.
        if inside < SEGMENT_HEAD || inside + needed > size {
            let sequence = ring.segments.back().map_or(0, |(sequence, _)| sequence + 1);
            self.roll(&mut ring, sequence)?;
        }
        let Some((sequence, segment)) = ring.segments.back() else {
            return Err(Error::new(Code::Internal, "the log has no segment"));
        };
        let (segment, at) = (Arc::clone(segment), (ring.next - sequence * size as u64) as usize);
        let head = Head { position: ring.next, len: len as u32, kind };
        head.reserve(&segment, at);
        ring.next += record_size(len) as u64;
        Ok(Reservation { segment, at, head, filled: 0, crc: 0 })
    }

    /// Begins the segment with this number.
    fn roll(&self, ring: &mut Ring, sequence: u64) -> Result<()> {
        let segment = match ring.free.pop() {
            Some(segment) => segment,
            None if ring.made() < self.options.most_segments.max(1) => self.space.make()?,
            None => return Err(self.full()),
        };
        SegmentHead { log: self.options.log, sequence, before: ring.next }.write(&segment);
        ring.next = sequence * self.space.segment_bytes() as u64 + SEGMENT_HEAD as u64;
        ring.segments.push_back((sequence, segment));
        Ok(())
    }

    fn full(&self) -> Error {
        let bytes = self.options.most_segments * self.space.segment_bytes();
        Error::new(Code::LogFull, "the write-ahead log is full")
            .because(format!("its {} MiB hold updates that no snapshot has yet", bytes >> 20))
            .help("training pauses until a snapshot is written")
    }

    /// Returns the number that tells this log from others.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.options.log
    }

    /// Returns the position of the next record: a snapshot of everything appended so far begins there.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.ring().next
    }

    /// Returns the bytes from the oldest record that is kept to the end.
    #[must_use]
    pub fn held(&self) -> u64 {
        let ring = self.ring();
        let first = ring.segments.front().map_or(0, |(sequence, _)| sequence * self.space.segment_bytes() as u64);
        ring.next - first
    }

    /// Returns the most bytes that the log may have.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.options.most_segments as u64 * self.space.segment_bytes() as u64
    }

    /// Frees the segments all of whose records lie below `position`. Only call this when a snapshot that begins there was
    /// published.
    pub fn truncate(&self, position: u64) {
        let (ring, size) = (&mut *self.ring(), self.space.segment_bytes() as u64);
        while ring.segments.len() > 1 && ring.segments.front().is_some_and(|(first, _)| (first + 1) * size <= position)
        {
            ring.free.extend(ring.segments.pop_front().map(|(_, segment)| segment));
        }
    }

    /// Writes the segments from `position` on to their disk, and returns the end of what is there now.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn sync(&self, position: u64) -> Result<u64> {
        let size = self.space.segment_bytes() as u64;
        let (segments, end) = {
            let ring = self.ring();
            let dirty = ring.segments.iter().filter(|(sequence, _)| (sequence + 1) * size > position);
            (dirty.map(|(_, segment)| Arc::clone(segment)).collect::<Vec<_>>(), ring.next)
        };
        for segment in segments {
            segment.sync().map_err(|error| {
                Error::new(Code::StorageWrite, "the write-ahead log cannot be written to its disk").because(error)
            })?;
        }
        Ok(end)
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reservation {
    /// Copies the next bytes of the body.
    ///
    /// # Panics
    /// When they are more than was reserved.
    pub fn push(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(PIECE) {
            let at = self.take(piece.len());
            self.segment.copy(at, piece);
            self.crc = crc32c::crc32c_append(self.crc, piece);
        }
    }

    /// Has `write` fill the next `len` bytes of the body.
    ///
    /// # Panics
    /// When they are more than was reserved.
    pub fn fill(&mut self, len: usize, write: impl FnOnce(&mut [u8])) {
        let at = self.take(len);
        self.segment.fill(at, len, write);
        self.crc = crc32c::crc32c_append(self.crc, self.segment.bytes(at, len));
    }

    fn take(&mut self, len: usize) -> usize {
        assert!(self.filled + len <= self.head.len as usize, "a record is longer than was reserved");
        let at = self.at + HEAD + self.filled;
        self.filled += len;
        at
    }

    /// Completes the record and returns its position: from now on it survives this process.
    ///
    /// # Panics
    /// When the body is shorter than was reserved.
    pub fn commit(self) -> u64 {
        assert_eq!(self.filled, self.head.len as usize, "a record is shorter than was reserved");
        self.head.commit(&self.segment, self.at, self.crc);
        self.head.position
    }
}

/// Replays a segment that begins at position `start`; returns where it ends.
fn replay(segment: &Segment, start: u64, from: u64, each: &mut impl FnMut(Found<'_>) -> Result<()>) -> Result<u64> {
    let mut at = SEGMENT_HEAD;
    loop {
        let position = start + at as u64;
        let (head, complete) = match Head::read(segment, at, position) {
            Place::End => return Ok(position),
            Place::Damaged(what) => return Err(damaged(position, what)),
            Place::Torn(head) => (head, false),
            Place::Complete(head) => (head, true),
        };
        if position >= from {
            let (kind, body) = (head.kind, segment.bytes(at + HEAD, head.len as usize));
            each(if complete { Found::Record { position, kind, body } } else { Found::Torn { position, kind, body } })?;
        }
        at += record_size(head.len as usize);
    }
}

fn damaged(position: u64, what: &str) -> Error {
    Error::new(Code::LogDamaged, format!("the write-ahead log is damaged at byte {position}"))
        .because(what)
        .help("the server begins with the newest checkpoint instead; test this machine's memory")
}
