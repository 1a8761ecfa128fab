//! Pipes between threads of one process.

use crate::group_failure::GroupFailure;
use crate::pipes::Pipes;
use phalanx_base::Error;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The capacity of a pipe: large enough to decouple both sides, small enough for the cache.
const PIPE: usize = 256 << 10;

/// All pipes of a group.
pub(crate) struct LocalPipes {
    size: usize,
    /// Indexed by `from * size + to`.
    pipes: Vec<Mutex<Pipe>>,
    wakers: Vec<Waker>,
    failure_state: Arc<GroupFailure>,
}

#[derive(Default)]
struct Pipe {
    /// A ring buffer, allocated on first use.
    bytes: Box<[u8]>,
    start: usize,
    length: usize,
    closed: bool,
}

#[derive(Default)]
struct Waker {
    count: Mutex<u64>,
    changed: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A pipe is changed only after everything that can panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Waker {
    fn wake(&self) {
        *lock(&self.count) += 1;
        self.changed.notify_all();
    }
}

impl Pipe {
    fn put(&mut self, mut from: &[u8]) -> usize {
        if self.bytes.is_empty() {
            self.bytes = vec![0; PIPE].into();
        }
        let mut moved = 0;
        while !from.is_empty() && self.length < PIPE {
            let at = (self.start + self.length) % PIPE;
            let n = from.len().min(PIPE - self.length).min(PIPE - at);
            self.bytes[at..at + n].copy_from_slice(&from[..n]);
            from = &from[n..];
            self.length += n;
            moved += n;
        }
        moved
    }

    fn take(&mut self, into: &mut [u8]) -> usize {
        let mut moved = 0;
        while moved < into.len() && self.length > 0 {
            let n = (into.len() - moved).min(self.length).min(PIPE - self.start);
            into[moved..moved + n].copy_from_slice(&self.bytes[self.start..self.start + n]);
            self.start = (self.start + n) % PIPE;
            self.length -= n;
            moved += n;
        }
        moved
    }
}

impl LocalPipes {
    pub(crate) fn new(size: usize, failure_state: Arc<GroupFailure>) -> Arc<Self> {
        let pipes = (0..size * size).map(|_| Mutex::default()).collect();
        let wakers = (0..size).map(|_| Waker::default()).collect();
        Arc::new(Self { size, pipes, wakers, failure_state })
    }

    pub(crate) fn member(self: &Arc<Self>, rank: usize) -> Local {
        Local { local: Arc::clone(self), rank, seen: 0 }
    }

    fn pipe(&self, from: usize, to: usize) -> MutexGuard<'_, Pipe> {
        lock(&self.pipes[from * self.size + to])
    }

    fn wake_all(&self) {
        self.wakers.iter().for_each(Waker::wake);
    }
}

/// One thread's ends.
pub(crate) struct Local {
    local: Arc<LocalPipes>,
    rank: usize,
    seen: u64,
}

impl Pipes for Local {
    fn listen(&mut self) {
        self.seen = *lock(&self.local.wakers[self.rank].count);
    }

    fn send(&mut self, to: usize, first: &[u8], second: &[u8]) -> io::Result<usize> {
        let mut pipe = self.local.pipe(self.rank, to);
        if pipe.closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut moved = pipe.put(first);
        if moved == first.len() {
            moved += pipe.put(second);
        }
        drop(pipe);
        if moved > 0 {
            self.local.wakers[to].wake();
        }
        Ok(moved)
    }

    fn receive(&mut self, from: usize, into: &mut [u8]) -> io::Result<usize> {
        let mut pipe = self.local.pipe(from, self.rank);
        let moved = pipe.take(into);
        let closed = pipe.closed;
        drop(pipe);
        match moved {
            0 if closed && !into.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            0 => Ok(0),
            _ => {
                self.local.wakers[from].wake();
                Ok(moved)
            }
        }
    }

    fn wait(&mut self, _to: Option<usize>, _from: Option<usize>, timeout: Duration) {
        let waker = &self.local.wakers[self.rank];
        let seen = self.seen;
        // The caller checks by itself what happened.
        let _ = waker.changed.wait_timeout_while(lock(&waker.count), timeout, |count| *count == seen);
    }

    fn broadcast_failure(&mut self, _error: &Error) {
        // All members share the failure state.
        self.local.wake_all();
    }

    fn close(&mut self) {
        self.local.failure_state.set_left(self.rank);
        for other in 0..self.local.size {
            self.local.pipe(self.rank, other).closed = true;
            self.local.pipe(other, self.rank).closed = true;
        }
        self.local.wake_all();
    }
}
