//! One suite for every kind of store, and what is special about each.

mod globbing;
mod local;
#[cfg(any(feature = "s3", feature = "gs", feature = "az"))]
mod object;
mod publishing;
mod reading;
mod streams;

use crate::Dir;

/// Runs a test on every kind of store: each time with an empty directory, two levels below the store's root.
fn on_every_store(test: impl Fn(&Dir)) {
    let scratch = scratch();
    test(&Dir::local(scratch.path()).child("runs/one").expect("a good name"));
    test(&Dir::in_memory().child("runs/one").expect("a good name"));
    #[cfg(any(feature = "s3", feature = "gs", feature = "az"))]
    test(&object::in_memory().child("runs/one").expect("a good name"));
    if let Some(dir) = real_store() {
        test(&dir);
    }
}

/// A new directory at the location that `PHALANX_TEST_STORE` names, if it does: the way to run the suite on a real
/// object store.
fn real_store() -> Option<Dir> {
    let location = std::env::var("PHALANX_TEST_STORE").ok()?;
    let nonce = crate::name::staged_beside("").expect("a name");
    let below = format!("{}/runs/one", nonce.trim_start_matches('.'));
    Some(Dir::open(&location).and_then(|dir| dir.child(&below)).expect("PHALANX_TEST_STORE names a store"))
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("a scratch directory")
}

fn names(dir: &Dir, prefix: &str) -> Vec<String> {
    dir.list(prefix).expect("a listing").into_iter().map(|entry| entry.name).collect()
}
