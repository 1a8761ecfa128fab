//! The members of an `.npz` file, which is a zip file: just enough of one.

use std::io::{Read, SeekFrom};

use flate2::read::DeflateDecoder;
use phalanx_base::{Code, Error, Result};

use crate::files::{OpenFile, open};

/// One file inside of the zip file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) name: String,
    deflated: bool,
    compressed: u64,
    /// Where its own header begins.
    offset: u64,
}

const END: [u8; 4] = *b"PK\x05\x06";
const END_64: [u8; 4] = *b"PK\x06\x06";
const CENTRAL: [u8; 4] = *b"PK\x01\x02";
const LOCAL: [u8; 4] = *b"PK\x03\x04";
/// The end's record and the longest comment behind it.
const MAX_END: u64 = 22 + 65_535;
/// A directory of more than this is not one of arrays.
const MAX_DIRECTORY: u64 = 16 << 20;

/// Lists the members in the order of the directory.
pub(super) fn members(path: &str) -> Result<Vec<Member>> {
    let mut file = open(path)?;
    let broken = |why: &str| {
        Error::new(Code::DataFormat, format!("{path:?} is not a whole .npz file"))
            .because(why)
            .help("its writer may have been killed, or the copy of it was not finished")
    };
    let size = file.size().map_err(|error| broken(&error.to_string()))?;
    if size == 0 {
        return Err(broken("it is empty"));
    }
    let tail_start = size.saturating_sub(MAX_END);
    let tail = bytes_at(&mut *file, tail_start, size - tail_start).map_err(broken)?;
    let end =
        tail.windows(4).rposition(|window| window == END).ok_or_else(|| broken("it has no directory at its end"))?;
    let end = &tail[end..];
    let (mut length, mut start) = match (u32_at(end, 12), u32_at(end, 16)) {
        (Some(length), Some(start)) => (u64::from(length), u64::from(start)),
        _ => return Err(broken("its directory's end is cut short")),
    };
    if length == u64::from(u32::MAX) || start == u64::from(u32::MAX) {
        let end = tail.windows(4).rposition(|window| window == END_64);
        let end = &tail[end.ok_or_else(|| broken("its 64-bit directory is missing"))?..];
        (length, start) = match (u64_at(end, 40), u64_at(end, 48)) {
            (Some(length), Some(start)) => (length, start),
            _ => return Err(broken("its 64-bit directory is cut short")),
        };
    }
    if length > MAX_DIRECTORY || start.checked_add(length).is_none_or(|end| end > size) {
        return Err(broken("its directory lies outside of it"));
    }
    let directory = bytes_at(&mut *file, start, length).map_err(broken)?;
    entries(&directory).map_err(|why| broken(&why))
}

fn entries(mut directory: &[u8]) -> Result<Vec<Member>, String> {
    let mut members = Vec::new();
    while directory.starts_with(&CENTRAL) {
        let cut = || "its directory is cut short".to_owned();
        let method = u16_at(directory, 10).ok_or_else(cut)?;
        let flags = u16_at(directory, 8).ok_or_else(cut)?;
        let (name, extra, comment) = match (u16_at(directory, 28), u16_at(directory, 30), u16_at(directory, 32)) {
            (Some(name), Some(extra), Some(comment)) => (name as usize, extra as usize, comment as usize),
            _ => return Err(cut()),
        };
        let (Some(compressed), Some(plain), Some(offset)) =
            (u32_at(directory, 20), u32_at(directory, 24), u32_at(directory, 42))
        else {
            return Err(cut());
        };
        let text = directory.get(46..46 + name).ok_or_else(cut)?;
        let extra_bytes = directory.get(46 + name..46 + name + extra).ok_or_else(cut)?;
        let [_, compressed, offset] = large([plain, compressed, offset], extra_bytes).ok_or_else(cut)?;
        let text = String::from_utf8_lossy(text).into_owned();
        if flags & 1 != 0 || !matches!(method, 0 | 8) {
            return Err(format!("{text:?} in it is encrypted, or compressed in an unknown way ({method})"));
        }
        members.push(Member { name: text, deflated: method == 8, compressed, offset });
        directory = directory.get(46 + name + extra + comment..).ok_or_else(cut)?;
    }
    Ok(members)
}

/// Sizes that do not fit into 32 bits are in an extra field, in this order.
fn large(sizes: [u32; 3], mut extra: &[u8]) -> Option<[u64; 3]> {
    let mut found: &[u8] = &[];
    while extra.len() >= 4 {
        let (kind, length) = (u16_at(extra, 0)?, u16_at(extra, 2)? as usize);
        let body = extra.get(4..4 + length)?;
        if kind == 1 {
            found = body;
        }
        extra = &extra[4 + length..];
    }
    let mut at = 0;
    let mut result = [0; 3];
    for (size, result) in sizes.iter().zip(&mut result) {
        *result = u64::from(*size);
        if *size == u32::MAX {
            *result = u64_at(found, at)?;
            at += 8;
        }
    }
    Some(result)
}

impl Member {
    /// The member's bytes, decompressed.
    pub(super) fn open(&self, path: &str) -> Result<Box<dyn Read + Send>> {
        let mut file = open(path)?;
        let broken = |why: &str| {
            Error::new(Code::DataFormat, format!("{:?} in {path:?} cannot be read", self.name)).because(why)
        };
        let head = bytes_at(&mut *file, self.offset, 30).map_err(broken)?;
        let (Some(name), Some(extra)) = (u16_at(&head, 26), u16_at(&head, 28)) else { return Err(broken("no header")) };
        if !head.starts_with(&LOCAL) {
            return Err(broken("its header is not where the directory says"));
        }
        let start = self.offset + 30 + u64::from(name) + u64::from(extra);
        file.seek(SeekFrom::Start(start)).map_err(|error| broken(&error.to_string()))?;
        let stored = std::io::BufReader::with_capacity(256 << 10, file).take(self.compressed);
        Ok(if self.deflated { Box::new(DeflateDecoder::new(stored)) } else { Box::new(stored) })
    }
}

fn bytes_at(file: &mut dyn OpenFile, at: u64, length: u64) -> Result<Vec<u8>, &'static str> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(at)).map_err(|_| "it cannot be read")?;
    file.take(length).read_to_end(&mut bytes).map_err(|_| "it cannot be read")?;
    if (bytes.len() as u64) < length { Err("it ends too early") } else { Ok(bytes) }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).and_then(|bytes| bytes.try_into().ok()).map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes)
}
