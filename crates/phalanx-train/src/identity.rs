//! What tells this process from others: its build, and its life.

use phalanx_base::{Code, Context, Incarnation, Result};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::Read;

/// A number that no other life of a task has.
pub(crate) fn new_incarnation() -> Incarnation {
    Incarnation(random() | 1)
}

/// A number that nobody can guess.
pub(crate) fn random() -> u64 {
    // The standard library's hasher keys come from the operating system's randomness.
    RandomState::new().hash_one(std::process::id())
}

/// A fingerprint of the running executable: tasks of one job run the same binary, because no code ever crosses the
/// wire.
pub(crate) fn build() -> Result<String> {
    let wrong = "the running executable cannot be read";
    let path = std::env::current_exe().context(Code::Internal, wrong)?;
    let mut file = std::fs::File::open(path).context(Code::Internal, wrong)?;
    let mut buffer = vec![0; 1 << 20];
    let (mut length, mut sum) = (0_u64, 0);
    loop {
        let n = file.read(&mut buffer).context(Code::Internal, wrong)?;
        if n == 0 {
            return Ok(format!("{length:x}-{sum:08x}"));
        }
        length += n as u64;
        sum = crc32c::crc32c_append(sum, &buffer[..n]);
    }
}

/// A job id as a number, for the hot path (FNV-1a).
pub(crate) fn digest(job: &str) -> u64 {
    job.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
