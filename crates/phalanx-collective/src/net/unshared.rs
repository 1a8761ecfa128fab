//! Where memory cannot be handed over as a file: the socket does.

use super::memory::Ends;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

const SOCKET: u8 = b'S';

/// Says that there is no memory to share.
pub(super) fn offer(mut stream: &UnixStream, _wanted: bool) -> io::Result<Option<Ends>> {
    stream.write_all(&[SOCKET])?;
    Ok(None)
}

/// Takes nothing.
pub(super) fn accept(mut stream: &UnixStream, _wanted: bool) -> io::Result<Option<Ends>> {
    stream.read_exact(&mut [0])?;
    stream.write_all(&[SOCKET])?;
    Ok(None)
}

/// Hears that nothing was taken.
pub(super) fn agreed(mut stream: &UnixStream) -> io::Result<bool> {
    stream.read_exact(&mut [0])?;
    Ok(false)
}
