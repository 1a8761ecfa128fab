//! The bytes of a record, and of a segment's head. Words are little-endian, as every machine that Phalanx runs on has them.
//!
//! ```text
//! segment  magic | log id | sequence | end of the segment before | checksum | 0 0 0 | record | record | ... | 0
//! record   position | length, kind | checksum of these | commit | body | up to 7 bytes of nothing
//! ```
//!
//! A position counts the bytes of the log since its first segment, heads included, so it is never that of an earlier use of
//! the same memory. The commit word is 0 until the body is complete, and then has the body's checksum. After the last record
//! there is a word 0.

use crate::segment::{Segment, WORD};

/// The size of a segment's head.
pub const SEGMENT_HEAD: usize = 64;
/// The size of a record's head.
pub const HEAD: usize = 32;

const MAGIC: u64 = u64::from_le_bytes(*b"PHXWAL1\n");
const COMMITTED: u32 = 0x5e41_ed07;

/// The head of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The record's position in the log.
    pub position: u64,
    /// The length of its body.
    pub len: u32,
    /// What it is: a number that the user of the log chooses.
    pub kind: u32,
}

/// The head of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHead {
    /// The log that it belongs to.
    pub log: u64,
    /// Its number in the log, from 0.
    pub sequence: u64,
    /// Where the last record of the segment before ends.
    pub before: u64,
}

/// What is found where a record may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Nothing was written after this.
    End,
    /// A record without its end: nobody has acknowledged it.
    Torn(Head),
    /// A complete record.
    Complete(Head),
    /// Something else.
    Damaged(&'static str),
}

/// Returns the bytes that a record with a body of `len` bytes takes.
#[must_use]
pub fn record_size(len: usize) -> usize {
    HEAD + len.next_multiple_of(WORD)
}

impl Head {
    fn checksum(self) -> u64 {
        let crc = crc32c::crc32c(&self.position.to_le_bytes());
        let crc = crc32c::crc32c_append(crc, &self.len.to_le_bytes());
        u64::from(crc32c::crc32c_append(crc, &self.kind.to_le_bytes())) | 1 << 32
    }

    /// Writes the head of a record that is not complete. The end of the log moves behind it first, so that nothing that is left
    /// there of an earlier use is taken for a record.
    pub(crate) fn reserve(self, segment: &Segment, at: usize) {
        segment.set_word(at + record_size(self.len as usize), 0);
        segment.set_word(at + 3 * WORD, 0);
        segment.set_word(at + 2 * WORD, self.checksum());
        segment.set_word(at + WORD, u64::from(self.len) | u64::from(self.kind) << 32);
        segment.set_word(at, self.position);
    }

    /// Marks a record complete, whose body has this checksum.
    pub(crate) fn commit(self, segment: &Segment, at: usize, crc: u32) {
        segment.set_word(at + 3 * WORD, self.commit_word(crc));
    }

    fn commit_word(self, crc: u32) -> u64 {
        u64::from(crc) << 32 | u64::from(COMMITTED ^ self.position as u32)
    }

    /// Reads what lies at `at`, where the record of this position would be.
    pub(crate) fn read(segment: &Segment, at: usize, position: u64) -> Place {
        if at + WORD > segment.size() || segment.word(at) == 0 {
            return Place::End;
        }
        if at + HEAD > segment.size() || segment.word(at) != position {
            return Place::Damaged("its position is wrong");
        }
        let word = segment.word(at + WORD);
        let head = Self { position, len: word as u32, kind: (word >> 32) as u32 };
        if segment.word(at + 2 * WORD) != head.checksum() {
            return Place::Damaged("the checksum of its head is wrong");
        }
        let len = head.len as usize;
        if at + record_size(len) + WORD > segment.size() {
            return Place::Damaged("it is longer than its segment");
        }
        match segment.word(at + 3 * WORD) {
            0 => Place::Torn(head),
            commit if commit == head.commit_word(crc32c::crc32c(segment.bytes(at + HEAD, len))) => {
                Place::Complete(head)
            }
            _ => Place::Damaged("the checksum of its body is wrong"),
        }
    }
}

impl SegmentHead {
    fn checksum(self) -> u64 {
        let words = [MAGIC, self.log, self.sequence, self.before];
        words.iter().fold(0, |crc, word| crc32c::crc32c_append(crc, &word.to_le_bytes())).into()
    }

    /// Writes the head of an empty segment, whose memory may have been used before.
    pub(crate) fn write(self, segment: &Segment) {
        segment.set_word(0, 0);
        segment.set_word(SEGMENT_HEAD, 0);
        segment.set_word(WORD, self.log);
        segment.set_word(2 * WORD, self.sequence);
        segment.set_word(3 * WORD, self.before);
        segment.set_word(4 * WORD, self.checksum());
        segment.set_word(0, MAGIC);
    }

    /// Reads the head of a segment; `None` if the segment is not in use.
    ///
    /// # Errors
    /// A description of what is wrong with it.
    pub fn read(segment: &Segment) -> Result<Option<Self>, &'static str> {
        if segment.size() < SEGMENT_HEAD + WORD {
            return Err("it is too short");
        }
        match segment.word(0) {
            0 => return Ok(None),
            MAGIC => {}
            _ => return Err("it is not a segment of this version of Phalanx"),
        }
        let word = |number: usize| segment.word(number * WORD);
        let head = Self { log: word(1), sequence: word(2), before: word(3) };
        if word(4) == head.checksum() { Ok(Some(head)) } else { Err("the checksum of its head is wrong") }
    }
}
