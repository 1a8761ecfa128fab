//! Free disk space.

use std::path::Path;

/// Returns the bytes that this user can write on the disk of `dir`; `None` if it does not exist.
#[must_use]
pub fn free_bytes(dir: &Path) -> Option<u64> {
    let about = rustix::fs::statvfs(dir).ok()?;
    Some(about.f_bavail.saturating_mul(about.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_existing_directory_has_free_space() {
        assert!(free_bytes(Path::new("/")).is_some());
        assert_eq!(free_bytes(Path::new("/no/such/directory")), None);
    }
}
