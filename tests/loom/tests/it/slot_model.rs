//! A half of a shared-memory slot is never touched by two holders at once, nor by one after it has let go.

use crate::slot::{Half, Loan};
use phalanx_loom::cell::UnsafeCell;
use phalanx_loom::sync::{Arc, Fault};
use phalanx_loom::{explore, explore_with, thread};

/// A half and the memory it guards.
struct Memory {
    half: Arc<Half>,
    bytes: Arc<UnsafeCell<u32>>,
}

impl Memory {
    fn new() -> Self {
        Self { half: Half::new(), bytes: Arc::new(UnsafeCell::new(0)) }
    }

    fn lend(&self) -> Option<Borrowed> {
        Half::lend(&self.half).map(|loan| Borrowed { bytes: Arc::clone(&self.bytes), _loan: loan })
    }

    /// What the peer does once a message has left the half to it.
    fn peer_writes(&self, value: u32) {
        // SAFETY: loom's cells check every access; a race is a panic and not undefined behaviour.
        #[allow(unsafe_code)]
        self.bytes.with_mut(|bytes| unsafe { *bytes = value });
    }
}

/// A loan with its memory, as the shared-memory transport pairs them.
struct Borrowed {
    bytes: Arc<UnsafeCell<u32>>,
    _loan: Loan,
}

impl Borrowed {
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
    explore_with(Fault::RelaxedStores, an_answer_is_kept);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_release_two_replies_race() {
    explore_with(Fault::RelaxedStores, a_reply_is_written_elsewhere);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_look_after_the_loan_is_found() {
    explore(|| {
        let memory = Memory::new();
        let Borrowed { bytes, _loan } = memory.lend().unwrap();
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
