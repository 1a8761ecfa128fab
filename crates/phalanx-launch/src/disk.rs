//! Room on a disk.

use std::path::Path;

/// Bytes that this user can still write where `dir` is.
#[must_use]
pub fn free_bytes(dir: &Path) -> Option<u64> {
    let about = rustix::fs::statvfs(dir).ok()?;
    Some(about.f_bavail.saturating_mul(about.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_room_and_a_missing_one_none() {
        assert!(free_bytes(Path::new("/")).is_some());
        assert_eq!(free_bytes(Path::new("/no/such/directory")), None);
    }
}
