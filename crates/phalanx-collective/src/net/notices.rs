//! The notices between members: heartbeats, failures, goodbyes.

use crate::call::Call;
use crate::group_failure::{GroupFailure, Position};
use crate::proto::{Beat, Goodbye, Notice, notice};
use phalanx_base::{Code, Error};
use phalanx_wire::{PeerStream, error_from_bytes, error_to_bytes};
use prost::Message;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The longest notice that is accepted.
const MAX_BYTES: usize = 64 << 10;

/// The notice lanes, and the waker of the member's thread, used when the group fails.
pub(super) struct Notices {
    rank: usize,
    pub(super) lanes: Vec<Option<PeerStream>>,
    pub(super) failure_state: Arc<GroupFailure>,
    waker: UnixStream,
    /// Two threads write notices; each is written as a whole.
    writing: Mutex<()>,
    pub(super) closing: AtomicBool,
}

impl Notices {
    pub(super) fn new(
        rank: usize,
        lanes: Vec<Option<PeerStream>>,
        failure_state: Arc<GroupFailure>,
        waker: UnixStream,
    ) -> Self {
        Self { rank, lanes, failure_state, waker, writing: Mutex::new(()), closing: AtomicBool::new(false) }
    }

    fn send(&self, kind: notice::Kind) {
        let notice = Notice { kind: Some(kind) };
        let mut bytes = (notice.encoded_len() as u32).to_le_bytes().to_vec();
        bytes.extend(notice.encode_to_vec());
        let _alone = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        for mut lane in self.lanes.iter().flatten() {
            // A lane holds hundreds of notices. One that takes none belongs to a member that has been silent for long, which
            // the watch reports; one that takes half of a notice cannot be used any more.
            if lane.write(&bytes).is_ok_and(|written| written < bytes.len()) {
                let _ = lane.shutdown(Shutdown::Both);
            }
        }
    }

    /// Sends a heartbeat with this member's progress.
    pub(super) fn beat(&self) {
        let Position { call, inside } = self.failure_state.position(self.rank);
        let call = call.map(|call| call.header(0).to_vec());
        self.send(notice::Kind::Beat(Beat { call, inside }));
    }

    /// Tells the other members that the group has failed.
    pub(super) fn broadcast_failure(&self, error: &Error) {
        self.send(notice::Kind::Abort(error_to_bytes(error)));
    }

    /// Ends the group, unless it has ended already.
    pub(super) fn fail(&self, error: Error) {
        let (error, first) = self.failure_state.fail(error);
        if first {
            self.broadcast_failure(&error);
            // The waker is never drained: one byte is enough, because a failed group stays failed.
            let _ = (&self.waker).write(&[1]);
        }
    }

    /// Sends a goodbye and ends the lanes.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Release);
        // A member that panics sends no goodbye: the others should see it as lost.
        if !std::thread::panicking() {
            self.send(notice::Kind::Goodbye(Goodbye {}));
        }
        for lane in self.lanes.iter().flatten() {
            let _ = lane.shutdown(if lane.is_same_host() { Shutdown::Both } else { Shutdown::Write });
        }
    }

    /// Waits until the members on other hosts have ended their lanes too, which they do when they have read the goodbye. A
    /// connection that is closed while heartbeats arrive is reset, and a goodbye on its way could be lost with it.
    pub(super) fn await_ends(&self, patience: Duration) {
        let until = Instant::now() + patience;
        let mut open: Vec<&PeerStream> = self.lanes.iter().flatten().filter(|lane| !lane.is_same_host()).collect();
        while !open.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            let mut polled: Vec<PollFd<'_>> = open.iter().map(|lane| PollFd::new(*lane, PollFlags::IN)).collect();
            let timeout = Timespec::try_from(left).unwrap_or_default();
            if left.is_zero() || poll(&mut polled, Some(&timeout)).is_err() {
                return;
            }
            open.retain(|lane| !is_over(lane));
        }
    }

    /// Handles a notice of member `from`.
    pub(super) fn handle(&self, from: usize, notice: Notice) {
        match notice.kind {
            Some(notice::Kind::Beat(beat)) => {
                let call = beat.call.and_then(|call| Call::read(&call)).map(|(call, _)| call);
                if let Err(error) = self.failure_state.record(from, Position { call, inside: beat.inside }) {
                    self.fail(error);
                }
            }
            Some(notice::Kind::Abort(error)) => {
                let unknown = || Error::new(Code::JobFailed, format!("{} failed", self.failure_state.name(from)));
                self.fail(error_from_bytes(&error[..]).unwrap_or_else(unknown));
            }
            Some(notice::Kind::Goodbye(_)) => self.failure_state.set_left(from),
            None => {}
        }
    }
}

/// Drops what has arrived, and returns whether the lane has ended.
fn is_over(mut lane: &PeerStream) -> bool {
    let mut dropped = [0; 4096];
    loop {
        match lane.read(&mut dropped) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
}

/// Removes the first notice from `bytes`; `None` if it is incomplete, an error if it is malformed.
pub(super) fn first_notice(bytes: &mut Vec<u8>) -> Result<Option<Notice>, ()> {
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    if length > MAX_BYTES {
        return Err(());
    }
    let Some(bytes_of_notice) = rest.get(..length) else { return Ok(None) };
    let notice = Notice::decode(bytes_of_notice).map_err(|_| ())?;
    bytes.drain(..4 + length);
    Ok(Some(notice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_come_out_one_by_one_and_garbage_is_refused() {
        let notice = Notice { kind: Some(notice::Kind::Goodbye(Goodbye {})) };
        let mut one = (notice.encoded_len() as u32).to_le_bytes().to_vec();
        one.extend(notice.encode_to_vec());
        let mut bytes = [&one[..], &one, &one[..3]].concat();
        assert_eq!(first_notice(&mut bytes), Ok(Some(notice.clone())));
        assert_eq!(first_notice(&mut bytes), Ok(Some(notice)));
        assert_eq!((first_notice(&mut bytes), bytes.len()), (Ok(None), 3));
        assert_eq!(first_notice(&mut vec![255; 9]), Err(()));
    }
}
