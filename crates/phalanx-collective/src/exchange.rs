//! The exchange of one message for another, from which every algorithm is built.
//!
//! Nothing is allocated here: numbers are sent from and received into the caller's memory.

use crate::call::{Call, HEADER};
use crate::group_failure::{GroupFailure, Position};
use crate::pipes::Pipes;
use crate::reduce::add;
use phalanx_base::{Code, Error, Result};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Numbers to be added are read in pieces of this length, so that they are still in the L2 cache when added.
const PIECE: usize = 16 << 10;
/// How long to wait, after a connection was closed, for a notice with the reason.
const EXPLANATION: Duration = Duration::from_millis(300);
/// The longest sleep between two checks.
const NAP: Duration = Duration::from_millis(500);

/// The destination of a message's numbers.
pub(crate) enum Into<'a> {
    /// They replace what is there.
    Copy(&'a mut [u8]),
    /// They are added to what is there.
    Add(&'a mut [f32]),
}

/// A member, and the call that it is in.
pub(crate) struct Member {
    pub(crate) rank: usize,
    pub(crate) size: usize,
    pub(crate) failure_state: Arc<GroupFailure>,
    pub(crate) pipes: Box<dyn Pipes>,
    pub(crate) patience: Duration,
    call: Option<Call>,
    piece: Vec<f32>,
}

impl Member {
    pub(crate) fn new(
        rank: usize,
        size: usize,
        failure_state: Arc<GroupFailure>,
        pipes: Box<dyn Pipes>,
        patience: Duration,
    ) -> Self {
        Self { rank, size, failure_state, pipes, patience, call: None, piece: vec![0.0; PIECE] }
    }

    /// Executes one call. Any error in it ends the group.
    pub(crate) fn run<T>(&mut self, call: Call, body: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if let Some(error) = self.failure_state.failure() {
            return Err(error);
        }
        self.call = Some(call);
        let inside = Position { call: self.call, inside: true };
        self.failure_state.record(self.rank, inside).map_err(|error| self.fail(error))?;
        let result = body(self).map_err(|error| self.fail(error));
        if result.is_ok() {
            // The call was checked when it began.
            let _ = self.failure_state.record(self.rank, Position { inside: false, ..inside });
        }
        result
    }

    /// Ends the group for all members, unless it has ended already. Returns the error it ended with.
    pub(crate) fn fail(&mut self, error: Error) -> Error {
        let (error, first) = self.failure_state.fail(error);
        if first {
            self.pipes.broadcast_failure(&error);
        }
        error
    }

    /// Sends one message and receives another at the same time.
    pub(crate) fn exchange(&mut self, send: Option<(usize, &[u8])>, receive: Option<(usize, Into<'_>)>) -> Result<()> {
        let Some(call) = self.call else { return Ok(()) };
        let mut out = send.map(|(to, bytes)| Outgoing { to, header: call.header(bytes.len()), bytes, done: 0 });
        let mut coming =
            receive.map(|(from, into)| Incoming { from, call, header: [0; HEADER], into, done: 0, rest: 0 });
        let mut still_since: Option<Instant> = None;
        loop {
            self.pipes.listen();
            let mut moved = 0;
            if let Some(message) = &mut out {
                match message.step(&mut *self.pipes) {
                    Ok(bytes) => moved += bytes,
                    Err(_) => return Err(self.broken(message.to)),
                }
            }
            if let Some(message) = &mut coming {
                match message.step(&mut *self.pipes, &mut self.piece) {
                    Ok(bytes) => moved += bytes,
                    Err(Broken::Pipe) => return Err(self.broken(message.from)),
                    Err(Broken::Header(theirs)) => return Err(self.differs(message.from, call, theirs)),
                }
            }
            out = out.filter(|message| !message.is_done());
            coming = coming.filter(|message| !message.is_done());
            if out.is_none() && coming.is_none() {
                return Ok(());
            }
            if moved > 0 {
                still_since = None;
                continue;
            }
            if let Some(error) = self.failure_state.failure() {
                return Err(error);
            }
            let waited = still_since.get_or_insert_with(Instant::now).elapsed();
            let (to, from) = (out.as_ref().map(|message| message.to), coming.as_ref().map(|message| message.from));
            match self.patience.checked_sub(waited) {
                Some(left) if !left.is_zero() => self.pipes.wait(to, from, left.min(NAP)),
                _ => return Err(self.failure_state.late(self.rank, from.or(to).unwrap_or(self.rank), self.patience)),
            }
        }
    }

    /// Returns the error for a closed pipe: a notice with the reason may still arrive.
    fn broken(&mut self, peer: usize) -> Error {
        let until = Instant::now() + EXPLANATION;
        loop {
            self.pipes.listen();
            let left = until.saturating_duration_since(Instant::now());
            match self.failure_state.failure() {
                Some(error) => return error,
                None if left.is_zero() || self.failure_state.left(peer) => return self.failure_state.gone(peer),
                None => self.pipes.wait(None, None, left),
            }
        }
    }

    fn differs(&self, peer: usize, own: Call, theirs: Option<Call>) -> Error {
        match theirs {
            Some(theirs) if theirs != own => self.failure_state.mismatch((self.rank, &own), (peer, &theirs)),
            _ => Error::new(Code::BadMessage, format!("a message of {} is malformed", self.failure_state.name(peer)))
                .because(format!("it does not fit {own}"))
                .help("check whether another program writes to this member's port"),
        }
    }
}

struct Outgoing<'a> {
    to: usize,
    header: [u8; HEADER],
    bytes: &'a [u8],
    done: usize,
}

impl Outgoing<'_> {
    fn is_done(&self) -> bool {
        self.done == HEADER + self.bytes.len()
    }

    fn step(&mut self, pipes: &mut dyn Pipes) -> io::Result<usize> {
        let (header, bytes) = (&self.header[self.done.min(HEADER)..], &self.bytes[self.done.saturating_sub(HEADER)..]);
        let moved = pipes.send(self.to, header, bytes)?;
        self.done += moved;
        Ok(moved)
    }
}

enum Broken {
    Pipe,
    Header(Option<Call>),
}

struct Incoming<'a> {
    from: usize,
    call: Call,
    header: [u8; HEADER],
    into: Into<'a>,
    /// Bytes received, header included.
    done: usize,
    /// Bytes received of an incomplete number.
    rest: usize,
}

impl Incoming<'_> {
    fn bytes(&self) -> usize {
        match &self.into {
            Into::Copy(bytes) => bytes.len(),
            Into::Add(numbers) => 4 * numbers.len(),
        }
    }

    fn is_done(&self) -> bool {
        self.done == HEADER + self.bytes()
    }

    fn step(&mut self, pipes: &mut dyn Pipes, piece: &mut [f32]) -> Result<usize, Broken> {
        let mut moved = 0;
        if self.done < HEADER {
            moved = pipes.receive(self.from, &mut self.header[self.done..]).map_err(|_| Broken::Pipe)?;
            self.done += moved;
            if self.done < HEADER {
                return Ok(moved);
            }
            match Call::read(&self.header) {
                Some((call, bytes)) if call == self.call && bytes == self.bytes() as u64 => {}
                other => return Err(Broken::Header(other.map(|(call, _)| call))),
            }
        }
        let body = self.done - HEADER;
        let more = match &mut self.into {
            Into::Copy(bytes) => pipes.receive(self.from, &mut bytes[body..]),
            Into::Add(numbers) => {
                let start = body / 4;
                let numbers = &mut numbers[start..];
                let end = (4 * numbers.len()).min(size_of_val(piece));
                let bytes: &mut [u8] = bytemuck::cast_slice_mut(piece);
                let more = pipes.receive(self.from, &mut bytes[self.rest..end]);
                if let Ok(more) = more {
                    let there = self.rest + more;
                    let complete = there / 4;
                    add(&mut numbers[..complete], &piece[..complete]);
                    bytemuck::cast_slice_mut::<_, u8>(piece).copy_within(4 * complete..there, 0);
                    self.rest = there % 4;
                }
                more
            }
        };
        let more = more.map_err(|_| Broken::Pipe)?;
        self.done += more;
        Ok(moved + more)
    }
}
