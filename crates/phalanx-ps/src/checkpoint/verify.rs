//! Verifying a server's part of a checkpoint.

use super::Files;
use super::reader::damaged;
use phalanx_base::{Code, Error, Result};
use phalanx_formats::bundle::{BundleIndex, BundleReader, Span, TensorLocation};
use phalanx_formats::checksum::mask;
use phalanx_storage::Dir;

/// The most bytes in memory at a time.
const BLOCK: u64 = 4 << 20;

/// Checks the size and every checksum of one part with the data file `file`. Slices that other servers have are not
/// required.
///
/// # Errors
/// When the file does not match the index.
pub fn verify_part(dir: &Dir, file: &str, index: &BundleIndex) -> Result<()> {
    let files = Files::open(dir, [file.to_owned()])?;
    let verified = BundleReader::new(index.clone(), files.clone()).and_then(|reader| {
        for (name, info) in index.tensors() {
            match &info.location {
                TensorLocation::Whole(_) => drop(reader.verify_tensor(name)?),
                TensorLocation::Sliced(parts) => parts.iter().try_for_each(|(_, span)| check(&files, span))?,
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
