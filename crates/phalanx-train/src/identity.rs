//! The build and the incarnation of this process.

use phalanx_base::{Code, Context, Error, Incarnation, Result};
use std::io::Read;
use std::path::PathBuf;

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

/// Returns a fingerprint of the file that this code was loaded from: the running executable, or a library that a program has
/// loaded. All tasks of a job run the same one, because no code crosses the wire.
///
/// A program whose own code is elsewhere, such as a script, adds a fingerprint of that in
/// [`ServerOptions::build`](crate::ServerOptions::build).
///
/// ```
/// let build = phalanx_train::build_fingerprint()?;
/// let options = phalanx_train::ServerOptions { build: Some(format!("{build}, script 5f3a")), ..Default::default() };
/// # let _ = options;
/// # Ok::<(), phalanx_base::Error>(())
/// ```
///
/// # Errors
/// When the file cannot be read.
pub fn build_fingerprint() -> Result<String> {
    let wrong = "the running executable cannot be read";
    let path = match loaded_library() {
        Some(library) => library,
        None => std::env::current_exe().context(Code::Internal, wrong)?,
    };
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

/// Returns the library that this code was loaded from; `None` if it is a part of the executable.
fn loaded_library() -> Option<PathBuf> {
    let code = loaded_library as fn() -> Option<PathBuf> as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let has_code = |line: &&str| {
        let range = line.split_ascii_whitespace().next().and_then(|range| range.split_once('-'));
        let bounds = range.map(|(from, to)| (usize::from_str_radix(from, 16), usize::from_str_radix(to, 16)));
        matches!(bounds, Some((Ok(from), Ok(to))) if (from..to).contains(&code))
    };
    let line = maps.lines().find(has_code)?;
    let path = PathBuf::from(line.get(line.find('/')?..)?);
    (std::env::current_exe().ok().as_ref() != Some(&path)).then_some(path)
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
    fn a_test_is_its_own_executable_and_no_library() {
        assert_eq!(loaded_library(), None);
        assert!(build_fingerprint().unwrap().contains('-'));
    }

    #[test]
    fn without_random_bytes_there_is_no_id() {
        let error = random_from(|_| Err("not allowed here")).unwrap_err();
        assert_eq!(error.code(), Code::Internal);
        assert!(error.to_string().contains("no random bytes") && error.next().is_some(), "{error}");
    }
}
