//! A half of a shared-memory slot is never touched by two holders at once, nor by one after it has let go.

#![cfg(loom)]

use phalanx_loom::cell::UnsafeCell;
use phalanx_loom::{explore, thread};
use std::cell::Cell;
use sync::Arc;

/// What the file under test takes its types from: loom's, whose releasing stores can be weakened to plant a bug.
mod sync {
    pub(crate) use phalanx_loom::sync::Arc;

    pub(crate) mod atomic {
        use phalanx_loom::sync::atomic;
        pub(crate) use phalanx_loom::sync::atomic::Ordering;

        #[derive(Debug)]
        pub(crate) struct AtomicBool(atomic::AtomicBool);

        impl AtomicBool {
            pub(crate) fn new(value: bool) -> Self {
                Self(atomic::AtomicBool::new(value))
            }

            pub(crate) fn load(&self, order: Ordering) -> bool {
                self.0.load(order)
            }

            pub(crate) fn store(&self, value: bool, order: Ordering) {
                self.0.store(value, if crate::WEAK.get() { Ordering::Relaxed } else { order });
            }

            pub(crate) fn compare_exchange(
                &self,
                current: bool,
                new: bool,
                success: Ordering,
                failure: Ordering,
            ) -> Result<bool, bool> {
                self.0.compare_exchange(current, new, success, failure)
            }
        }
    }
}

#[allow(dead_code, reason = "the models do not call everything")]
#[path = "../../../crates/phalanx-wire/src/neighbour/slot.rs"]
mod slot;

use slot::{Half, Loan};

std::thread_local! {
    /// Whether stores publish nothing. All threads of a model run on the thread of their test.
    static WEAK: Cell<bool> = const { Cell::new(false) };
}

/// A half and the memory it guards.
struct Memory {
    half: Arc<Half>,
    bytes: Arc<UnsafeCell<u32>>,
}

impl Memory {
    fn new() -> Self {
        Self { half: Half::new(), bytes: Arc::new(UnsafeCell::new(0)) }
    }

    fn lend(&self) -> Option<Lent> {
        Half::lend(&self.half).map(|loan| Lent { bytes: Arc::clone(&self.bytes), _loan: loan })
    }

    /// What the peer does once a message has left the half to it.
    fn peer_writes(&self, value: u32) {
        // SAFETY: loom's cells check every access; a race is a panic and not undefined behaviour.
        #[allow(unsafe_code)]
        self.bytes.with_mut(|bytes| unsafe { *bytes = value });
    }
}

/// A loan with its memory, as `room.rs` pairs them.
struct Lent {
    bytes: Arc<UnsafeCell<u32>>,
    _loan: Loan,
}

impl Lent {
    fn read(&self) -> u32 {
        // SAFETY: as above.
        #[allow(unsafe_code)]
        self.bytes.with(|bytes| unsafe { *bytes })
    }

    fn write(&mut self, value: u32) {
        // SAFETY: as above.
        #[allow(unsafe_code)]
        self.bytes.with_mut(|bytes| unsafe { *bytes = value });
    }
}

/// A client keeps an answer on another thread; its connection uses the slot again as soon as it sees it free.
fn an_answer_is_kept() {
    let memory = Memory::new();
    memory.peer_writes(1);
    let answer = memory.lend().unwrap();
    let reader = thread::spawn(move || {
        assert_eq!(answer.read(), 1);
        drop(answer);
    });
    if memory.half.is_free() {
        memory.peer_writes(2);
        assert_eq!(memory.lend().unwrap().read(), 2);
    }
    reader.join().unwrap();
    assert!(memory.half.is_free());
}

/// A handler writes its reply on another thread and gives the buffer up, while the connection wants to write another one.
fn a_reply_is_written_elsewhere() {
    let memory = Memory::new();
    let mut reply = memory.lend().unwrap();
    assert!(memory.lend().is_none());
    let handler = thread::spawn(move || {
        reply.write(1);
        drop(reply);
    });
    if let Some(mut other) = memory.lend() {
        assert_eq!(other.read(), 1);
        other.write(2);
    }
    handler.join().unwrap();
}

fn weakly(model: fn()) {
    WEAK.set(true);
    explore(model);
}

#[test]
fn a_slot_is_used_again_only_after_the_last_look_at_its_answer() {
    explore(an_answer_is_kept);
}

#[test]
fn two_replies_are_never_written_at_once() {
    explore(a_reply_is_written_elsewhere);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_release_the_peer_writes_under_the_reader() {
    weakly(an_answer_is_kept);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_release_two_replies_race() {
    weakly(a_reply_is_written_elsewhere);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_look_after_the_loan_is_found() {
    explore(|| {
        let memory = Memory::new();
        let Lent { bytes, _loan } = memory.lend().unwrap();
        let reader = thread::spawn(move || {
            drop(_loan);
            // SAFETY: as above.
            #[allow(unsafe_code)]
            bytes.with(|bytes| unsafe { *bytes });
        });
        if memory.half.is_free() {
            memory.peer_writes(2);
        }
        reader.join().unwrap();
    });
}
