//! What an error of the operating system means to the one who reads it.

use phalanx_base::{Code, Error};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The error of ours inside an `io::Error` that a writer or reader of this crate gave through `std::io::Write` or
/// `std::io::Read`, with its place and help.
///
/// ```
/// let error = std::io::Error::other("not ours");
/// assert!(phalanx_storage::cause(&error).is_none());
/// ```
#[must_use]
pub fn cause(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

/// Our error as `std::io` carries it.
pub(crate) fn as_io(error: Error, kind: ErrorKind) -> io::Error {
    io::Error::new(kind, error)
}

/// What could not be done, where, why, and what to do: `doing` completes "cannot …".
pub(crate) fn fault(code: Code, doing: &str, place: &str, error: &io::Error) -> Error {
    if let Some(ours) = cause(error) {
        return ours.clone();
    }
    let ours = Error::new(code, format!("cannot {doing}")).at(place).because(error);
    match help(place, error) {
        Some(help) => ours.help(help),
        None => ours,
    }
}

/// [`fault`] for what reads.
pub(crate) fn read(doing: &str, place: &str, error: &io::Error) -> Error {
    fault(Code::StorageRead, doing, place, error)
}

/// [`fault`] for what writes.
pub(crate) fn write(doing: &str, place: &str, error: &io::Error) -> Error {
    fault(Code::StorageWrite, doing, place, error)
}

fn help(place: &str, error: &io::Error) -> Option<String> {
    const TOO_MANY_OPEN_FILES: i32 = 24;
    let text = match error.kind() {
        ErrorKind::StorageFull => return Some(full(Path::new(place))),
        ErrorKind::QuotaExceeded => "the user's quota is used up: remove old checkpoints, or keep fewer of them",
        ErrorKind::PermissionDenied => "give this user the right to the directory, or choose another model_dir",
        ErrorKind::ReadOnlyFilesystem => "the file system is mounted read-only: choose another model_dir",
        ErrorKind::NotADirectory => "a part of the path is a file and not a directory: correct model_dir",
        ErrorKind::IsADirectory => "a directory has the name that the file should have: move it away",
        ErrorKind::NotFound => "check the path, and that its file system is mounted on this machine",
        ErrorKind::InvalidFilename => {
            "the name is too long, or the file system does not allow it: choose a shorter path"
        }
        ErrorKind::StaleNetworkFileHandle => "the network file system lost the file: check the mount, then try again",
        _ if error.raw_os_error() == Some(TOO_MANY_OPEN_FILES) => "raise the limit of open files (ulimit -n)",
        _ => return None,
    };
    Some(text.to_owned())
}

/// Says which file system is full, and how much room is left on it for this user.
fn full(path: &Path) -> String {
    let advice = "remove old checkpoints, keep fewer of them, or choose another model_dir";
    let Some(mount) = mount_of(path) else { return advice.to_owned() };
    match rustix::fs::statvfs(&mount) {
        Ok(stat) => {
            let room = stat.f_bavail.saturating_mul(stat.f_frsize);
            format!("the file system at {} has {} bytes left: {advice}", mount.display(), room)
        }
        Err(_) => format!("the file system at {} is full: {advice}", mount.display()),
    }
}

/// The highest directory above `path` that is on the same device: where its file system is mounted.
fn mount_of(path: &Path) -> Option<PathBuf> {
    let there =
        path.ancestors().filter(|above| !above.as_os_str().is_empty()).find_map(|above| above.canonicalize().ok());
    let mut mount = there.or_else(|| std::env::current_dir().ok())?;
    let device = mount.metadata().ok()?.dev();
    while let Some(above) = mount.parent() {
        if above.metadata().ok()?.dev() != device {
            break;
        }
        mount = above.to_owned();
    }
    Some(mount)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_names_the_file_system_and_its_room() {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let place = scratch.path().join("not/yet/there").display().to_string();
        let error = write("write the file", &place, &io::Error::from_raw_os_error(28));
        assert_eq!(error.code(), Code::StorageWrite);
        assert_eq!(error.place(), Some(place.as_str()));
        assert!(error.why().is_some_and(|why| why.contains("No space left on device")), "{error}");
        let help = error.next().expect("help");
        assert!(help.starts_with("the file system at /") && help.contains(" bytes left: remove old"), "{help}");
    }

    #[test]
    fn every_common_reason_comes_with_help() {
        for (number, word) in
            [(13, "right"), (20, "file and not"), (30, "read-only"), (122, "quota"), (24, "ulimit"), (36, "too long")]
        {
            let error = read("read the file", "/somewhere", &io::Error::from_raw_os_error(number));
            assert_eq!(error.code(), Code::StorageRead);
            assert!(error.next().is_some_and(|help| help.contains(word)), "{number}: {error:?}");
        }
    }

    #[test]
    fn our_error_survives_the_way_through_std_io() {
        let ours = Error::new(Code::StorageWrite, "cannot write").at("here").help("do this");
        let io = as_io(ours, ErrorKind::StorageFull);
        assert_eq!(write("do something else", "elsewhere", &io).next(), Some("do this"));
        assert_eq!(cause(&io).and_then(Error::place), Some("here"));
    }
}
