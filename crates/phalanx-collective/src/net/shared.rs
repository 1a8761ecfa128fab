//! Two neighbours agree on memory to share: one offers a file, the other takes it or not.

use super::memory::{Ring, SIZE};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

const MEMORY: u8 = b'M';
const SOCKET: u8 = b'S';

/// A file in memory for two rings, whose size is fixed.
pub(super) fn memory_file() -> io::Result<OwnedFd> {
    let file = memfd_create("phalanx", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, SIZE as u64)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file)
}

/// Offers memory to the neighbour, or says that there is none to share. [`agreed`] hears the answer.
pub(super) fn offer(stream: &UnixStream, wanted: bool) -> io::Result<Option<[Ring; 2]>> {
    // Where there is no memory to share, the socket does.
    let made = wanted.then(|| memory_file().and_then(|file| Ok((Ring::pair(&file)?, file)))).and_then(Result::ok);
    let Some((rings, file)) = made else {
        (&mut &*stream).write_all(&[SOCKET])?;
        return Ok(None);
    };
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&files));
    sendmsg(stream, &[IoSlice::new(&[MEMORY])], &mut control, SendFlags::NOSIGNAL)?;
    Ok(Some(rings))
}

/// Takes what the neighbour offers, and tells it so. Rings in the neighbour's order: what it writes first.
pub(super) fn accept(stream: &UnixStream, wanted: bool) -> io::Result<Option<[Ring; 2]>> {
    let mut word = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(stream, &mut [IoSliceMut::new(&mut word)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    if got.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut file = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(files) = message {
            file = files.last();
        }
    }
    let rings = file.filter(|file| wanted && word[0] == MEMORY && is_fit(file)).and_then(|file| Ring::pair(&file).ok());
    (&mut &*stream).write_all(&[if rings.is_some() { MEMORY } else { SOCKET }])?;
    Ok(rings)
}

/// Whether the neighbour took what was offered.
pub(super) fn agreed(stream: &UnixStream) -> io::Result<bool> {
    let mut word = [0];
    (&mut &*stream).read_exact(&mut word)?;
    Ok(word[0] == MEMORY)
}

/// A file that became shorter would kill whoever touches its end.
fn is_fit(file: &OwnedFd) -> bool {
    fstat(file).is_ok_and(|stat| stat.st_size == SIZE as i64)
        && fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK))
}
