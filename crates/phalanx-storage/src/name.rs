//! Names of files inside a run directory.

use phalanx_base::{Code, Error, Result};

const STAGED_HEAD: &str = ".phalanx.";
const STAGED_TAIL: &str = ".tmp";
const NONCE_DIGITS: usize = 16;

/// Checks that `name` stays inside its directory: relative, `/` between the parts, no part empty, `.` or `..`.
pub(crate) fn check(name: &str) -> Result<()> {
    let why = if name.is_empty() {
        "it is empty"
    } else if name.starts_with('/') {
        "it is absolute"
    } else if name.contains('\0') {
        "it has a zero byte"
    } else if name.split('/').any(|part| part == "..") {
        "it leads out of its directory"
    } else if name.split('/').any(|part| part.is_empty() || part == ".") {
        "one of its parts is empty or a dot"
    } else {
        return Ok(());
    };
    let error = Error::new(Code::StorageLocation, format!("{name:?} cannot name a file of a run directory"));
    Err(error.because(why).help("give a name relative to the directory, such as \"eval/checkpoint\""))
}

/// `name` below `prefix`, which may be empty.
pub(crate) fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}/{name}") }
}

/// The last part of a name, and what is before it.
pub(crate) fn split(name: &str) -> (&str, &str) {
    name.rsplit_once('/').unwrap_or(("", name))
}

/// A new temporary name beside `name`.
///
/// The final name is left out on purpose: TensorBoard takes every file for an event file whose name has `tfevents`
/// anywhere in it.
///
/// # Errors
/// When the operating system gives no random bytes.
pub(crate) fn staged_beside(name: &str) -> Result<String> {
    let nonce = getrandom::u64().map_err(|error| {
        Error::new(Code::Internal, "the operating system gives no random bytes for a temporary name")
            .because(error)
            .help("see whether this machine or container allows the system call getrandom")
    })?;
    Ok(join(split(name).0, &format!("{STAGED_HEAD}{nonce:0NONCE_DIGITS$x}{STAGED_TAIL}")))
}

/// Whether `name` is one that [`staged_beside`] gives.
pub(crate) fn is_staged(name: &str) -> bool {
    let nonce = split(name).1.strip_prefix(STAGED_HEAD).and_then(|rest| rest.strip_suffix(STAGED_TAIL));
    nonce.is_some_and(|nonce| nonce.len() == NONCE_DIGITS && nonce.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_are_refused() {
        for name in ["", "/", "/etc/passwd", "..", "a/../b", "../a", "a//b", "a/", "./a", "a/.", "a\0b"] {
            let error = check(name).expect_err(name);
            assert_eq!(error.code(), Code::StorageLocation, "{name:?}");
            assert!(error.next().is_some());
        }
        for name in ["a", ".a", "...", "a..b", "eval/events.out", "100%", "ü#?*"] {
            check(name).expect(name);
        }
    }

    #[test]
    fn staged_names_are_ours_alone() {
        let staged = staged_beside("a/events.out.tfevents.1.h.v2").unwrap();
        assert!(is_staged(&staged) && staged.starts_with("a/.phalanx."), "{staged}");
        assert!(!staged.contains("tfevents"));
        assert_ne!(staged, staged_beside("a/events.out.tfevents.1.h.v2").unwrap());
        for other in [".phalanx.tmp", ".phalanx.0123.tmp", "a.tmp", ".phalanx.0123456789abcdeg.tmp", "x/.a.tmp"] {
            assert!(!is_staged(other), "{other}");
        }
    }
}
