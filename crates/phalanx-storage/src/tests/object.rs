use crate::Dir;
use crate::object::Objects;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use object_store::throttle::{ThrottleConfig, ThrottledStore};
use phalanx_base::Code;
use std::sync::Arc;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// The object store client's own store in memory: everything of ours runs but the network.
pub(super) fn in_memory() -> Dir {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    Dir::new(Objects::new(store.clone(), store, "s3://bucket".to_owned(), PATIENCE).expect("a store"))
}

#[test]
fn a_silent_store_is_given_up() {
    let wait = Duration::from_secs(60);
    let slow = ThrottleConfig { wait_get_per_call: wait, wait_put_per_call: wait, ..ThrottleConfig::default() };
    let store: Arc<dyn ObjectStore> = Arc::new(ThrottledStore::new(InMemory::new(), slow));
    let patience = Duration::from_millis(50);
    let dir = Dir::new(Objects::new(store.clone(), store, "s3://bucket".to_owned(), patience).expect("a store"));
    let errors = [
        (Code::StorageRead, dir.read("a", 1).map(drop).expect_err("no answer")),
        (Code::StorageWrite, dir.write("a", b"1").expect_err("no answer")),
    ];
    for (code, error) in errors {
        assert_eq!((error.code(), error.place()), (code, Some("s3://bucket/a")));
        assert!(error.to_string().contains("did not answer within"), "{error}");
    }
}

#[test]
fn a_file_that_is_replaced_is_not_mixed_with_the_new_one() {
    let dir = in_memory();
    dir.write("a", b"first").expect("written");
    let file = dir.open_read("a").expect("opened");
    dir.write("a", b"other").expect("written");
    let error = file.read_range(0, 5).expect_err("replaced");
    assert!(error.next().is_some_and(|help| help.contains("open it again")), "{error:?}");
    dir.remove("a").expect("removed");
    let error = file.read_range(0, 5).expect_err("removed");
    assert_eq!(error.place(), Some("s3://bucket/a"), "{error}");
}

#[test]
fn may_be_called_and_dropped_on_a_thread_of_another_runtime() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a runtime");
    let task = runtime.spawn(async {
        let dir = in_memory();
        dir.write("a", b"1")?;
        dir.read("a", 1)
    });
    assert_eq!(runtime.block_on(task).expect("no panic").expect("read"), b"1");
}

#[test]
fn control_characters_are_refused() {
    let error = in_memory().write("a\nb", b"").expect_err("not for objects");
    assert_eq!(error.code(), Code::StorageLocation, "{error}");
}

#[cfg(feature = "s3")]
#[test]
fn a_location_opens_without_asking_the_store() {
    let dir = Dir::open("s3://bucket/runs/census/").expect("a client");
    assert_eq!(dir.location(), "s3://bucket/runs/census");
    assert_eq!((dir.can_append(), dir.local_path("a")), (false, None));
    dir.create_all().expect("nothing to do");
}
