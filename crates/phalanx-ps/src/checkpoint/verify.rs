//! Reads a server's part back.

use super::Files;
use super::reader::damaged;
use phalanx_base::{Code, Error, Result};
use phalanx_formats::bundle::{BundleIndex, BundleReader, Place, Span};
use phalanx_formats::checksum::mask;
use phalanx_storage::Dir;

/// So much is in memory at a time.
const BLOCK: u64 = 4 << 20;

/// Checks the size and every checksum of one part, whose data file has the name `file`. Slices of the part's variables
/// that other servers have are not missed.
///
/// # Errors
/// When something is not as the index says.
pub fn verify_part(dir: &Dir, file: &str, index: &BundleIndex) -> Result<()> {
    let files = Files::open(dir, [file.to_owned()])?;
    let verified = BundleReader::new(index.clone(), files.clone()).and_then(|reader| {
        for (name, info) in index.tensors() {
            match &info.place {
                Place::Whole(_) => drop(reader.verify_tensor(name)?),
                Place::Sliced(parts) => parts.iter().try_for_each(|(_, span)| check(&files, span))?,
            }
        }
        Ok(())
    });
    verified.map_err(|error| damaged(file, error))
}

fn check(files: &Files, span: &Span) -> Result<()> {
    let mut block = vec![0; span.size.min(BLOCK) as usize];
    let (mut done, mut crc) = (0, 0);
    while done < span.size {
        let n = (span.size - done).min(BLOCK) as usize;
        files.read(span.shard, span.offset + done, &mut block[..n])?;
        crc = crc32c::crc32c_append(crc, &block[..n]);
        done += n as u64;
    }
    if mask(crc) == span.crc {
        return Ok(());
    }
    let place = format!("{} bytes at {}", span.size, span.offset);
    Err(Error::new(Code::CheckpointDamaged, "what was written is not what was read back").at(place))
}
