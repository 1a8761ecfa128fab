//! Memory shared by two tasks on the same host: an anonymous file, passed over a Unix socket.
//!
//! The reason for the unsafe code: the kernel copies numbers that go through a socket twice, which took a fifth of a
//! step (docs/performance.md).

#![allow(unsafe_code)]

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr;

/// Creates a file in memory of a fixed size. Its pages are allocated when touched.
///
/// # Errors
/// When the operating system cannot create it.
pub fn file(size: usize) -> io::Result<OwnedFd> {
    let file = memfd_create("phalanx", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, size as u64)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file)
}

/// Sends one byte and a file.
///
/// # Errors
/// When the socket fails.
pub fn send(socket: impl AsFd, byte: u8, file: &OwnedFd) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&files));
    sendmsg(socket, &[IoSlice::new(&[byte])], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives one byte and the file sent with it.
///
/// # Errors
/// When the socket is closed, or fails.
pub fn receive(socket: impl AsFd) -> io::Result<(u8, Option<OwnedFd>)> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    if got.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut file = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(files) = message {
            file = files.last();
        }
    }
    Ok((byte[0], file))
}

/// A mapped file in memory.
#[derive(Debug)]
pub struct Mapping {
    address: *mut u8,
    size: usize,
}

// SAFETY: the memory is valid until the value is dropped, on whatever thread; each access justifies itself.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps all of a file, which must have exactly this size and be sealed against shrinking: accessing the end of a
    /// shrunk file would kill the process.
    ///
    /// # Errors
    /// When it is not such a file, or it cannot be mapped.
    pub fn new(file: &OwnedFd, size: usize) -> io::Result<Self> {
        if fstat(file)?.st_size != size as i64 || !fcntl_get_seals(file)?.contains(SealFlags::SHRINK) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not memory of the agreed size"));
        }
        // SAFETY: a new mapping at an address that the kernel chooses; it aliases nothing in this process. Accessing it
        // cannot fault, since the file cannot shrink.
        let address =
            unsafe { mmap(ptr::null_mut(), size, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file, 0)? };
        Ok(Self { address: address.cast(), size })
    }

    /// Returns the address of its first byte.
    #[must_use]
    pub fn address(&self) -> *mut u8 {
        self.address
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this size, and no access to it remains.
        let _ = unsafe { munmap(self.address.cast(), self.size) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn what_one_side_writes_the_other_reads() {
        let (near, far) = UnixStream::pair().unwrap();
        let given = file(8192).unwrap();
        send(&near, b'M', &given).unwrap();
        let (byte, taken) = receive(&far).unwrap();
        let (one, other) = (Mapping::new(&given, 8192).unwrap(), Mapping::new(&taken.unwrap(), 8192).unwrap());
        // SAFETY: both are 8192 bytes long, and nothing else uses them.
        let read = unsafe {
            one.address().add(5000).write(42);
            other.address().add(5000).read()
        };
        assert_eq!((byte, read), (b'M', 42));
    }

    #[test]
    fn memory_of_another_size_or_without_a_seal_is_refused() {
        assert!(Mapping::new(&file(4096).unwrap(), 8192).is_err());
        let unsealed = memfd_create("phalanx", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&unsealed, 4096).unwrap();
        assert!(Mapping::new(&unsealed, 4096).is_err());
        let (near, far) = UnixStream::pair().unwrap();
        drop(near);
        assert!(receive(&far).is_err());
    }
}
