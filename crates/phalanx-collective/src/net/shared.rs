//! Two members on the same host agree on shared memory: one offers a file, the other accepts it or not.

use super::memory::{Ends, SIZE, Side, ends};
use phalanx_wire::{PeerStream, memory};
use std::io::{self, Read, Write};

const MEMORY: u8 = b'M';
const SOCKET: u8 = b'S';

/// Offers memory to the peer, or declines to share any. [`agreed`] receives the answer.
pub(super) fn offer(stream: &PeerStream, wanted: bool) -> io::Result<Option<Ends>> {
    // Without shared memory, the socket is used.
    let make = || memory::file(SIZE).and_then(|file| Ok((ends(&file, Side::Offering)?, file)));
    let Some((ends, file)) = wanted.then(make).and_then(Result::ok) else {
        (&mut &*stream).write_all(&[SOCKET])?;
        return Ok(None);
    };
    memory::send(stream, MEMORY, &file)?;
    Ok(Some(ends))
}

/// Accepts or declines the memory that the peer offers.
pub(super) fn accept(stream: &PeerStream, wanted: bool) -> io::Result<Option<Ends>> {
    let (word, file) = memory::receive(stream)?;
    let file = file.filter(|_| wanted && word == MEMORY);
    let ends = file.and_then(|file| ends(&file, Side::Accepting).ok());
    (&mut &*stream).write_all(&[if ends.is_some() { MEMORY } else { SOCKET }])?;
    Ok(ends)
}

/// Receives whether the peer accepted the offered memory.
pub(super) fn agreed(stream: &PeerStream) -> io::Result<bool> {
    let mut word = [0];
    (&mut &*stream).read_exact(&mut word)?;
    Ok(word[0] == MEMORY)
}
