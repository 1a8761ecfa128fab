//! The collective's ring: one producer, one consumer, no lock.

#![allow(unsafe_code)]

use crate::ring::{Consumer, Producer, RingMemory, Word};
use phalanx_loom::cell::UnsafeCell;
use phalanx_loom::sync::atomic::AtomicU64;
use phalanx_loom::sync::{Arc, Condvar, Fault, Mutex};
use phalanx_loom::{explore, explore_with, thread};

/// A ring of two bytes, each in a cell whose accesses loom checks.
#[derive(Default)]
struct Small {
    words: [AtomicU64; 4],
    bytes: [UnsafeCell<u8>; 2],
}

/// An end's handle to it.
struct Handle(Arc<Small>);

// SAFETY: each position is a cell of its own.
unsafe impl RingMemory for Handle {
    const CAPACITY: usize = 2;

    fn word(&self, word: Word) -> &AtomicU64 {
        &self.0.words[word as usize]
    }

    unsafe fn write(&self, at: usize, bytes: &[u8]) {
        for (cell, &byte) in self.0.bytes[at..][..bytes.len()].iter().zip(bytes) {
            // SAFETY: loom checks that nobody else accesses it.
            cell.with_mut(|cell| unsafe { *cell = byte });
        }
    }

    unsafe fn read(&self, at: usize, into: &mut [u8]) {
        for (cell, byte) in self.0.bytes[at..][..into.len()].iter().zip(into) {
            // SAFETY: loom checks that nobody writes it.
            *byte = cell.with(|cell| unsafe { *cell });
        }
    }
}

fn ring() -> (Producer<Handle>, Consumer<Handle>) {
    let memory = Arc::<Small>::default();
    // SAFETY: the only ends of this memory.
    unsafe { (Producer::new(Handle(Arc::clone(&memory))), Consumer::new(Handle(memory))) }
}

const MESSAGE: [u8; 4] = [11, 12, 13, 14];

/// More bytes than the ring holds go through it, and come out in order. Each end tries a few times and does not wait.
fn bytes_go_through() {
    let (mut producer, mut consumer) = ring();
    let writer = thread::spawn(move || {
        let mut sent = 0;
        for _ in 0..3 {
            sent += producer.put(&MESSAGE[sent..]).unwrap();
        }
        sent
    });
    let (mut got, mut buffer) = (Vec::new(), [0; 4]);
    for _ in 0..2 {
        let count = consumer.take(&mut buffer).unwrap();
        got.extend_from_slice(&buffer[..count]);
    }
    let sent = writer.join().unwrap();
    let count = consumer.take(&mut buffer).unwrap();
    got.extend_from_slice(&buffer[..count]);
    assert_eq!(got, MESSAGE[..sent]);
}

/// A waker, as the socket beside the ring is: a call that is not lost while nobody waits.
#[derive(Default)]
struct Waker {
    called: Mutex<bool>,
    changed: Condvar,
}

impl Waker {
    fn wake(&self) {
        *self.called.lock().unwrap() = true;
        self.changed.notify_one();
    }

    fn wait(&self) {
        let mut called = self.called.lock().unwrap();
        while !*called {
            called = self.changed.wait(called).unwrap();
        }
        *called = false;
    }
}

/// The consumer sleeps when it finds nothing, as `Link` does: a lost wake-up is a deadlock, which loom reports.
fn a_sleeping_consumer_is_woken() {
    let (mut producer, mut consumer) = ring();
    let waker = Arc::<Waker>::default();
    let writer = thread::spawn({
        let waker = Arc::clone(&waker);
        move || {
            assert_eq!(producer.put(&MESSAGE[..1]).unwrap(), 1);
            if producer.must_wake() {
                waker.wake();
            }
        }
    });
    if !consumer.is_ready() {
        consumer.set_waits(true);
        if !consumer.is_ready() {
            waker.wait();
        }
        consumer.set_waits(false);
    }
    let mut byte = [0];
    assert_eq!((consumer.take(&mut byte).unwrap(), byte[0]), (1, MESSAGE[0]));
    writer.join().unwrap();
}

/// The same for a producer that found the ring full.
fn a_sleeping_producer_is_woken() {
    let (mut producer, mut consumer) = ring();
    assert_eq!(producer.put(&MESSAGE[..2]).unwrap(), 2);
    let waker = Arc::<Waker>::default();
    let reader = thread::spawn({
        let waker = Arc::clone(&waker);
        move || {
            assert_eq!(consumer.take(&mut [0]).unwrap(), 1);
            if consumer.must_wake() {
                waker.wake();
            }
        }
    });
    if !producer.is_ready() {
        producer.set_waits(true);
        if !producer.is_ready() {
            waker.wait();
        }
        producer.set_waits(false);
    }
    assert_eq!(producer.put(&MESSAGE[2..]).unwrap(), 1);
    reader.join().unwrap();
}

#[test]
fn bytes_come_out_in_order_in_every_execution() {
    explore(bytes_go_through);
}

#[test]
fn no_wake_up_of_the_consumer_is_lost() {
    explore(a_sleeping_consumer_is_woken);
}

#[test]
fn no_wake_up_of_the_producer_is_lost() {
    explore(a_sleeping_producer_is_woken);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_ring_that_publishes_with_relaxed_stores_is_found() {
    explore_with(Fault::RelaxedStores, bytes_go_through);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_ring_that_looks_with_relaxed_loads_is_found() {
    explore_with(Fault::RelaxedLoads, bytes_go_through);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_consumer_that_is_not_woken_without_fences_is_found() {
    explore_with(Fault::NoFences, a_sleeping_consumer_is_woken);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_producer_that_is_not_woken_without_fences_is_found() {
    explore_with(Fault::NoFences, a_sleeping_producer_is_woken);
}
