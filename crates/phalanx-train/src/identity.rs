//! The build and the incarnation of this process.

use phalanx_base::{Code, Context, Error, Incarnation, Result};
use std::io::Read;

/// Returns an incarnation that no other process has.
///
/// # Errors
/// As [`random`].
pub(crate) fn new_incarnation() -> Result<Incarnation> {
    Ok(Incarnation(random()? | 1))
}

/// Returns a random number from the operating system.
///
/// # Errors
/// When the operating system gives no random bytes: an id that is not random may be another task's.
pub(crate) fn random() -> Result<u64> {
    random_from(getrandom::fill)
}

fn random_from<E: std::fmt::Display>(fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<u64> {
    let mut bytes = [0; 8];
    fill(&mut bytes).map_err(|error| {
        Error::new(Code::Internal, "the operating system gives no random bytes for an id")
            .because(error)
            .help("see whether this machine or container allows the system call getrandom")
    })?;
    Ok(u64::from_le_bytes(bytes))
}

/// Returns a fingerprint of the running executable. All tasks of a job run the same one, because no code crosses the wire.
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

/// Returns the FNV-1a digest of a job id, for the hot path.
pub(crate) fn digest(job: &str) -> u64 {
    phalanx_base::fnv1a(job.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_and_an_incarnation_is_never_0() {
        let ids: Vec<u64> = (0..100).map(|_| random().unwrap()).collect();
        let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len());
        assert!((0..100).all(|_| new_incarnation().unwrap().0 != 0));
    }

    #[test]
    fn without_random_bytes_there_is_no_id() {
        let error = random_from(|_| Err("not allowed here")).unwrap_err();
        assert_eq!(error.code(), Code::Internal);
        assert!(error.to_string().contains("no random bytes") && error.next().is_some(), "{error}");
    }
}
