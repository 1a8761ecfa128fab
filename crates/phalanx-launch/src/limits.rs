//! The limit of open files.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Enough for any job. The hard limit may be a million, which would slow down programs that close every descriptor up to the limit.
const WANTED: u64 = 65_536;

/// Raises the soft limit of open files towards the hard one. A launcher needs three descriptors per task, and tasks inherit the limit.
pub(crate) fn raise_open_files() {
    let now = getrlimit(Resource::Nofile);
    let wanted = now.maximum.map_or(WANTED, |hard| hard.min(WANTED));
    if now.current.is_some_and(|soft| soft < wanted) {
        // A start that fails for lack of descriptors is retried.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: now.maximum });
    }
}
