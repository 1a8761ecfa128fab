//! The checker itself: it finds a race that two threads have, and none where there is none.

use phalanx_loom::cell::UnsafeCell;
use phalanx_loom::sync::Arc;
use phalanx_loom::sync::atomic::{AtomicBool, Ordering};
use phalanx_loom::{explore, thread};

/// One thread writes a number and publishes it with `publish`; another reads the number once it sees the flag.
fn publish_and_read(publish: Ordering) {
    explore(move || {
        let shared = Arc::new((UnsafeCell::new(0), AtomicBool::new(false)));
        let writer = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                shared.0.with_mut(|number| {
                    // SAFETY: loom's cells check every access; a race is a panic and not undefined behaviour.
                    #[allow(unsafe_code)]
                    unsafe {
                        *number = 1;
                    }
                });
                shared.1.store(true, publish);
            }
        });
        if shared.1.load(Ordering::Acquire) {
            // SAFETY: as above.
            #[allow(unsafe_code)]
            let number = shared.0.with(|number| unsafe { *number });
            assert_eq!(number, 1);
        }
        writer.join().unwrap();
    });
}

#[test]
fn a_release_store_publishes_what_was_written_before() {
    publish_and_read(Ordering::Release);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_relaxed_store_publishes_nothing() {
    publish_and_read(Ordering::Relaxed);
}
