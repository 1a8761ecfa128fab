//! What members tell each other beside their numbers: signs of life, failures, goodbyes.

use crate::board::{Board, Position};
use crate::call::Call;
use phalanx_base::{Code, Error};
use phalanx_wire::proto::collective::{Beat, Goodbye, Notice, notice};
use phalanx_wire::{from_wire, to_wire};
use prost::Message;
use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The longest notice that is accepted.
const LONGEST: usize = 64 << 10;

/// The lanes for notices, and the bell that wakes the member when the group has failed.
pub(super) struct Notices {
    rank: usize,
    pub(super) lanes: Vec<Option<UnixStream>>,
    pub(super) board: Arc<Board>,
    bell: UnixStream,
    /// Notices come whole: two threads write them.
    writing: Mutex<()>,
    pub(super) closing: AtomicBool,
}

impl Notices {
    pub(super) fn new(rank: usize, lanes: Vec<Option<UnixStream>>, board: Arc<Board>, bell: UnixStream) -> Self {
        Self { rank, lanes, board, bell, writing: Mutex::new(()), closing: AtomicBool::new(false) }
    }

    fn say(&self, kind: notice::Kind) {
        let notice = Notice { kind: Some(kind) };
        let mut bytes = (notice.encoded_len() as u32).to_le_bytes().to_vec();
        bytes.extend(notice.encode_to_vec());
        let _alone = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        for mut lane in self.lanes.iter().flatten() {
            // A lane holds hundreds of notices. One that takes none is of a member that has been silent for long, and
            // whose silence speaks for itself; one that takes half of a notice cannot be used any more.
            if lane.write(&bytes).is_ok_and(|written| written < bytes.len()) {
                let _ = lane.shutdown(Shutdown::Both);
            }
        }
    }

    /// Tells the others where this member is.
    pub(super) fn beat(&self) {
        let Position { call, inside } = self.board.position(self.rank);
        let call = call.map_or_else(Vec::new, |call| call.header(0).to_vec());
        self.say(notice::Kind::Beat(Beat { call, inside }));
    }

    /// Tells the others that the group has failed.
    pub(super) fn spread(&self, error: &Error) {
        self.say(notice::Kind::Abort(to_wire(error)));
    }

    /// Ends the group, unless it has ended already.
    pub(super) fn fail(&self, error: Error) {
        let (error, first) = self.board.fail(error);
        if first {
            self.spread(&error);
            // The bell is never emptied: one byte is enough for ever.
            let _ = (&self.bell).write(&[1]);
        }
    }

    /// Says goodbye and closes.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Release);
        // A panic is not a goodbye: the others should see this member as lost.
        if !std::thread::panicking() {
            self.say(notice::Kind::Goodbye(Goodbye {}));
        }
        for lane in self.lanes.iter().flatten() {
            let _ = lane.shutdown(Shutdown::Both);
        }
    }

    /// Takes a notice of member `from`.
    pub(super) fn take(&self, from: usize, notice: Notice) {
        match notice.kind {
            Some(notice::Kind::Beat(beat)) => {
                let call = Call::read(&beat.call).map(|(call, _)| call);
                if let Err(error) = self.board.note(from, Position { call, inside: beat.inside }) {
                    self.fail(error);
                }
            }
            Some(notice::Kind::Abort(fault)) => {
                let unknown = || Error::new(Code::JobFailed, format!("{} failed", self.board.name(from)));
                self.fail(from_wire(fault).unwrap_or_else(unknown));
            }
            Some(notice::Kind::Goodbye(_)) => self.board.set_left(from),
            None => {}
        }
    }
}

/// The first notice in `bytes`, taken out; an error if there can be none.
pub(super) fn first_notice(bytes: &mut Vec<u8>) -> Result<Option<Notice>, ()> {
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    if length > LONGEST {
        return Err(());
    }
    let Some(whole) = rest.get(..length) else { return Ok(None) };
    let notice = Notice::decode(whole).map_err(|_| ())?;
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
