//! Opens run directories.

use phalanx_base::Result;
use phalanx_storage::Dir;

/// Opens a run directory. A relative path becomes absolute, so that it does not depend on the working directory later.
///
/// # Errors
/// Fails if the location is malformed, or this build cannot reach it.
pub fn open_run_dir(location: &str) -> Result<Dir> {
    if location.contains("://") {
        return Dir::open(location);
    }
    let absolute = std::path::absolute(location).unwrap_or_else(|_| location.into());
    Dir::open(&absolute.to_string_lossy())
}
