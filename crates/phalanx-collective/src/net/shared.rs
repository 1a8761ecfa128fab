//! Two neighbours agree on memory to share: one offers a file, the other takes it or not.

use super::memory::{Ring, SIZE};
use phalanx_wire::memory;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

const MEMORY: u8 = b'M';
const SOCKET: u8 = b'S';

/// Offers memory to the neighbour, or says that there is none to share. [`agreed`] hears the answer.
pub(super) fn offer(stream: &UnixStream, wanted: bool) -> io::Result<Option<[Ring; 2]>> {
    // Where there is no memory to share, the socket does.
    let made = wanted.then(|| memory::file(SIZE).and_then(|file| Ok((Ring::pair(&file)?, file)))).and_then(Result::ok);
    let Some((rings, file)) = made else {
        (&mut &*stream).write_all(&[SOCKET])?;
        return Ok(None);
    };
    memory::send(stream, MEMORY, &file)?;
    Ok(Some(rings))
}

/// Takes what the neighbour offers, and tells it so. Rings in the neighbour's order: what it writes first.
pub(super) fn accept(stream: &UnixStream, wanted: bool) -> io::Result<Option<[Ring; 2]>> {
    let (word, file) = memory::receive(stream)?;
    let rings = file.filter(|_| wanted && word == MEMORY).and_then(|file| Ring::pair(&file).ok());
    (&mut &*stream).write_all(&[if rings.is_some() { MEMORY } else { SOCKET }])?;
    Ok(rings)
}

/// Whether the neighbour took what was offered.
pub(super) fn agreed(stream: &UnixStream) -> io::Result<bool> {
    let mut word = [0];
    (&mut &*stream).read_exact(&mut word)?;
    Ok(word[0] == MEMORY)
}
