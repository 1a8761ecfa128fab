//! Pipes between threads of one process.

use crate::board::Board;
use crate::pipes::Pipes;
use phalanx_base::Error;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What a pipe holds: enough that neither side waits for the other at every piece, and still in the cache.
const PIPE: usize = 256 << 10;

/// All pipes of a group.
pub(crate) struct Room {
    size: usize,
    /// From one to another: `from * size + to`.
    pipes: Vec<Mutex<Pipe>>,
    bells: Vec<Bell>,
    board: Arc<Board>,
}

#[derive(Default)]
struct Pipe {
    /// A ring; allocated when first used.
    bytes: Box<[u8]>,
    start: usize,
    length: usize,
    closed: bool,
}

#[derive(Default)]
struct Bell {
    rings: Mutex<u64>,
    rung: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A pipe is changed only after everything that can panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Bell {
    fn ring(&self) {
        *lock(&self.rings) += 1;
        self.rung.notify_all();
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

impl Room {
    pub(crate) fn new(size: usize, board: Arc<Board>) -> Arc<Self> {
        let pipes = (0..size * size).map(|_| Mutex::default()).collect();
        let bells = (0..size).map(|_| Bell::default()).collect();
        Arc::new(Self { size, pipes, bells, board })
    }

    pub(crate) fn member(self: &Arc<Self>, rank: usize) -> Local {
        Local { room: Arc::clone(self), rank, heard: 0 }
    }

    fn pipe(&self, from: usize, to: usize) -> MutexGuard<'_, Pipe> {
        lock(&self.pipes[from * self.size + to])
    }

    fn ring_all(&self) {
        self.bells.iter().for_each(Bell::ring);
    }
}

/// One thread's ends.
pub(crate) struct Local {
    room: Arc<Room>,
    rank: usize,
    heard: u64,
}

impl Pipes for Local {
    fn listen(&mut self) {
        self.heard = *lock(&self.room.bells[self.rank].rings);
    }

    fn send(&mut self, to: usize, first: &[u8], second: &[u8]) -> io::Result<usize> {
        let mut pipe = self.room.pipe(self.rank, to);
        if pipe.closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut moved = pipe.put(first);
        if moved == first.len() {
            moved += pipe.put(second);
        }
        drop(pipe);
        if moved > 0 {
            self.room.bells[to].ring();
        }
        Ok(moved)
    }

    fn receive(&mut self, from: usize, into: &mut [u8]) -> io::Result<usize> {
        let mut pipe = self.room.pipe(from, self.rank);
        let moved = pipe.take(into);
        let closed = pipe.closed;
        drop(pipe);
        match moved {
            0 if closed && !into.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            0 => Ok(0),
            _ => {
                self.room.bells[from].ring();
                Ok(moved)
            }
        }
    }

    fn wait(&mut self, _to: Option<usize>, _from: Option<usize>, timeout: Duration) {
        let bell = &self.room.bells[self.rank];
        let heard = self.heard;
        // Whether it rang or the time is up: the caller looks for itself.
        let _ = bell.rung.wait_timeout_while(lock(&bell.rings), timeout, |rings| *rings == heard);
    }

    fn spread(&mut self, _error: &Error) {
        // The board is everybody's.
        self.room.ring_all();
    }

    fn close(&mut self) {
        self.room.board.set_left(self.rank);
        for other in 0..self.room.size {
            self.room.pipe(self.rank, other).closed = true;
            self.room.pipe(other, self.rank).closed = true;
        }
        self.room.ring_all();
    }
}
