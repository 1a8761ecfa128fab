//! How many files this process may open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Enough for every job under one launcher; the hard limit of some machines is a million, and programs that close every
/// descriptor up to the limit would take long.
const WANTED: u64 = 65_536;

/// Raises the soft limit of open files towards the hard one. A launcher needs three descriptors for every task. Tasks inherit
/// the limit.
pub(crate) fn raise_open_files() {
    let now = getrlimit(Resource::Nofile);
    let wanted = now.maximum.map_or(WANTED, |hard| hard.min(WANTED));
    if now.current.is_some_and(|soft| soft < wanted) {
        // Without it there is less room; a start that fails for lack of it is tried again.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: now.maximum });
    }
}
