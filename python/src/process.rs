//! What belongs to one process: a fork has neither its threads nor its connections.

use phalanx_base::{Code, Error, Result};
use pyo3::prelude::*;
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering};

/// The first process that made a call that can wait; 0 before. Thread pools that libraries keep for the whole process, such as
/// rayon's, started there: a fork would wait for them forever.
static FIRST: AtomicU32 = AtomicU32::new(0);

/// The process that something was made in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    pub(crate) fn this() -> Self {
        Self(std::process::id())
    }

    /// # Errors
    /// In another process, and in one that was forked after Phalanx had been used.
    pub(crate) fn check(self) -> Result<()> {
        let this = Self::this();
        let first = FIRST.compare_exchange(0, this.0, Ordering::AcqRel, Ordering::Acquire);
        let first = Self(first.err().unwrap_or(this.0));
        let (what, parent) = match (self == this, first == this) {
            (true, true) => return Ok(()),
            (false, _) => ("this object was made before a fork", self),
            (true, false) => ("this process was forked after Phalanx had been used", first),
        };
        Err(Error::new(Code::Forked, what)
            .at(format!("process {}, forked from process {}", this.0, parent.0))
            .because("the threads and connections of Phalanx stayed in the parent")
            .help("start processes with the method \"spawn\": DataLoader(multiprocessing_context=\"spawn\")"))
    }
}

/// A value with threads and connections. Where it was made, it is dropped without the GIL, which its threads may be waiting for.
/// A fork of that process leaks it: dropping it would wait for threads that are not there, or speak for the parent on its
/// connections.
#[derive(Debug)]
pub(crate) struct Held<T: Send> {
    /// `Some` until it is dropped.
    value: Option<T>,
    process: Process,
}

impl<T: Send> Held<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Some(value), process: Process::this() }
    }
}

impl<T: Send> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("a value until it is dropped")
    }
}

impl<T: Send> Drop for Held<T> {
    fn drop(&mut self) {
        let Some(value) = self.value.take() else { return };
        if self.process == Process::this() {
            Python::attach(|py| py.detach(move || drop(value)));
        } else {
            std::mem::forget(value);
        }
    }
}
