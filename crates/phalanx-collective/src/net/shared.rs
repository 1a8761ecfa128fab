//! Two neighbours agree on memory to share: one offers a file, the other takes it or not.

use super::memory::{Ends, SIZE, Side, ends};
use phalanx_wire::memory;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

const MEMORY: u8 = b'M';
const SOCKET: u8 = b'S';

/// Offers memory to the neighbour, or says that there is none to share. [`agreed`] hears the answer.
pub(super) fn offer(stream: &UnixStream, wanted: bool) -> io::Result<Option<Ends>> {
    // Where there is no memory to share, the socket does.
    let make = || memory::file(SIZE).and_then(|file| Ok((ends(&file, Side::Offering)?, file)));
    let Some((ends, file)) = wanted.then(make).and_then(Result::ok) else {
        (&mut &*stream).write_all(&[SOCKET])?;
        return Ok(None);
    };
    memory::send(stream, MEMORY, &file)?;
    Ok(Some(ends))
}

/// Takes what the neighbour offers, and tells it so.
pub(super) fn accept(stream: &UnixStream, wanted: bool) -> io::Result<Option<Ends>> {
    let (word, file) = memory::receive(stream)?;
    let file = file.filter(|_| wanted && word == MEMORY);
    let ends = file.and_then(|file| ends(&file, Side::Accepting).ok());
    (&mut &*stream).write_all(&[if ends.is_some() { MEMORY } else { SOCKET }])?;
    Ok(ends)
}

/// Whether the neighbour took what was offered.
pub(super) fn agreed(stream: &UnixStream) -> io::Result<bool> {
    let mut word = [0];
    (&mut &*stream).read_exact(&mut word)?;
    Ok(word[0] == MEMORY)
}
